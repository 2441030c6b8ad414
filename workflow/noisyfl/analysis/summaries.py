"""Statistics of a run's values, and their mean over trials.

A run is evaluated after the rounds that its schedule names, which need not be all of them. Every
statistic takes the values of a metric in the order of the rounds, without the rounds that have
none. So "the last ten" of the test accuracy are the last ten evaluations, which span ten rounds if
every round is evaluated, and more otherwise; of fewer than ten, the last half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

STEADY = 5
"""Evaluations that FedNoiL's convergence rule looks at."""

STEP = 0.02
"""Difference of two consecutive test accuracies from which a run counts as not converged."""


class Value(NamedTuple):
    """A statistic of one run.

    Attributes:
        value: in the unit of the metric; an accuracy is a share, 0 to 1.
        starred: it is a maximum, since the run did not converge (only with ``final_or_max``).
    """

    value: float
    starred: bool = False


@dataclass(frozen=True)
class Summary:
    """A statistic over the trials of a cell.

    Attributes:
        mean: in the unit of the metric; an accuracy is a share, 0 to 1.
        std: the sample standard deviation (``ddof=1``); None for a single trial.
        trials: how many were averaged.
        starred: it is a mean of maxima, since at least half of the trials did not converge.
    """

    mean: float
    std: float | None
    trials: int
    starred: bool = False


def best(values: Sequence[float]) -> Value:
    """The largest value of the run."""
    return Value(max(values))


def last(values: Sequence[float]) -> Value:
    """The value at the end of the run."""
    return Value(values[-1])


def mean_last_10(values: Sequence[float]) -> Value:
    """The mean of the last ten values; of the last half if there are fewer than ten, as in a short
    run on pooled samples, so that its beginning does not count.
    """
    first = len(values) - 10 if len(values) >= 10 else len(values) // 2
    return Value(float(np.mean(values[first:])))


def mean(values: Sequence[float]) -> Value:
    """The mean of all values of the run."""
    return Value(float(np.mean(values)))


def final_or_max(values: Sequence[float]) -> Value:
    """FedNoiL's rule: the last test accuracy of a run that converged, else the largest, starred.

    A run has converged if the last five evaluations differ by less than 2 percentage points from
    one to the next. A run with fewer evaluations counts as not converged.
    """
    tail = values[-STEADY:]
    if len(tail) == STEADY and bool(np.all(np.abs(np.diff(tail)) < STEP)):
        return last(values)
    return Value(max(values), starred=True)


STATISTICS: dict[str, Callable[[Sequence[float]], Value]] = {
    function.__name__: function for function in (best, last, mean_last_10, final_or_max, mean)
}

OF_ACCURACY = ("best", "last", "mean_last_10")
"""The statistics that papers use for an accuracy; most do not say which."""

WORDS = {
    "best": "the largest of a run",
    "last": "at the end of a run",
    "mean_last_10": "mean of a run's last ten evaluations (of the last half, if there are fewer)",
    "final_or_max": "at the end of a run, or its maximum (*) where most runs did not converge",
    "mean": "mean over a run",
}
"""How a table's page describes each statistic, after the name of the metric."""


def star_rule(statistic: str, starred: Sequence[bool]) -> tuple[str, bool]:
    """The statistic that every trial of a cell contributes, and whether the cell is starred.

    With ``final_or_max`` the paper stars whole cells. Here a cell is starred if at least half of
    its trials are; then every trial contributes its maximum, and otherwise its last accuracy. Any
    other statistic stays as it is, without a star.

    Args:
        statistic: a name in :data:`STATISTICS`.
        starred: for each trial, whether it did not converge.
    """
    if statistic != "final_or_max":
        return statistic, False
    most = 2 * sum(starred) >= max(1, len(starred))
    return ("best" if most else "last"), most


def summary(numbers: Sequence[float], starred: bool = False) -> Summary:
    """The mean and the sample standard deviation of numbers."""
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Summary(float(np.mean(numbers)), std, len(numbers), starred)


def number(value: float | None, decimals: int = 1) -> str:
    """A number as it is printed; empty if there is none, or it is NaN."""
    return "" if value is None or np.isnan(value) else f"{value:.{decimals}f}"
