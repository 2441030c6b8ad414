import numpy as np
import pytest
import torch

from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import batches
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
