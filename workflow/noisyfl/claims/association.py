"""How two measures of the same clients, or of the same pairs of clients, are related."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from noisyfl.claims.numbers import Numbers
from noisyfl.claims.wanted import OWN_LABELS

COUNTED = (*OWN_LABELS["clients"], *OWN_LABELS["pairs"])
"""Labels that tell clients, or pairs of clients, apart: a correlation is over these."""


def pearson(first: Numbers, second: Numbers) -> Numbers:
    """Pearson's correlation; unknown for fewer than three values, or if a side is constant."""
    return first.measured(second, _correlation, COUNTED)


def spearman(first: Numbers, second: Numbers) -> Numbers:
    """Spearman's rank correlation; unknown in the same cases as :func:`pearson`."""
    return first.measured(second, _rank_correlation, COUNTED)


def found_noisy(score: Numbers, level: Numbers) -> Numbers:
    """The share of clients that a score classifies rightly as noisy or clean.

    A client is found noisy if its score belongs to the higher of two fitted Gaussian components; it
    is noisy if its noise level is above 0.
    """
    return score.measured(level, _rightly_found, COUNTED)


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    there = ~np.isnan(x + y)
    return _correlation(rankdata(x[there]), rankdata(y[there]))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    there = ~np.isnan(x + y)
    x, y = x[there], y[there]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(np.corrcoef(x, y)[0, 1])


def _rightly_found(score: np.ndarray, level: np.ndarray) -> float:
    from sklearn.mixture import GaussianMixture

    if np.isnan(score + level).any() or len(np.unique(score)) < 2:
        return np.nan
    mixture = GaussianMixture(2, random_state=0).fit(score[:, None])
    higher = mixture.predict(score[:, None]) == mixture.means_.argmax()
    return float((higher == (level > 0)).mean())
