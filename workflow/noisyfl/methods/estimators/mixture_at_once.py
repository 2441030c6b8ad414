"""The mixtures of :mod:`noisyfl.methods.estimators.mixture`, for a loss: made without the host
waiting for the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from noisyfl.methods.estimators.mixture import (
    TwoComponents,
    _best_split,
    _e_step,
    _m_step,
    _total,
)


def fit_two_at_once(
    values: Tensor,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    regularisation: float = 1e-6,
) -> TwoComponents:
    """As :func:`noisyfl.methods.estimators.mixture.fit_two` fits, to the last bit.

    A GPU computes all iterations, whatever the values; those after a problem's last one leave it as
    it is. Values that are not finite make a mixture that is not.

    Args:
        values: [problems, n], of which all count; n is at least 1.
        tolerance: stop once the mean log-likelihood of a value changes by less.
        max_iterations: stop after so many iterations in any case.
        regularisation: added to the variances.
    """
    values = values.double().sort(dim=1).values
    centre = values[:, values.shape[1] // 2, None]
    values = values - centre
    everything = torch.ones_like(values, dtype=torch.bool)
    low = _best_split(values, everything, everything.sum(1, keepdim=True))
    parts = _m_step(values, torch.stack([low, ~low]).double(), regularisation)
    bound = values.new_full((len(values),), -math.inf)
    converged = torch.zeros_like(bound, dtype=torch.bool)
    iterations = torch.zeros_like(bound, dtype=torch.int64)
    for _ in range(max_iterations):
        responsibility, log_density = _e_step(values, *parts)
        means, variances, weights = (
            torch.where(converged, old, new)
            for old, new in zip(parts, _m_step(values, responsibility, regularisation), strict=True)
        )
        parts = means, variances, weights
        iterations = iterations + ~converged
        before, bound = bound, _total(log_density).squeeze(1) / values.shape[1]
        converged = converged | ((bound - before).abs() < tolerance)
        if not values.is_cuda and bool(converged.all()):
            break
    order = parts[0].argsort(dim=0, stable=True)
    means, variances, weights = (part.gather(0, order).T for part in parts)
    return TwoComponents(means + centre, variances, weights, converged, iterations)
