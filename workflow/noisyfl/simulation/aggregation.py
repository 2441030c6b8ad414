"""What server sides that do more than average need: models as vectors, plain means, medians."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from noisyfl.simulation.estimates import product
from noisyfl.simulation.updates import Update
from noisyfl.simulation.weights import Weights, average

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""The last parts of the names of a model's buffers, all of them batch normalisation's."""


def trainable_names(weights: Weights) -> list[str]:
    """The names of the trainable weights among all, in the order of ``LocalModel.weights``."""
    return [name for name in weights if name.rpartition(".")[2] not in BUFFERS]


def numbers(weights: Weights) -> list[str]:
    """The names of all weights but the counters."""
    return [name for name, value in weights.items() if value.is_floating_point()]


def flat(weights: Weights, names: Sequence[str] | None = None) -> Tensor:
    """One vector [numbers] of the named weights; by default of the trainable ones."""
    chosen = trainable_names(weights) if names is None else names
    return torch.cat([weights[name].reshape(-1) for name in chosen])


def replaced(weights: Weights, vector: Tensor, names: Sequence[str] | None = None) -> Weights:
    """A model whose named weights come from a vector (the inverse of :func:`flat`), and all others
    from ``weights``.

    Those others are not copied.

    Args:
        weights: the model that supplies shapes and all other weights; not modified.
        vector: float [numbers], as :func:`flat` gives it for the same names.
        names: of the weights that are in the vector; None: of all parameters.
    """
    chosen = trainable_names(weights) if names is None else names
    parts = vector.split([weights[name].numel() for name in chosen])
    changed = {
        name: part.view(weights[name].shape).clone()
        for name, part in zip(chosen, parts, strict=True)
    }
    return {**weights, **changed}


def nonempty(updates: list[Update]) -> list[Update]:
    """The updates that count: those of participants that had something to train on."""
    return [update for update in updates if update.size]


def plain_mean(updates: list[Update]) -> Weights:
    """The mean of the local models, at least one, not weighted by size; buffers included."""
    return average([update.weights for update in updates], [1.0] * len(updates))


def middle(values: Tensor) -> Tensor:
    """The median over the last axis; of an even count the mean of the two in the middle.

    ``torch.median`` gives the lower of the two, which is biased.
    """
    ranked = values.sort(-1).values
    count = values.shape[-1]
    return (ranked[..., (count - 1) // 2] + ranked[..., count // 2]) / 2


def geometric_median(
    points: Tensor, weights: Tensor, iterations: int, smoothing: float, tolerance: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The point with the smallest weighted sum of distances to the given points, by the smoothed
    Weiszfeld algorithm, which starts at their weighted mean.

    Args:
        points: [n, numbers].
        weights: [n], positive.
        iterations: the largest number of steps.
        smoothing: the smallest distance; smaller ones are replaced by it.
        tolerance: a step that would move less far than this is not made, and ends the algorithm.

    Returns:
        The point [numbers], and the shares [n] that the given points have in it.
    """
    shares = weights / weights.sum()
    median = product(shares, points)
    for _ in range(iterations):
        distances = (points - median).norm(dim=1).clamp(min=smoothing)
        nearer = weights / distances
        nearer = nearer / nearer.sum()
        moved = product(nearer, points)
        if tolerance and float((moved - median).norm()) < tolerance:
            break
        median, shares = moved, nearer
    return median, shares
