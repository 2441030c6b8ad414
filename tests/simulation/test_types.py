import numpy as np
import pytest
import torch
from torch.nn import functional

from noisyfl.simulation.losses import (
    cross_entropy,
    distance,
    squared_distance,
    squared_distance_at_once,
)
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.types import average, batches


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


def test_distances_against_numbers_worked_out_by_hand():
    received = {"a": torch.tensor([1.0, 1.0]), "b": torch.tensor([[0.0]])}
    weights = {
        "a": torch.tensor([1.0, 3.0], requires_grad=True),
        "b": torch.tensor([[1.5]], requires_grad=True),
    }
    squared = squared_distance(weights, received)
    torch.testing.assert_close(squared_distance_at_once(weights, received), squared)
    assert squared.item() == 4 + 2.25
    plain = distance(weights, received)
    assert plain.item() == 2.5
    # The gradient of the norm has length 1 and points away from the received weights.
    a, b = torch.autograd.grad(plain, list(weights.values()))
    assert a.tolist() == [0.0, pytest.approx(0.8)]
    assert b.tolist() == [[pytest.approx(0.6)]]


def test_distance_has_a_finite_gradient_where_nothing_moved():
    weights = {"a": torch.tensor([1.0, 2.0], requires_grad=True)}
    received = {"a": torch.tensor([1.0, 2.0])}
    value = distance(weights, received)
    (gradient,) = torch.autograd.grad(value, [weights["a"]])
    assert value.item() == 0
    assert gradient.tolist() == [0.0, 0.0]


def test_cross_entropy_is_a_value_a_sample():
    logits = torch.tensor([[0.0, 0.0], [0.0, np.log(3.0)]])
    losses = cross_entropy(logits, torch.tensor([0, 1]))
    assert losses.tolist() == pytest.approx([np.log(2), np.log(4 / 3)])
    assert torch.equal(losses.mean(), functional.cross_entropy(logits, torch.tensor([0, 1])))


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
