"""What a run's values are summed up by, and how trials are averaged.

A run is evaluated after the rounds that its schedule names, which need not be all of them. Every
statistic takes the values of a metric in order, those of rounds that have one, so "the last ten"
of the test accuracy are the last ten evaluations: ten rounds where every round is evaluated, and
more where fewer are.
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
        value: in the unit of the metric; a share, 0 to 1, of an accuracy.
        starred: it is a maximum, since the run did not converge (``final_or_max`` alone).
    """

    value: float
    starred: bool = False


@dataclass(frozen=True)
class Summary:
    """A statistic over the trials of a cell.

    Attributes:
        mean: in the unit of the metric; a share, 0 to 1, of an accuracy.
        std: the sample standard deviation (``ddof=1``); None of a single trial.
        trials: how many were averaged.
        starred: it is a mean of maxima, since most trials did not converge.
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
    """The mean of the last ten values, or of all where there are fewer."""
    return Value(float(np.mean(values[-10:])))


def mean(values: Sequence[float]) -> Value:
    """The mean of all values of the run."""
    return Value(float(np.mean(values)))


def final_or_max(values: Sequence[float]) -> Value:
    """FedNoiL's rule: the last test accuracy of a run that converged, else the largest, starred.

    A run has converged if the last five evaluations differ by less than 2 percentage points from
    one to the next. One with fewer evaluations has not shown that it did.
    """
    tail = values[-STEADY:]
    if len(tail) == STEADY and bool(np.all(np.abs(np.diff(tail)) < STEP)):
        return last(values)
    return Value(max(values), starred=True)


STATISTICS: dict[str, Callable[[Sequence[float]], Value]] = {
    function.__name__: function for function in (best, last, mean_last_10, final_or_max, mean)
}

WORDS = {
    "best": "the largest of a run",
    "last": "at the end of a run",
    "mean_last_10": "mean of a run's last ten evaluations",
    "final_or_max": "at the end of a run, or its maximum (*) where most runs did not converge",
    "mean": "mean over a run",
}
"""The statistics as a table's page names them, after the metric."""


def over_trials(statistic: str, trials: Sequence[Sequence[float]]) -> Summary:
    """A statistic over trials.

    The paper of ``final_or_max`` stars a whole cell. It is starred here if more than half of its
    trials are, and all of its trials then give their maximum, else all their last accuracy.

    Args:
        statistic: a name in :data:`STATISTICS`.
        trials: the values of each trial, in order; at least one of each.
    """
    found = [STATISTICS[statistic](values) for values in trials]
    starred = 2 * sum(value.starred for value in found) > len(found)
    if statistic == "final_or_max":
        found = [(best if starred else last)(values) for values in trials]
    return summary([value.value for value in found], starred)


def summary(numbers: Sequence[float], starred: bool = False) -> Summary:
    """Mean and spread of numbers."""
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Summary(float(np.mean(numbers)), std, len(numbers), starred)
