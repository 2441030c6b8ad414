"""Mixtures of two beta distributions, fitted to values in [0, 1] (Arazo et al., ICML 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EDGE = 1e-4
"""Values are kept this far from 0 and 1, where densities may be infinite (official code)."""

TINY = 1e-12
"""The least weighted density in the E-step, and what a posterior's divisor is enlarged by (official
code).
"""

LEAST_VARIANCE = 1e-8
"""Of a component, so that densities stay finite; the official code has no such bound."""


@dataclass(frozen=True)
class TwoBetas:
    """A mixture. Its second component starts as the one with the larger mean.

    Attributes:
        alphas: the components' first parameters, float64 [2], as are the other two.
        betas: their second parameters.
        weights: their weights, which sum to 1.
    """

    alphas: np.ndarray
    betas: np.ndarray
    weights: np.ndarray

    def densities(self, values: np.ndarray) -> np.ndarray:
        """The weight times the density of each component at each value: float64 [2, n].

        Args:
            values: [n], above 0 and below 1.
        """
        from scipy.special import betaln

        alphas, betas = self.alphas[:, None], self.betas[:, None]
        logarithm = (alphas - 1) * np.log(values) + (betas - 1) * np.log1p(-values)
        return self.weights[:, None] * np.exp(logarithm - betaln(alphas, betas))

    def posterior(self, values: np.ndarray) -> np.ndarray:
        """The probability of the second component given each value, float64 [n]."""
        density = self.densities(values)
        return density[1] / (density.sum(0) + TINY)


START = TwoBetas(np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.array([0.5, 0.5]))
"""The mixture that a fit starts from: one component falls linearly, the other rises."""


def fit_two_betas(values: np.ndarray, iterations: int = 10) -> TwoBetas:
    """Fit a mixture by expectation maximisation, with moments in the place of the likelihood in the
    M-step (Section 3.1).

    Args:
        values: [n], from 0 to 1, at least two of them different.
        iterations: how many are done.
    """
    values = np.clip(np.asarray(values, dtype=np.float64), EDGE, 1 - EDGE)
    mixture = START
    for _ in range(iterations):
        share = np.maximum(mixture.densities(values), TINY)
        share /= share.sum(0)
        total = share.sum(1)
        means = (share * values).sum(1) / total
        variances = (share * (values - means[:, None]) ** 2).sum(1) / total
        variances = np.maximum(variances, LEAST_VARIANCE)
        alphas = means * (means * (1 - means) / variances - 1)
        mixture = TwoBetas(alphas, alphas * (1 - means) / means, total / total.sum())
    return mixture
