import numpy as np
import pytest
import torch

from noisyfl.core.options import BadInput
from noisyfl.methods.fedavg import FedAvg
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Epoch, batches
from noisyfl.simulation.weights import average


@pytest.mark.parametrize(
    ("samples", "size", "expected"),
    [(10, 5, [5, 5]), (12, 5, [5, 5, 2]), (11, 5, [5, 5]), (1, 5, [1]), (3, 5, [3]), (0, 5, [])],
)
def test_batches_cover_the_positions_but_for_a_last_single_one(samples, size, expected):
    positions = np.arange(samples) * 7
    steps = batches(positions, size, np.random.default_rng(0))
    assert [len(step) for step in steps] == expected
    drawn = np.concatenate(steps) if steps else np.array([])
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(positions)


def test_average_is_the_weighted_mean_of_floats_and_keeps_counters():
    models = [
        {"w": torch.tensor([1.0, 2.0]), "running": torch.tensor(4.0), "n": torch.tensor(7)},
        {"w": torch.tensor([5.0, 6.0]), "running": torch.tensor(8.0), "n": torch.tensor(9)},
    ]
    mean = average(models, [1.0, 3.0])
    assert mean["w"].tolist() == [4.0, 5.0]
    assert float(mean["running"]) == 7.0
    assert mean["n"] is not models[0]["n"]
    assert int(mean["n"]) == 7


@pytest.mark.parametrize(
    ("participation", "clients", "expected"),
    [(0.1, 100, 10), (0.29, 100, 29), (0.3, 20, 6), (0.02, 500, 10), (0.01, 20, 1), (1, 7, 7)],
)
def test_participants_of_an_ordinary_round(participation, clients, expected):
    schedule = Schedule(
        **{
            "rounds": 1,
            "participation": participation,
            "local_epochs": 1,
            "batch_size": 1,
            "learning_rate": 1,
        }
    )
    assert schedule.participants(clients) == expected


LABELS = torch.zeros(5, dtype=torch.int64)
CLIENT = Client(id=0, rows=LABELS, given=LABELS, true=LABELS)


@pytest.mark.parametrize(
    ("positions", "got"),
    [
        (np.array([True, False, True, True, False]), r"bool \[5\]"),
        (torch.arange(5), r"torch\.int64 \[5\]"),
        (np.zeros((5, 1), dtype=np.int64), r"int64 \[5, 1\]"),
        (np.array([-1, 5]), "-1 to 5"),
    ],
)
def test_what_is_no_position_is_refused_by_name(monkeypatch, positions, got):
    expected = rf"got {got}, expected an int64 array of positions: whole numbers from 0 to 4"
    with pytest.raises(BadInput, match=rf"Epoch\.steps: {expected}"):
        Epoch([np.array([0, 1]), positions], LABELS)
    monkeypatch.setattr(FedAvg, "positions", lambda side, client: positions)
    turn = Turn(1, 0, "training", 0, 0, batch_size=2, outputs=None)
    with pytest.raises(BadInput, match=rf"FedAvg\.positions: {expected}"):
        FedAvg().epoch(CLIENT, turn)


@pytest.mark.parametrize(
    ("flags", "got"),
    [
        (torch.tensor([0, 2, 3]), r"torch\.int64 \[3\]"),
        (torch.ones(4, dtype=torch.bool), r"torch\.bool \[4\]"),
        (np.ones(5, dtype=bool), r"bool \[5\]"),
    ],
)
def test_what_is_no_flag_of_each_sample_is_refused_by_name(flags, got):
    message = rf"report_selection: got {got}, expected torch\.bool \[5\], flags: whether each"
    with pytest.raises(BadInput, match=message):
        Federation.report_selection(None, CLIENT, flags)
