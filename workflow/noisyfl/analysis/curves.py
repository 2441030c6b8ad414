"""Curves of a metric: its mean over trials by round, and its spread over clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyfl.analysis.runs import Run

Curve = tuple[np.ndarray, np.ndarray]
"""Work done and value of a metric, both float64 [values]; see :meth:`Run.series`."""


def mean_of_curves(trials: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of trials' curves, and its spread.

    The mean is taken where the trial with most values has them. Other trials are interpolated
    linearly there, and left out of the mean beyond their own range.

    Returns:
        Work, mean, and sample standard deviation (0 for a single trial), each float64 [values].
        They are empty if no trial has a value.
    """
    work, _ = max(trials, key=lambda curve: len(curve[0]))
    if not len(work):
        return work, work, work
    curves = np.array(
        [np.interp(work, *curve, left=np.nan, right=np.nan) for curve in trials if len(curve[0])]
    )
    there = ~np.isnan(curves)
    trials_there = there.sum(0)
    mean = np.where(there, curves, 0).sum(0) / trials_there
    squares = np.where(there, curves - mean, 0) ** 2
    return work, mean, np.sqrt(squares.sum(0) / np.maximum(trials_there - 1, 1))


def mean_curve(
    trials: Sequence[Run], metric: str, unit: str = "ordinary_rounds"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean over trials of a metric at equal rounds, as :func:`mean_of_curves` returns it.

    Args:
        trials: at least one.
        metric: a name in :data:`noisyfl.analysis.metrics.METRICS`.
        unit: of the work that is returned; batches are means over the trials, too.
    """
    curves = [run.series(metric) for run in trials]
    work, mean, std = mean_of_curves(curves)
    if unit != "ordinary_rounds":
        others = [run.series(metric, unit)[0] for run in trials]
        at = [rounds for rounds, _ in curves]
        _, work, _ = mean_of_curves(list(zip(at, others, strict=True)))
    return work, mean, std


def spread_over_clients(
    run: Run, column: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest value of a column of ``clients``, by round.

    Returns:
        Ordinary rounds, mean, lowest and highest, float64 [rounds in which a client has a value].
    """
    rounds, _, values = run.of_clients(column)
    listed = np.unique(rounds)
    groups = [values[rounds == number] for number in listed]
    work = run.work()[np.searchsorted(run.all_rounds["round"], listed)]
    mean, low, high = (np.array([f(group) for group in groups]) for f in (np.mean, np.min, np.max))
    return work, mean, low, high
