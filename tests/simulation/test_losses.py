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
