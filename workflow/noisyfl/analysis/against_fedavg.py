"""Each method beside FedAvg: what its runs reached, and which differences are clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import best, mean_last_10
from noisyfl.specs.descriptions import TableDescription

BASELINE = "fedavg"
"""The method that all others are compared with."""

CLEAR = 2.0
"""Standard deviations of the baseline's trials that a clear difference has to exceed: those of the
setting or, if they are more, of all settings pooled, since a few trials may agree by chance.
"""

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""


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


@dataclass(frozen=True)
class Against:
    """A method beside the baseline, over the seeds that both have.

    Attributes:
        gains: points ahead of the baseline, by the number of the column.
        bars: points that a clear difference exceeds, by the number of the column.
    """

    gains: Mapping[int, float]
    bars: Mapping[int, float]

    @property
    def ahead(self) -> int:
        """The number of settings in which the method is ahead."""
        return sum(gain > 0 for gain in self.gains.values())

    def clearly_ahead(self, columns: Sequence[int] | None = None) -> int:
        """The number of settings, of some columns or of all, in which it is clearly ahead."""
        return sum(
            gain > self.bars[c] for c, gain in self.gains.items() if columns is None or c in columns
        )

    @property
    def clearly_behind(self) -> int:
        """The number of settings in which it is clearly behind."""
        return sum(-gain > self.bars[c] for c, gain in self.gains.items())

    @property
    def equal(self) -> bool:
        """Whether it equals the baseline to the last digit in all settings."""
        return not any(self.gains.values())

    def extremes(self) -> list[int]:
        """The column in which it gains most and, if there are several, that in which it loses."""
        ordered = sorted(self.gains, key=self.gains.__getitem__, reverse=True)
        return [ordered[0], *ordered[1:][-1:]]


class Measured:
    """The measures of a table's cells, beside the row of the baseline.

    Attributes:
        cells: by row and column, see :func:`measure`; without cells of which no run ended well.
        seeds: of the runs of each cell, diverged ones too, by row and column.
        baseline: the number of the baseline's row.
        bars: the points that a difference from the baseline has to exceed to be clear, by the
            number of the column; infinitely many where the baseline has a single trial.
    """

    def __init__(self, table: TableDescription, runs: Mapping[str, Run]) -> None:
        """Measure the runs of a table, of which one row is the baseline's.

        Args:
            table: of every method in common settings.
            runs: by id, all of the table's.

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
        own = self.row(self.baseline)
        variances = pd.Series({c: cell["accuracy"].var() for c, cell in own.items()}, dtype=float)
        bars = CLEAR * variances.clip(lower=variances.mean()) ** 0.5
        self.bars: dict[int, float] = dict(bars.fillna(np.inf))

    def row(self, number: int) -> dict[int, pd.DataFrame]:
        """A row's cells, by the number of the column."""
        return {c: cell for (r, c), cell in self.cells.items() if r == number}

    def several(self) -> dict[int, pd.DataFrame]:
        """The baseline's cells that have several trials, by the number of the column."""
        return {c: cell for c, cell in self.row(self.baseline).items() if len(cell) > 1}

    def against(self, number: int) -> Against:
        """A row beside the baseline, in the columns in which they share a seed."""
        level = self.row(self.baseline)
        gains = {
            c: float((cell["accuracy"] - level[c]["accuracy"]).mean())
            for c, cell in self.row(number).items()
            if c in level and len(cell.index.intersection(level[c].index))
        }
        return Against(gains, self.bars)
