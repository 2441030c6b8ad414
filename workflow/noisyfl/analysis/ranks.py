"""Compare several methods over several settings by their ranks.

After Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006,
Section 3.2.2: Friedman's test says whether the methods differ at all, Nemenyi's which of them do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Ranking:
    """Methods compared by their average ranks.

    Attributes:
        ranks: float64 [methods], the average over the settings; 1 is the best.
        settings: how many were averaged over.
        statistic: Friedman's chi-square, corrected for ties, with ``methods - 1`` degrees of
            freedom.
        p_value: the probability of a statistic as large if all methods were alike.
        level: of significance.
        critical_difference: the difference of average ranks from which on Nemenyi's test calls two
            methods different at that level.
    """

    ranks: np.ndarray
    settings: int
    statistic: float
    p_value: float
    level: float
    critical_difference: float

    def groups(self) -> list[list[int]]:
        """The largest groups of methods that are not told apart, each from its best to its worst.

        Every method is in at least one group; one that differs from all others is in a group of its
        own. If Friedman's test does not reject, all methods are one group.
        """
        order = np.argsort(self.ranks, kind="stable").tolist()
        if self.p_value >= self.level:
            return [order]
        found: list[list[int]] = []
        reached = 0
        for first, best in enumerate(order):
            limit = self.ranks[best] + self.critical_difference
            last = int(np.searchsorted(self.ranks[order], limit, side="left"))
            if last > reached:  # else the group before has all of them
                found.append(order[first:last])
                reached = last
        return found


def rank(values: Sequence[Sequence[float]] | np.ndarray, level: float = 0.05) -> Ranking:
    """Compare methods by the values that they reach.

    Args:
        values: [settings, methods], larger is better; NaN, for what has no value, is the worst.

    Raises:
        ValueError: there are fewer than two methods, or no settings.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        raise ValueError(f"got values {table.shape}, expected [settings, methods], two at least")
    settings, methods = table.shape
    ranks = ranks_within(table)
    statistic, p_value = friedman(ranks)
    return Ranking(
        ranks=ranks.mean(0),
        settings=settings,
        statistic=statistic,
        p_value=p_value,
        level=level,
        critical_difference=critical_difference(methods, settings, level),
    )


def ranks_within(table: np.ndarray, ties: Literal["average", "min"] = "average") -> np.ndarray:
    """The rank of each method in each setting, [settings, methods].

    Args:
        table: [settings, methods], larger is better; NaN, for what has no value, is the worst.
        ties: whether equal values share the mean of their ranks, or the best of them.
    """
    from scipy.stats import rankdata  # which takes a second to import, and few pages need it

    return rankdata(np.where(np.isnan(table), np.inf, -table), method=ties, axis=1)


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    """Friedman's chi-square of ranks [settings, methods], corrected for ties, and its p-value.

    Demsar's formula has the variance that ranks have without ties; here the actual variance of the
    ranks takes its place. If all methods tie in all settings, the statistic is 0 and p is 1.
    SciPy's ``friedmanchisquare`` gives the same number, but refuses two methods, and divides by
    zero if everything ties.
    """
    from scipy.stats import chi2

    settings, methods = ranks.shape
    middle = (methods + 1) / 2
    spread = ((ranks - middle) ** 2).sum() / (settings * (methods - 1))
    if not spread:
        return 0.0, 1.0
    statistic = settings * float(((ranks.mean(0) - middle) ** 2).sum() / spread)
    return statistic, float(chi2.sf(statistic, methods - 1))


def critical_difference(methods: int, settings: int, level: float) -> float:
    """Nemenyi's critical difference of average ranks.

    It is ``q sqrt(methods (methods + 1) / (6 settings))``, where q is the ``1 - level``
    quantile of the studentized range for that many methods, divided by the square root of 2.
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * settings))
