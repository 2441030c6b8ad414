"""What the runs of each method reached, compared with the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pandas as pd

from noisyfl.analysis.names import BASELINE
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import differences
from noisyfl.analysis.summaries import best, mean_last_10
from noisyfl.specs.descriptions import TableDescription

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""

SHARES = (
    *("label_precision", "label_recall"),
    *("noise_detection_precision", "noise_detection_recall"),
)
"""Columns of ``clients``: precision and recall of what is selected as clean or flagged noisy."""


def measure(runs: Sequence[Run]) -> pd.DataFrame:
    """What the runs of a cell reached, without those that diverged.

    Returns:
        a row for each run, by its seed; NaN where a run has no value:

        ==============  ==========================================================================
        ``accuracy``    the mean test accuracy of the last ten evaluations, in percent; the
                        table's statistic is the same
        ``best``        the highest test accuracy of an evaluation, in percent
        ``best_round``  after how many rounds that was
        ``precision``   the share of right labels among those that the method learns as clean, in
                        percent, in the last :data:`ROUNDS` rounds that have one
        ``base``        the share of right labels among all that were divided in these rounds, in
                        percent: given ones, or what a method has made of them
        ``recall``      the share of the right labels that the method learns as clean, in percent
        ``pseudo``      the share of its pseudo-labels that is right, in percent
        ``backward``    samples through the network backwards, over the run
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
            "precision": 100 * _last_mean(run.values("label_precision")),
            "base": 100 * _base(run),
            "recall": 100 * _last_mean(run.values("label_recall")),
            "pseudo": 100 * _last_mean(run.values("pseudo_label_accuracy")),
            "backward": run.counted["samples_backward"].sum(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _base(run: Run) -> float:
    """The share of right labels among all that were divided, in the rounds of the precision.

    Of a client with the share b of right labels, precision p and recall r of those selected as
    clean, and recall s of those flagged as noisy: p = r b / (r b + (1 - s) (1 - b)), which is
    solved for b. Where nothing wrong is selected as clean, b follows in the same way from the
    precision q of those flagged as noisy. It stays open where all are separated.
    """
    rounds = run.clients["round"]
    unknown = np.full(len(rounds), np.nan)
    p, r, q, s = (run.clients.get(name, unknown) for name in SHARES)
    with np.errstate(invalid="ignore"):
        by_clean = p * (1 - s) / (r * (1 - p) + p * (1 - s))
        by_noisy = (1 - q) / (1 - q * r)
    right = np.where(np.isnan(by_clean), by_noisy, by_clean)
    right = np.where(np.isnan(s), 1.0, np.where(np.isnan(r), 0.0, right))
    known = ~np.isnan(p) & ~np.isnan(right)
    counted = run.counted["round"]
    means = np.full(len(counted), np.nan)
    for number in np.unique(rounds[known]):
        means[counted == number] = right[known & (rounds == number)].mean()
    return _last_mean(means)


def _last_mean(values: np.ndarray) -> float:
    """The mean of the last :data:`ROUNDS` values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)][-ROUNDS:]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True)
class Against:
    """A method compared with the baseline, over the seeds that both have.

    Attributes:
        gains: points better than the baseline, by the number of the column.
        significant: the columns in which that is significant.
    """

    gains: Mapping[int, float]
    significant: Set[int]

    @property
    def better(self) -> int:
        """The number of settings in which the method is better."""
        return sum(gain > 0 for gain in self.gains.values())

    @property
    def significantly_better(self) -> int:
        """The number of settings in which it is significantly better."""
        return sum(self.gains[c] > 0 for c in self.significant)

    @property
    def significantly_worse(self) -> int:
        """The number of settings in which it is significantly worse."""
        return sum(self.gains[c] < 0 for c in self.significant)

    @property
    def equal(self) -> bool:
        """Whether it equals the baseline to the last digit in all settings."""
        return not any(self.gains.values())

    def extremes(self) -> list[int]:
        """The column in which it gains most and, if there are several, that in which it loses."""
        ordered = sorted(self.gains, key=self.gains.__getitem__, reverse=True)
        return [ordered[0], *ordered[1:][-1:]]


class Measurements:
    """The measures of a table's cells, beside the row of the baseline.

    Attributes:
        cells: by row and column, see :func:`measure`; without cells of which no run ended well.
        seeds: of the runs of each cell, diverged ones too, by row and column.
        baseline: the number of the baseline's row.
        differences: of all other rows from it.
    """

    def __init__(self, table: TableDescription, runs: Mapping[str, Run]) -> None:
        """Measure the runs of a table, of which one row is the baseline's.

        Raises:
            ValueError: no row is the baseline's.
        """
        self.baseline = [row.method_name for row in table.rows].index(BASELINE)
        found = {
            (r, c): [runs[run] for run in cell]
            for r, row in enumerate(table.runs)
            for c, cell in enumerate(row)
            if cell
        }
        measures = {place: measure(some) for place, some in found.items()}
        self.cells = {place: cell for place, cell in measures.items() if len(cell)}
        self.seeds = {place: {run.spec["seed"] for run in some} for place, some in found.items()}
        accuracies = {place: cell["accuracy"] for place, cell in self.cells.items()}
        self.differences = differences(accuracies, self.baseline)

    def row(self, number: int) -> dict[int, pd.DataFrame]:
        """A row's cells, by the number of the column."""
        return {c: cell for (r, c), cell in self.cells.items() if r == number}

    def against(self, number: int) -> Against:
        """A row beside the baseline, in the columns in which they share a seed."""
        found = self.differences
        gains = {c: found.mean((r, c)) for r, c in found.points if r == number}
        return Against(gains, {c for c in gains if (number, c) in found.significant})
