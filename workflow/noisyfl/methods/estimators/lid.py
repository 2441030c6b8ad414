"""Local intrinsic dimensionality of a model's predictions (FedCorr, Eqs. 1 and 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROWS = 1024
"""The number of samples whose distances to all others are held in memory at a time."""


def lid(probabilities: Tensor, k: int = 20) -> Tensor:
    """The LID score of each prediction among all predictions of its client.

    The maximum likelihood estimate from the distances r_1 ≤ ... ≤ r_k to the k nearest others,
    ``-k / (Σ ln(r_i / (r_k + 1e-6)) + 1e-6)``, with the small constants of FedCorr's official code.
    They are part of the method: they pull the scores of saturated predictions, whose distances are
    as small as the constants, towards 0, where an estimate without them would not be.

    A sample that has a duplicate scores 0. Equal distances r score about ``r k / (k - r) * 1e6``
    (3e5 for r = 0.3), so that few such samples decide a client's mean. With k or fewer samples all
    of the n - 1 distances count and the numerator stays k, as in the code. With fewer than three
    samples the scores are NaN: from a single distance nothing can be estimated.

    Args:
        probabilities: [samples, classes], a client's predictions (softmax outputs).
        k: the number of neighbours.

    Returns:
        float64 [samples].
    """
    points = probabilities.double()
    if len(points) < 3:
        return points.new_full((len(points),), math.nan)
    neighbours = min(k, len(points) - 1)
    return torch.cat([_lid(rows, points, neighbours, k) for rows in points.split(ROWS)])


def _lid(rows: Tensor, points: Tensor, neighbours: int, k: int) -> Tensor:
    # The faster way through a matrix product loses the small distances that decide here.
    distances = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.topk(neighbours + 1, largest=False).values[:, 1:]  # the first is itself
    logs = (nearest / (nearest[:, -1:] + 1e-6)).log()
    return -k / (logs.sum(1) + 1e-6)
