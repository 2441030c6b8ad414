"""Mixtures of two one-dimensional Gaussians, fitted by the thousand.

The fits equal those of scikit-learn's ``GaussianMixture(2)`` (full covariance, initialised by
k-means), but are made for many problems at a time and on any device. The start is not drawn: in one
dimension the best split into two clusters can be found exactly; k-means often ends in another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

LARGEST = 1e100
"""Values must be smaller than this, or their squares would overflow."""


@dataclass(frozen=True)
class TwoComponents:
    """Fitted mixtures, one for each problem. Component 0 is the one of smaller mean.

    Attributes:
        means: float64 [problems, 2].
        variances: float64 [problems, 2].
        weights: float64 [problems, 2], summing to 1.
    """

    means: Tensor
    variances: Tensor
    weights: Tensor

    def posterior(self, values: Tensor) -> Tensor:
        """The probability of each component given each value.

        Args:
            values: [problems, n], not necessarily those of the fit.

        Returns:
            float64 [problems, n, 2].
        """
        parts = self.means.T, self.variances.T, self.weights.T
        responsibility, _ = _e_step(values.double(), *parts)
        return responsibility.permute(1, 2, 0)

    def low(self, values: Tensor) -> Tensor:
        """Which values belong to component 0 with a probability of 1/2 or more: bool [problems, n].

        Components differ in width, so the wider one may have the values of both tails.
        """
        parts = self.means.T, self.variances.T, self.weights.T
        joint = _log_joint(values.double(), *parts)
        return joint[0] >= joint[1]


def fit_two(
    values: Tensor,
    mask: Tensor | None = None,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    regularisation: float = 1e-6,
    check: bool = True,
) -> TwoComponents:
    """Fit a mixture to each problem by expectation maximisation.

    The result of a problem depends neither on the order of its values nor on the other problems.
    Where there is nothing to split (fewer than two different values), component 0 has all weight
    and both means are that value, so that every value is low; scikit-learn would put the empty
    component's mean at 0. A problem without values has means 0 and equal weights.

    A GPU computes all iterations for all values, so that the host does not wait for it; those
    after a problem's last one leave it as it is.

    Args:
        values: [problems, n].
        mask: bool [problems, n], which values count; all by default.
        tolerance: stop once the mean log-likelihood of a value changes by less.
        max_iterations: never do more iterations than this.
        regularisation: added to the variances.
        check: whether the values are looked at first, which a loss cannot do, since the host waits
            for it; values that are not finite then make a mixture that is not.

    Raises:
        ValueError: a value that counts is not finite, or not below 1e100 in size.
    """
    values = values.double()
    if mask is None:
        mask = torch.ones_like(values, dtype=torch.bool)
    if check and not bool((~mask | (values.abs() < LARGEST)).all()):
        raise ValueError(f"a mixture needs finite values below {LARGEST:g} in size")
    # Values are sorted, with those that do not count at the end, so that neither order nor padding
    # matters. One such value is always appended, so that a problem may be empty.
    values = pad(values.masked_fill(~mask, math.inf), (0, 1), value=math.inf).sort(dim=1).values
    counts = mask.sum(1, keepdim=True)
    real = torch.arange(values.shape[1], device=values.device) < counts
    values = values.masked_fill(~real, 0.0)
    # Values are centred, since sums of values far from 0 would round away their differences. Where
    # all values are equal, the middle one, unlike the mean, is exactly equal to them.
    centre = values.gather(1, counts // 2)
    values = (values - centre).masked_fill(~real, 0.0)

    low = _best_split(values, real, counts)
    parts = _m_step(values, torch.stack([low, real & ~low]).double(), regularisation)
    bound = values.new_full((len(values),), -math.inf)
    converged = torch.zeros_like(bound, dtype=torch.bool)
    for _ in range(max_iterations):
        responsibility, log_density = _e_step(values, *parts)
        step = _m_step(values, responsibility * real, regularisation)
        means, variances, weights = (
            torch.where(converged, old, new) for old, new in zip(parts, step, strict=True)
        )
        parts = means, variances, weights
        mean = (_total(log_density * real) / counts.clamp(min=1)).squeeze(1)
        before, bound = bound, mean
        converged = converged | ((bound - before).abs() < tolerance)
        if not values.is_cuda and bool(converged.all()):
            break

    order = parts[0].argsort(dim=0, stable=True)
    means, variances, weights = (part.gather(0, order).T for part in parts)
    return TwoComponents(means + centre, variances, weights)


def _total(values: Tensor) -> Tensor:
    """The sums over the last dimension, which is kept; terms are added from first to last.

    ``sum`` would group its terms by the tensor's shape, and so depend on batch and padding.
    """
    return values.cumsum(-1)[..., -1:]


def _best_split(values: Tensor, real: Tensor, counts: Tensor) -> Tensor:
    """The lower cluster of the best 2-means clustering of sorted, centred values: bool [p, n].

    Clusters are intervals, so the best is the best of n - 1 cuts; a cut's between-cluster sum of
    squares comes from prefix sums.
    """
    sums = values.cumsum(1)
    sizes = torch.arange(1, values.shape[1] + 1, device=values.device)
    rest = (counts - sizes).clamp(min=1)
    between = sums**2 / sizes + (_total(values) - sums) ** 2 / rest
    cuts = torch.zeros_like(real)  # a cut is possible only between different values
    cuts[:, :-1] = (values[:, 1:] > values[:, :-1]) & real[:, 1:]
    best = between.masked_fill(~cuts, -1.0).argmax(1, keepdim=True)
    last = torch.where(cuts.any(1, keepdim=True), best, counts - 1)
    return sizes <= last + 1


def _log_joint(values: Tensor, means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """Log of each component's weight times its density: [2, problems, n]."""
    distance = (values - means[..., None]) ** 2 / variances[..., None]
    constant = weights.log() - 0.5 * (math.log(2 * math.pi) + variances.log())
    return constant[..., None] - 0.5 * distance


def _e_step(
    values: Tensor, means: Tensor, variances: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The responsibilities [2, problems, n] and the log density of each value [problems, n]."""
    joint = _log_joint(values, means, variances, weights)
    largest = joint.amax(0)
    parts = (joint - largest).exp()
    total = parts[0] + parts[1]
    return parts / total, largest + total.log()


def _m_step(
    values: Tensor, responsibility: Tensor, regularisation: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances and weights, each [2, problems], from [2, problems, n]."""
    # As in scikit-learn: a component without values keeps a share, and no division is by 0.
    sizes = _total(responsibility) + 10 * torch.finfo(torch.float64).eps
    means = _total(responsibility * values) / sizes
    variances = _total(responsibility * (values - means) ** 2) / sizes + regularisation
    weights = sizes / sizes.sum(0)
    return means.squeeze(-1), variances.squeeze(-1), weights.squeeze(-1)
