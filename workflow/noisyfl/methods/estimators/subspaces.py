"""Subspaces of classes: the directions of a class's features, and the class that a sample is in.

A class's features Z [samples, width] on a client, which are not centred, have the singular values
s_1 >= s_2 >= ... and the right singular vectors v_1, v_2, ...; v_1 is its dominant direction v_c.

- Residual directions of a class: those after the first k, where k is the smallest number with
  s_1 + ... + s_k >= rho (s_(k+1) + ...).
- Scores of a sample z: alignment |z . v_c| / |z|, and residual |V_c z| / sqrt(rows of V_c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spectrum:
    """The singular values and right singular vectors of a class's features on a client.

    Attributes:
        samples: how many there are.
        dominant: [width], the first singular vector.
        residual: [directions, width], the residual directions, strongest first.
        gap: (s_1 - s_2) / s_1.
        share: s_1 over the sum of all singular values.
    """

    samples: int
    dominant: Tensor
    residual: Tensor
    gap: float
    share: float


@dataclass(frozen=True)
class Subspace:
    """Of a class: its ``dominant`` direction [width] and ``residual`` ones [directions, width]."""

    dominant: Tensor
    residual: Tensor


def spectrum(features: Tensor, dominance: float) -> Spectrum | None:
    """The spectrum of features [samples, width], in float64; None if they are not finite or all 0.

    Args:
        features: of a class's samples, at least one.
        dominance: rho.
    """
    if not bool(features.isfinite().all()):
        return None
    _, values, vectors = torch.linalg.svd(features.double(), full_matrices=False)
    sums = values.cumsum(0)
    first, total = float(values[0]), float(sums[-1])
    if first <= 0:
        return None
    dominant = min(int((sums < total * dominance / (1 + dominance)).sum()) + 1, len(values))
    second = float(values[1]) if len(values) > 1 else 0.0
    return Spectrum(
        len(features), vectors[0], vectors[dominant:], (first - second) / first, first / total
    )


def weighted_projection(directions: list[Tensor], weights: list[float]) -> Tensor:
    """[width, width], the weighted mean of the projections on orthonormal rows [n, width]."""
    parts = [weight * rows.T @ rows for weight, rows in zip(weights, directions, strict=True)]
    return torch.stack(parts).sum(0) / sum(weights)


def best_classes(features: Tensor, subspaces: list[Subspace | None]) -> tuple[Tensor, Tensor]:
    """For each sample the class of the largest alignment score, int64 [samples], and whether it is
    that of the smallest residual score, too, bool [samples].

    Args:
        features: [samples, width].
        subspaces: of each class; None for one that no sample is given.
    """
    features = features.double()
    norms = features.norm(dim=1)
    alignment = features.new_full((len(features), len(subspaces)), -math.inf)
    residual = features.new_full((len(features), len(subspaces)), math.inf)
    for label, subspace in enumerate(subspaces):
        if subspace is None:
            continue
        alignment[:, label] = (features @ subspace.dominant).abs() / norms.clamp(min=1e-12)
        rows = subspace.residual
        residual[:, label] = (features @ rows.T).norm(dim=1) / math.sqrt(len(rows))
    score, guess = alignment.max(1)
    return guess, (guess == residual.argmin(1)) & (score > 0)
