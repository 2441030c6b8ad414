"""What a run's test accuracies are summed up by, and how trials are averaged.

A run is evaluated after the rounds that its schedule names, which need not be all of them. Every
statistic takes the test accuracies of the evaluations in order, so "the last ten" are the last ten
evaluations: ten rounds where every round is evaluated, and more where fewer are.
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
        value: a share, 0 to 1.
        starred: it is a maximum, since the run did not converge (``final_or_max`` alone).
    """

    value: float
    starred: bool = False


@dataclass(frozen=True)
class Summary:
    """A statistic over the trials of a cell.

    Attributes:
        mean: a share, 0 to 1.
        std: the sample standard deviation (``ddof=1``); None of a single trial.
        trials: how many were averaged.
        starred: it is a mean of maxima, since most trials did not converge.
    """

    mean: float
    std: float | None
    trials: int
    starred: bool


def best(accuracies: Sequence[float]) -> Value:
    """The largest test accuracy of the run."""
    return Value(max(accuracies))


def last(accuracies: Sequence[float]) -> Value:
    """The test accuracy at the end of the run."""
    return Value(accuracies[-1])


def mean_last_10(accuracies: Sequence[float]) -> Value:
    """The mean of the last ten evaluations, or of all where there are fewer."""
    return Value(float(np.mean(accuracies[-10:])))


def final_or_max(accuracies: Sequence[float]) -> Value:
    """FedNoiL's rule: the last test accuracy of a run that converged, else the largest, starred.

    A run has converged if the last five evaluations differ by less than 2 percentage points from
    one to the next. One with fewer evaluations has not shown that it did.
    """
    tail = accuracies[-STEADY:]
    if len(tail) == STEADY and bool(np.all(np.abs(np.diff(tail)) < STEP)):
        return last(accuracies)
    return Value(max(accuracies), starred=True)


STATISTICS: dict[str, Callable[[Sequence[float]], Value]] = {
    function.__name__: function for function in (best, last, mean_last_10, final_or_max)
}

WORDS = {
    "best": "best test accuracy of a run",
    "last": "test accuracy at the end of a run",
    "mean_last_10": "mean test accuracy of a run's last ten evaluations",
    "final_or_max": "test accuracy at the end of a run, or its maximum (*) where most runs did not "
    "converge",
}
"""The statistics as a table's page names them."""


def over_trials(statistic: str, trials: Sequence[Sequence[float]]) -> Summary:
    """A statistic over trials.

    The paper of ``final_or_max`` stars a whole cell. It is starred here if more than half of its
    trials are, and all of its trials then give their maximum, else all their last accuracy.

    Args:
        statistic: a name in :data:`STATISTICS`.
        trials: the test accuracies of each trial, in order; at least one of each.
    """
    values = [STATISTICS[statistic](accuracies) for accuracies in trials]
    starred = 2 * sum(value.starred for value in values) > len(values)
    if statistic == "final_or_max":
        values = [(best if starred else last)(accuracies) for accuracies in trials]
    numbers = [value.value for value in values]
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Summary(float(np.mean(numbers)), std, len(numbers), starred)
