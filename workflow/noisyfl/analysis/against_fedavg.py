"""Each method beside FedAvg: the outcomes of their runs, and which differences are clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import best, mean_last_10

BASELINE = "fedavg"
"""The method that all others are compared with."""

CLEAR = 2.0
"""Standard deviations of the baseline's trials that a clear difference has to exceed: those of the
setting or, if they are more, of all settings pooled, since a few trials may agree by chance.
"""

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""

Cells = Mapping[tuple[int, int], pd.DataFrame]
"""What :func:`outcomes` finds, by row and column."""


def outcomes(runs: Sequence[Run]) -> pd.DataFrame:
    """The outcomes of a cell's runs, without those that diverged.

    Returns:
        a row for each run, by its seed; NaN where a run has no value:

        ==============  ==========================================================================
        ``accuracy``    the mean test accuracy of the last ten evaluations, in percent; the
                        table's statistic is the same
        ``best``        the highest test accuracy of an evaluation, in percent
        ``best_round``  after how many rounds that was
        ``precision``   the share of right labels among those that the method learns as clean, in
                        percent, in the last :data:`ROUNDS` rounds that have one
        ``base``        the share of right labels among all that the participants of these rounds
                        were given, in percent
        ``recall``      the share of the right labels that the method learns as clean, in percent
        ``pseudo``      the share of its pseudo-labels that is right, in percent
        ``backward``    samples through the network backwards, over the whole run
        ==============  ==========================================================================
    """
    rows = {}
    for run in runs:
        if run.diverged:
            continue
        rounds, accuracies = run.series("test_accuracy")
        rows[run.spec["seed"]] = {
            "accuracy": 100 * mean_last_10(accuracies.tolist()).value,
            "best": 100 * best(accuracies.tolist()).value,
            "best_round": rounds[accuracies.argmax()],
            "precision": 100 * _last(run, "label_precision"),
            "base": 100 * (1 - _last(run, "noise_ratio", "label_precision")),
            "recall": 100 * _last(run, "label_recall"),
            "pseudo": 100 * _last(run, "pseudo_label_accuracy"),
            "backward": run.rounds["samples_backward"].sum(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _last(run: Run, metric: str, known: str | None = None) -> float:
    """The mean of a metric over the last :data:`ROUNDS` rounds in which it has a value.

    If another metric ``known`` is given, the rounds are those in which that one has a value.
    """
    there = np.flatnonzero(~np.isnan(run.values(known or metric)))[-ROUNDS:]
    return float(run.values(metric)[there].mean()) if len(there) else float("nan")


def gain(cell: pd.DataFrame, baseline: pd.DataFrame) -> float:
    """Points ahead of the baseline, over the seeds that both have; NaN if there are none."""
    return float((cell["accuracy"] - baseline["accuracy"]).mean())


def bars_of(baseline: Mapping[int, pd.DataFrame]) -> dict[int, float]:
    """The points that a difference from the baseline has to exceed to be clear, by the number of
    the column; infinitely many where the baseline has a single trial.

    Args:
        baseline: what its trials show, by the number of the column.
    """
    variances = pd.Series({c: cell["accuracy"].var() for c, cell in baseline.items()}, dtype=float)
    bars = CLEAR * variances.clip(lower=variances.mean()) ** 0.5
    return dict(bars.fillna(np.inf))
