"""The differentiable terms that local losses are sums of."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from noisyfl.simulation.aggregation import flat
from noisyfl.simulation.weights import Weights


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each sample, [batch]; ``target`` holds labels [batch]."""
    return functional.cross_entropy(logits, target, reduction="none")


def squared_distance(weights: Weights, received: Weights) -> Tensor:
    """Sum over all trainable parameters of the squared difference, a scalar."""
    device = next(iter(weights.values())).device
    if device.type != "cpu":
        return squared_distance_at_once(weights, received)
    total = torch.zeros((), device=device)
    for name, weight in weights.items():
        total = total + (weight - received[name]).square().sum()
    return total


def squared_distance_at_once(weights: Weights, received: Weights) -> Tensor:
    """The same as :func:`squared_distance`, computed on one vector of all weights for each model. A
    GPU is faster with a few operations on all weights than with some on each weight; on a CPU,
    copying the weights into vectors takes longer than the computation.
    """
    names = list(weights)
    moved = flat(weights, names) - flat(received, names)
    return moved.dot(moved)


def distance(weights: Weights, received: Weights) -> Tensor:
    """Euclidean distance over all trainable parameters, a scalar.

    Its gradient where the two are equal is 0, not the NaN of a plain square root.
    """
    squared = squared_distance(weights, received)
    apart = squared > 0
    return torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)


def proximal_weights(weight: float, steps: int, form: str) -> list[float]:
    """The weight of a proximal term in each step of a local epoch. If the term is the distance
    itself, ``norm``, it is left out of the first step, as in FedCorr's code: in that step of the
    first epoch the distance is 0, and has no derivative.

    Args:
        form: a choice of FedProx's option ``prox_form``.
    """
    weights = [weight] * steps
    if form == "norm":
        weights[:1] = [0.0]
    return weights


def mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the chosen values, a scalar; 0 if none is chosen.

    Args:
        values: [...], any shape.
        mask: bool, or the weight of each value, of the same shape.
    """
    weight = mask.to(values.dtype)
    return (values * weight).sum() / weight.sum().clamp(min=1)
