"""The page of every method: what the runs in common settings say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import pandas as pd

from noisyfl.analysis.measurements import Against, Measurements
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import ORACLE
from noisyfl.analysis.summaries import number
from noisyfl.pages.explanations import Why, template
from noisyfl.specs.descriptions import Heading, TableDescription

COLUMNS = (
    *("Setting", "Trials", "Accuracy", "FedAvg", "Best, after rounds"),
    *("Precision (of candidates)", "Recall", "Right pseudo-labels", "Work"),
)
"""The columns of a method's table; those of which it has nothing are left out."""


def methods_page(
    table: TableDescription, runs: Mapping[str, Run], reasons: Mapping[str, Sequence[Why]]
) -> str:
    """The page as Markdown.

    Args:
        table: of every method in common settings, with a row of the baseline.
        runs: by id, all of the table's.
        reasons: people's paragraphs, by the method's name.

    Raises:
        ValueError: no row is the baseline's.
    """
    measurements = Measurements(table, runs)
    return template("methods.md.jinja").render(
        table=table,
        measurements=measurements,
        glance=_at_a_glance(table, measurements),
        significant=_significantly_better(table, measurements),
        unranked=[row.name for row in table.rows if not row.ranked],
        settings=_settings(table, measurements),
        methods=list(_methods(table, measurements, reasons)),
        missing=[row.name for r, row in enumerate(table.rows) if not measurements.row(r)],
    )


def _settings(table: TableDescription, measurements: Measurements) -> list[list[str]]:
    """How far a difference from the baseline varies in each setting in which that is known, as the
    texts of six columns.
    """
    oracles = [r for r, row in enumerate(table.rows) if row.method_name == ORACLE]
    lines = []
    for c, deviation in measurements.differences.deviations.items():
        baseline = measurements.cells[measurements.baseline, c]["accuracy"]
        spread = f" ± {number(baseline.std())}" if len(baseline) > 1 else ""
        found = measurements.differences
        gains = {r: found.mean((r, at)) for r, at in found.points if at == c}
        headroom = [gains[r] for r in oracles if r in gains]
        significant = [
            gain
            for r, gain in gains.items()
            if (r, c) in found.significant and table.rows[r].ranked
        ]
        lines.append(
            [
                table.columns[c].name,
                f"{number(baseline.mean())}{spread}",
                f"{headroom[0]:+.1f}" if headroom else "",
                number(deviation),
                str(sum(gain > 0 for gain in significant)),
                str(sum(gain < 0 for gain in significant)),
            ]
        )
    return lines


def _significantly_better(
    table: TableDescription, measurements: Measurements
) -> dict[str, tuple[int, int]]:
    """In how many settings with several seeds each ranked method is significantly better, and in
    how many it is run; without methods that are run in none of these.
    """
    deviations = measurements.differences.deviations
    found = {
        row.name: (against.significantly_better, len(against.gains.keys() & deviations.keys()))
        for r, row in enumerate(table.rows)
        if row.ranked and r != measurements.baseline
        for against in [measurements.against(r)]
    }
    return {name: counts for name, counts in found.items() if counts[1]}


def _at_a_glance(table: TableDescription, measurements: Measurements) -> list[list[str]]:
    """The table of accuracies by row and column, without columns of which most cells are missing;
    its header first.

    In a column without missing cells the best of the rows that are ranked is in bold. Cells that
    differ significantly from the baseline have a triangle. A cell of which a trial diverged says
    so.
    """
    cells, trained = measurements.cells, measurements.seeds
    rows, columns = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [c for c in columns if 2 * sum((r, c) in trained for r in rows) >= len(rows)]
    lines = {r: [table.rows[r].name] for r in rows}
    for c in columns:
        there = [r for r in rows if (r, c) in trained]
        seeds = sorted(set.intersection(*(trained[r, c] for r in there)))
        accuracies = {r: cells[r, c]["accuracy"] for r in there if (r, c) in cells}
        means = {r: one.reindex(seeds).mean(skipna=False) for r, one in accuracies.items()}
        numbers = {r: number(mean) for r, mean in means.items() if mean >= 0}
        rivals = [r for r in numbers if table.rows[r].ranked]
        if len(there) == len(rows) and rivals:
            highest = number(max(means[r] for r in rivals))
            numbers |= {r: f"**{highest}**" for r in rivals if numbers[r] == highest}
        found = measurements.differences
        for r in numbers.keys() & {r for r, at in found.significant if at == c}:
            numbers[r] += " ▲" if found.mean((r, c)) > 0 else " ▼"
        without = "diverged" if seeds else ""
        for r in rows:
            lines[r].append(numbers.get(r, without if r in there else "–"))
    return [["Method", *(table.columns[c].name for c in columns)], *lines.values()]


@dataclass(frozen=True)
class Method:
    """What the page of every method has of one.

    Attributes:
        against: how it compares with the baseline; None for itself.
        columns: of the table of every method.
        lines: of the table of its settings, the header first.
        reasons: people's paragraphs.
    """

    name: str
    against: Against | None
    columns: Sequence[Heading]
    lines: Sequence[Sequence[str]]
    reasons: Sequence[Why]


def _methods(
    table: TableDescription, measurements: Measurements, reasons: Mapping[str, Sequence[Why]]
) -> Iterator[Method]:
    """Every method that is run, in the order of the table."""
    for r, row in enumerate(table.rows):
        if not measurements.row(r):
            continue
        against = measurements.against(r) if r != measurements.baseline else None
        gains = against.gains if against else {}
        lines = [
            [table.columns[c].name, *_setting(measurements, c, trials, c in gains)]
            for c, trials in measurements.row(r).items()
        ]
        has_text = [any(texts) for texts in zip(*lines, strict=True)]
        yield Method(
            row.name,
            against if gains else None,
            table.columns,
            [list(compress(line, has_text)) for line in (COLUMNS, *lines)],
            reasons.get(row.name, ()),
        )


def _setting(
    measurements: Measurements, column: int, trials: pd.DataFrame, compared: bool
) -> list[str]:
    """What a method reached in a setting, as the texts of eight columns; where it is compared, over
    the seeds that the baseline has, too.
    """
    level = work = ""
    if compared:
        baseline = measurements.cells[measurements.baseline, column]
        trials = trials.loc[trials.index.isin(baseline.index)]
        level = number(baseline["accuracy"].reindex(trials.index).mean())
        work = f"{(trials['backward'] / baseline['backward']).mean():.2f}"
    cell = trials.mean()
    return [str(len(trials)), number(cell.accuracy), level, *describe(cell), work]


def describe(cell: pd.Series) -> list[str]:
    """What a cell reached besides its accuracy, as the texts of four columns.

    Args:
        cell: a row of :func:`noisyfl.analysis.measurements.measure`, or the mean of several.

    Returns:
        its best evaluation and after how many rounds that was; its label precision, and in
        parentheses what that is compared with; its recall; its right pseudo-labels. Empty
        texts for what it does not have.
    """
    return [
        f"{number(cell.best)}, {cell.best_round:.0f}",
        f"{number(cell.precision)} ({number(cell.base)})" if cell.precision >= 0 else "",
        number(cell.recall),
        number(cell.pseudo),
    ]
