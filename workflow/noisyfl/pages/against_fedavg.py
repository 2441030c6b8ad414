"""Each method beside FedAvg, in words and in a table: a part of the page of evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from noisyfl.analysis.against_fedavg import CLEAR, Cells, gain
from noisyfl.analysis.statistics import number
from noisyfl.pages.markdown import head
from noisyfl.pages.markdown import row as row_of
from noisyfl.specs.descriptions import Heading, TableDescription


def clear_differences(
    table: TableDescription, cells: Cells, baseline: int, bars: Mapping[int, float]
) -> Iterator[str]:
    """A paragraph on how much the baseline's trials differ, if there are several, and one that
    names the methods that are clearly ahead of it in the most of these settings, or in none.

    Args:
        table: of every method in common settings.
        cells: what the trials of its cells show.
        baseline: the number of the baseline's row.
        bars: see :func:`noisyfl.analysis.against_fedavg.bars_of`.
    """
    several = {c: cell for (r, c), cell in cells.items() if r == baseline and len(cell) > 1}
    if not several:
        return
    spreads = (
        f"{cell['accuracy'].mean():.1f} ± {cell['accuracy'].std():.1f} on {table.columns[c].name}"
        for c, cell in several.items()
    )
    clear = {
        row.name: [
            (r, c) in cells and gain(cells[r, c], cell) > bars[c] for c, cell in several.items()
        ]
        for r, row in enumerate(table.rows)
        if row.ranked and r != baseline and any(at == r for at, _ in cells)
    }
    yield ""
    yield (
        f"Over several seeds FedAvg has {'; '.join(spreads)}. A difference from it is *clear* if "
        f"it is more than {CLEAR:g} of these standard deviations, or of their pooled one if that "
        "is larger, as few trials may agree by chance; where FedAvg has a single trial, none is."
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
        bars: see :func:`noisyfl.analysis.against_fedavg.bars_of`.
    """
    if baseline:
        yield _against(row.name, own, baseline, columns, bars)
        yield ""
    yield from head(
        [
            *("Setting", "Trials", "Accuracy", "FedAvg", "Best, after rounds"),
            *("Right among the clean (of given)", "Found", "Right pseudo-labels", "Work"),
        ]
    )
    for c, trials in own.items():
        cell = trials.mean()
        level = work = ""
        if c in baseline:
            level = number(baseline[c]["accuracy"].reindex(trials.index).mean())
            work = f"{(trials['backward'] / baseline[c]['backward']).mean():.2f}"
        numbers = [str(len(trials)), number(cell.accuracy), level]
        yield row_of([columns[c].name, *numbers, *outcome_texts(cell), work])


def outcome_texts(cell: pd.Series) -> list[str]:
    """What a cell shows besides its accuracy, as the texts of four columns.

    Args:
        cell: a row of :func:`noisyfl.analysis.against_fedavg.outcomes`, or the mean of several.

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
    gains = {c: gain(own[c], cell) for c, cell in baseline.items()}
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
