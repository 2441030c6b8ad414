"""The content of a table: the cells of its tidy frame, as its pages show them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from noisyfl.analysis.frame import Rows, average_of_cells, cells_of, summaries, tidy
from noisyfl.analysis.metrics import MEASURES, Metric
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import verdict_on_number
from noisyfl.analysis.summaries import OF_ACCURACY, Summary, number
from noisyfl.specs.descriptions import CellDescription, TableDescription
from noisyfl.specs.published import Number

REPORTED_DECIMALS = 3
"""Decimals of what a method reports, which may be small."""


class Cell:
    """A cell of a table: one method in one setting.

    Attributes:
        rows: its rows of the frame; what all of them have in common is in ``facts``.
        metric: the metric that it shows, a name in :data:`noisyfl.analysis.metrics.MEASURES`.
        statistic: the statistic that summarizes a run.
        as_published: the setting and the method are the paper's in every option.
        runs: ids, one per trial; empty if the cell is not trained, or computed from other cells.
        averages: it is a mean of other columns, and its spread, published or ours, is over these.
        diverged: how many trials ended early because the global model ceased to be finite.
        summaries: every statistic by name, over the trials that count; empty if none does.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.facts = rows[0]
        self.metric: str = self.facts["metric"]
        self.statistic: str = self.facts["statistic"]
        self.as_published: bool = self.facts["as_published"]
        self.runs: list[str] = [row["run"] for row in rows if row["run"]]
        self.averages = not self.runs and self.facts["trial"] > 0
        self.diverged = sum(row["status"] == "diverged" for row in rows)
        self.summaries = summaries(rows)

    @property
    def measure(self) -> Metric:
        """The metric that it shows, with its label and unit."""
        return MEASURES[self.metric]

    @cached_property
    def published(self) -> Number | None:
        """The paper's number; None if there is none."""
        value, std = self.facts["published"], self.facts["published_std"]
        starred, decimals = self.facts["published_starred"], self.facts["published_decimals"]
        if math.isnan(value):
            return None
        return Number(value, None if math.isnan(std) else std, starred, decimals)

    @property
    def summary(self) -> Summary | None:
        """Our number, in the metric's unit; None if no trial counts, as when all diverged."""
        return self.summaries.get(self.statistic)

    @cached_property
    def verdict(self) -> str:
        """How our number compares with the published one; empty where there is none.

        A spread over averaged columns is no tolerance: settings differ by more than trials.
        """
        published, ours = self.published, self.summary
        if self.averages:
            published = published and replace(published, std=None)
            ours = ours and replace(ours, std=None)
        mostly = 2 * self.diverged > len(self.rows)
        return verdict_on_number(published, ours, self.measure.unit, self.as_published, mostly)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The cell in one row: what its rows of the frame have in common, and our number.

        Ours is ``mean``, ``std``, ``trials`` and ``starred``, with the ``values`` of its trials and
        their ``seeds``, or of the columns that it averages, by number; ``start`` names what the
        runs start from, see :func:`noisyfl.analysis.runs.start_of`; ``values_best`` and such are
        other statistics of the trials, by :data:`OF_ACCURACY`; ``difference`` and
        ``verdict`` say how it compares, and ``runs`` lists ids. Numbers are rounded to six
        decimals, which hides floating-point noise.
        """
        ours = self.summary
        counted = [row for row in self.rows if not math.isnan(row["value"])]
        return {
            **self.facts,
            "mean": round_number(ours.mean if ours else None),
            "std": round_number(ours.std if ours else None),
            "trials": ours.trials if ours else 0,
            "starred": bool(ours and ours.starred),
            "seeds": " ".join(str(row["seed"] or row["trial"]) for row in counted),
            "start": counted[0]["start"] if counted else "",
            "values": _texts(row["value"] for row in counted),
            **{f"values_{name}": _texts(row[name] for row in counted) for name in OF_ACCURACY},
            "difference": round_number(self.difference),
            "verdict": self.verdict,
            "runs": " ".join(self.runs),
        }

    @property
    def worth(self) -> float:
        """Our number, signed so that larger is better; NaN if a trial diverged, or none counts."""
        if self.summary is None or self.diverged:
            return math.nan
        return -self.summary.mean if self.measure.less_is_better else self.summary.mean

    @property
    def difference(self) -> float | None:
        """Ours minus the published number, where both were made in the same setting."""
        if self.summary is None or self.published is None or not self.as_published:
            return None
        return self.summary.mean - self.published.value


def _shown(
    lines: Sequence[Sequence[Cell]], ranked: Sequence[bool], description: TableDescription
) -> list[tuple[Cell, ...]]:
    """Each cell over the seeds that all ranked rows of its group share in its column, or over all
    of its seeds if they share none: a seed with worse noise would otherwise count against those
    that have it. Cells that average others average these.

    Args:
        ranked: whether a row is compared with others, by its number.
    """
    seeds: dict[tuple[str, int, str], list[set[int]]] = defaultdict(list)
    for row, line in enumerate(lines):
        for c, cell in enumerate(line):
            if ranked[row] and cell.runs:
                group = cell.facts["row_group"], c, cell.metric
                seeds[group].append({one["seed"] for one in cell.rows})

    def over_common(c: int, cell: Cell) -> Cell:
        common = set.intersection(*seeds.get((cell.facts["row_group"], c, cell.metric), [set()]))
        rows = [one for one in cell.rows if one["seed"] in common]
        return Cell(rows) if cell.runs and 0 < len(rows) < len(cell.rows) else cell

    numbers = {column.name: c for c, column in enumerate(description.columns)}
    found = []
    for line in lines:
        shown = [over_common(c, cell) for c, cell in enumerate(line)]
        for c, column in enumerate(description.columns):
            if column.mean_of and line[c].averages:
                parts = [shown[numbers[name]].rows for name in column.mean_of]
                averaged = average_of_cells(parts, line[c].statistic)
                # A part may have no number on these seeds.
                unknown = [{"trial": 0, "value": math.nan}]
                shown[c] = Cell([{**line[c].facts, **one} for one in averaged or unknown])
        found.append(tuple(shown))
    return found


def _texts(values: Iterable[float]) -> str:
    return " ".join(str(round_number(value)) for value in values)


def round_number(value: float | None) -> float | None:
    """A number with six decimals; None if there is none."""
    return None if value is None else round(value, 6)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        trained: it is a row of ours; else it is a line of the paper's that is not trained here.
        cells: with all trials.
        shown: the cells as pages show them, over the seeds that the ranked rows of its group share
            in the column.
        ranked: it is compared with other rows; False for a bound, and for a line of the paper's.
    """

    name: str
    method: str
    trained: bool
    cells: tuple[Cell, ...]
    shown: tuple[Cell, ...]
    group: str
    label: str
    ranked: bool


@dataclass(frozen=True)
class Content:
    """All that a table's page shows.

    Attributes:
        frame: the table's numbers, see :mod:`noisyfl.analysis.frame`.
        runs: the runs by id, from which the page tells how they were made.
        rows: our rows in the description's order, then the paper's lines that are not trained here.
    """

    description: TableDescription
    frame: pd.DataFrame
    runs: Mapping[str, Run]
    rows: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.description.columns]

    @property
    def trained_rows(self) -> list[Row]:
        """The rows that are ours, not the paper's alone."""
        return [row for row in self.rows if row.trained]

    @property
    def cells(self) -> list[Cell]:
        """The cells that have runs, as pages show them."""
        return [cell for row in self.trained_rows for cell in row.shown if cell.runs]

    @property
    def verdicts(self) -> dict[str, int]:
        """How many published numbers of the table have each verdict."""
        found = [cell.verdict for row in self.rows for cell in row.shown if cell.published]
        return {word: found.count(word) for word in dict.fromkeys(found)}

    @cached_property
    def decimals(self) -> int:
        """Decimals of a number: as many as the paper prints, at most two; one if it prints none."""
        published = [cell.published for row in self.rows for cell in row.cells if cell.published]
        return max((min(number.decimals, 2) for number in published), default=1)

    def lacks(self, cell: Cell) -> bool:
        """Whether a cell has no run though it should have one."""
        column = self.description.columns[cell.facts["column_number"]]
        return cell.facts["trained"] and column.has_runs and not cell.runs

    def described(self, cell: Cell) -> CellDescription:
        """What the table's description says of a cell that has runs."""
        return self.description.cells[cell.facts["row_number"]][cell.facts["column_number"]]

    def runs_of(self, cell: Cell) -> list[Run]:
        """The runs of a cell."""
        return [self.runs[run] for run in cell.runs]

    def is_best(self, row: Row, column: int) -> bool:
        """Whether the row's mean is the best of its group in a column, or is printed like the best.

        The mean of a row that is not ranked, of which a trial diverged, or that shows another
        metric is not compared. A row is not the best if it is the only one that is ranked in its
        group with its metric.
        """
        return (self.rows.index(row), column) in self._best

    @cached_property
    def _rivals(self) -> dict[tuple[str, int, str], dict[int, Cell]]:
        """The cells that are compared with each other, by the numbers of their rows: by group,
        column, metric.
        """
        found: dict[tuple[str, int, str], dict[int, Cell]] = defaultdict(dict)
        for r, row in enumerate(self.rows):
            for c, cell in enumerate(row.shown if row.ranked else ()):
                if cell.measure.is_ranked:
                    found[row.group, c, cell.metric][r] = cell
        return dict(found)

    @property
    def on_fewer_seeds(self) -> bool:
        """Whether a cell is shown over fewer seeds than it has."""
        pairs = (zip(row.cells, row.shown, strict=True) for row in self.rows)
        return any(len(one.runs) < len(cell.runs) for row in pairs for cell, one in row)

    @cached_property
    def _best(self) -> set[tuple[int, int]]:
        """By row and column, the cells that are printed like the best of those that they are
        compared with. Where there is a single cell, or no mean to compare, there is none.
        """
        found = set()
        for (_, c, _), cells in self._rivals.items():
            compared = {r: cell for r, cell in cells.items() if not math.isnan(cell.worth)}
            if len(cells) > 1 and compared:
                best = self.number(max(compared.values(), key=lambda cell: cell.worth))
                found |= {(r, c) for r, cell in compared.items() if self.number(cell) == best}
        return found

    @cached_property
    def ranks(self) -> dict[tuple[int, int], tuple[int, int]]:
        """By row and column, the rank of our number in its column, and how many are ranked there.

        Cells with runs are ranked with those of their group and metric, without rows that are not
        ranked. Equal means share the better rank. Cells of which a trial diverged come last.
        """
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for (_, c, _), rivals in self._rivals.items():
            cells = {r: cell for r, cell in rivals.items() if cell.runs}
            if len(cells) < 2:
                continue
            worth = pd.Series([cell.worth for cell in cells.values()])
            ranks = worth.rank(ascending=False, method="min", na_option="bottom")
            found |= {(r, c): (int(rank), len(cells)) for r, rank in zip(cells, ranks, strict=True)}
        return found

    @cached_property
    def is_mixed(self) -> bool:
        """Whether the table has published numbers, and cells that were made in their settings."""
        compared = self.description.published is not None
        return compared and any(cell.as_published for cell in self.cells)

    def number(self, cell: Cell) -> str:
        """The mean of a cell as the table prints it."""
        return "" if cell.summary is None else self.format(cell, cell.summary.mean)

    def format(self, cell: Cell, value: float) -> str:
        """A value of a cell as the table prints it."""
        return number(value, self.decimals if cell.measure.is_ranked else REPORTED_DECIMALS)


def collect(description: TableDescription, runs: Mapping[str, Run]) -> Content:
    """The content of a table, of which all runs are given by id."""
    return content_of(description, tidy(description, runs), runs)


def content_of(
    description: TableDescription, frame: pd.DataFrame, runs: Mapping[str, Run]
) -> Content:
    """Put a table together whose frame has been made already."""
    lines = [tuple(map(Cell, line)) for line in cells_of(frame)]
    facts = [line[0].facts for line in lines]
    ranked = [bool(one["trained"]) and description.rows[one["row_number"]].ranked for one in facts]
    shown = _shown(lines, ranked, description)
    rows = [
        Row(
            name=one["row"],
            method=one["our_method"],
            trained=one["trained"],
            cells=lines[r],
            shown=shown[r],
            group=one["row_group"],
            label=one["row_label"],
            ranked=ranked[r],
        )
        for r, one in enumerate(facts)
    ]
    return Content(description, frame, runs, tuple(rows))
