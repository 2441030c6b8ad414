"""Each method beside FedAvg: what their runs show, and which differences are clear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import best, mean_last_10
from noisyfl.specs.descriptions import Heading, TableDescription

BASELINE = "fedavg"
"""The method that all others are compared with."""

CLEAR = 2.0
"""Standard deviations of the baseline's trials that a clear difference has to exceed: those of the
setting or, if they are more, of all settings pooled, since a few trials may agree by chance.
"""

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""

Cells = Mapping[tuple[int, int], pd.DataFrame]
"""What :func:`seen` finds, by row and column."""


def seen(runs: Sequence[Run]) -> pd.DataFrame:
    """What the runs of a cell show, without those that diverged.

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


def _gain(cell: pd.DataFrame, baseline: pd.DataFrame) -> float:
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


def clear_differences(
    table: TableDescription, cells: Cells, baseline: int, bars: Mapping[int, float]
) -> Iterator[str]:
    """A paragraph on how much the baseline's trials differ, if there are several, and one that
    names the methods that are clearly ahead of it in the most of these settings, or in none.

    Args:
        table: of every method in common settings.
        cells: what the trials of its cells show.
        baseline: the number of the baseline's row.
        bars: see :func:`bars_of`.
    """
    several = {c: cell for (r, c), cell in cells.items() if r == baseline and len(cell) > 1}
    if not several:
        return
    told = (
        f"{cell['accuracy'].mean():.1f} ± {cell['accuracy'].std():.1f} on {table.columns[c].name}"
        for c, cell in several.items()
    )
    clear = {
        row.name: [
            (r, c) in cells and _gain(cells[r, c], cell) > bars[c] for c, cell in several.items()
        ]
        for r, row in enumerate(table.rows)
        if row.ranked and r != baseline and any(at == r for at, _ in cells)
    }
    yield ""
    yield (
        f"Over several seeds FedAvg has {'; '.join(told)}. A difference from it is *clear* if it "
        f"is more than {CLEAR:g} of these standard deviations, or of their pooled one if that is "
        "larger, as few trials may agree by chance; where FedAvg has a single trial, none is."
    )
    yield ""
    counts = {name: sum(where) for name, where in clear.items()}
    most = max(counts.values(), default=0)
    ahead = "; ".join(name for name, count in counts.items() if count == most > 0)
    others = "; ".join(name for name, count in counts.items() if not count)
    which = "this setting" if len(several) == 1 else "each of these settings"
    if 0 < most < len(several):
        which = f"{most} of these {len(several)} settings, and none in more"
    yield f"Clearly ahead of FedAvg in {which}: {ahead or 'none'}. In none: {others or 'none'}."


def method_lines(
    row: Heading,
    own: Mapping[int, pd.DataFrame],
    baseline: Mapping[int, pd.DataFrame],
    columns: Sequence[Heading],
    bars: Mapping[int, float],
) -> Iterator[str]:
    """A sentence that compares a method with the baseline, and a table with a line per setting.

    Args:
        row: the method's.
        own: what its trials show, by the number of the column.
        baseline: the same of the baseline's, where they share a seed; empty for itself.
        columns: of the table.
        bars: see :func:`bars_of`.
    """
    if baseline:
        yield _against(row.name, own, baseline, columns, bars)
        yield ""
    yield (
        "| Setting | Trials | Accuracy | FedAvg | Best, after rounds "
        "| Right among the clean (of given) | Found | Right pseudo-labels | Work |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for c, trials in own.items():
        cell = trials.mean()
        level = work = ""
        if c in baseline:
            level = number(baseline[c]["accuracy"].reindex(trials.index).mean())
            work = f"{(trials['backward'] / baseline[c]['backward']).mean():.2f}"
        yield (
            f"| {columns[c].name} | {len(trials)} | {number(cell.accuracy)} | {level} "
            f"| {' | '.join(told(cell))} | {work} |"
        )


def told(cell: pd.Series) -> list[str]:
    """What a cell shows besides its accuracy, as the texts of four columns.

    Args:
        cell: a row of :func:`seen`, or the mean of several.

    Returns:
        its best evaluation and after how many rounds that was; its label precision, and in
        parentheses what that is to be held against; its recall; its right pseudo-labels. Empty
        texts for what it does not have.
    """
    return [
        f"{number(cell.best)}, {cell.best_round:.0f}",
        f"{number(cell.precision)} ({number(cell.base)})" if cell.precision >= 0 else "",
        number(cell.recall),
        number(cell.pseudo),
    ]


def _against(
    name: str,
    own: Mapping[int, pd.DataFrame],
    baseline: Mapping[int, pd.DataFrame],
    columns: Sequence[Heading],
    bars: Mapping[int, float],
) -> str:
    """A sentence that compares a method with the baseline, by the numbers of the columns."""
    gains = {c: _gain(own[c], cell) for c, cell in baseline.items()}
    if not any(gains.values()):
        return f"{name} equals FedAvg to the last digit, in each of {len(gains)} settings."
    ahead = sum(gain > bars[c] for c, gain in gains.items())
    behind = sum(-gain > bars[c] for c, gain in gains.items())
    first, *others = sorted(gains, key=gains.__getitem__, reverse=True)
    where = f"{gains[first]:+.1f} points on {columns[first].name}"
    if others:
        where += f", {gains[others[-1]]:+.1f} on {columns[others[-1]].name}"
    return (
        f"{name} is ahead of FedAvg in {sum(gain > 0 for gain in gains.values())} of {len(gains)} "
        f"settings (clearly ahead in {ahead}, clearly behind in {behind}): {where}."
    )


def number(value: float) -> str:
    """A number with one decimal; empty if it is NaN."""
    return "" if np.isnan(value) else f"{value:.1f}"
