"""The content of a table: our numbers cell by cell, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisyfl.catalogue import split_method
from noisyfl.reporting.published import Published, select, select_one
from noisyfl.reporting.runs import Run
from noisyfl.reporting.statistics import STATISTICS, Summary, over_trials

METRIC = "test_accuracy"
"""The metric of the published numbers that tables show, unless they name another."""

LINE = ("setting_scope", "method", "variant")
"""Columns of the published numbers that name a line of a printed table."""

SETTING = ("dataset", "partition", "noise")
"""Columns that name its setting; a line's own, where the table's columns do not select by them."""


@dataclass(frozen=True)
class Cell:
    """One setting and one method.

    Attributes:
        runs: one a trial; none where the table trains nothing.
        summaries: every statistic by name, over the trials that did not diverge; empty where none
            is left.
        published: the paper's number.
        as_published: the setting and the method are the paper's in every option.
    """

    runs: tuple[Run, ...]
    summaries: Mapping[str, Summary]
    published: Published | None
    as_published: bool

    @property
    def diverged(self) -> int:
        """How many trials ended early because the global model was no longer finite."""
        return sum(run.diverged for run in self.runs)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        trained: it has runs; else it is the paper's alone.
    """

    name: str
    method: str
    trained: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Content:
    """All that a table's page shows.

    Attributes:
        description: the plan's, see :class:`noisyfl.experiments.Table`.
        rows: the trained ones in the description's order, then those of the paper alone.
    """

    description: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return [column["name"] for column in self.description["columns"]]

    @property
    def statistic(self) -> str:
        """The one that the paper of the table reports."""
        return self.description["statistic"]

    @property
    def trained(self) -> list[Row]:
        """The rows that have runs."""
        return [row for row in self.rows if row.trained]

    @property
    def cells(self) -> list[Cell]:
        """The cells that have runs."""
        return [cell for row in self.trained for cell in row.cells]

    @property
    def decimals(self) -> int:
        """Of a percentage: as many as the paper prints, at most two; one without a paper."""
        published = [cell.published for row in self.rows for cell in row.cells if cell.published]
        return max((min(number.decimals, 2) for number in published), default=1)

    def best(self, column: int) -> str | None:
        """The largest mean of a column as printed, among rows of which no trial diverged."""
        means = [
            row.cells[column].summaries[self.statistic].mean
            for row in self.trained
            if not row.cells[column].diverged
        ]
        return self.percent(max(means)) if means else None

    def is_best(self, row: Row, column: int) -> bool:
        """The row's mean is the column's best, or printed as that."""
        cell = row.cells[column]
        if not cell.runs or cell.diverged:
            return False
        return self.percent(cell.summaries[self.statistic].mean) == self.best(column)

    def percent(self, share: float) -> str:
        """A share as the table prints it."""
        return f"{100 * share:.{self.decimals}f}"


def collect(
    description: Mapping[str, Any], runs: Mapping[str, Run], published: list[Published]
) -> Content:
    """Put a table together.

    Raises:
        BadInput: several published numbers fit one cell, or a column that they do not have is
            named.
    """
    where = f"{description['experiment']}/{description['name']}"
    columns = description["columns"]
    rows = []
    for r, row in enumerate(description["rows"]):
        cells = []
        for c, column in enumerate(columns):
            number = None
            if description["published"] is not None:
                wanted = {
                    "metric": METRIC,
                    **description["published"],
                    **_published_method(row, where),
                    **column["published"],
                }
                place = f"{where}: row {row['name']!r}, column {column['name']!r}"
                number = select_one(published, wanted, place)
            trials = tuple(runs[run] for run in description["runs"][r][c])
            summaries = _summaries(trials)
            cells.append(Cell(trials, summaries, number, description["as_published"][r][c]))
        rows.append(Row(row["name"], _name(row, where), True, tuple(cells)))
    if description["published"] is not None:
        rows += _not_run(description, published, rows, where)
    return Content(description, tuple(rows))


def _published_method(row: Mapping[str, Any], where: str) -> dict[str, str]:
    """What selects a row's published numbers: its method and variant, unless it says otherwise."""
    variant = split_method(row["method"], where)[0].get("variant", "")
    return {"method": _name(row, where), "variant": variant, **row["published"]}


def _name(row: Mapping[str, Any], where: str) -> str:
    return "+".join(part["name"] for part in split_method(row["method"], where))


def _summaries(trials: tuple[Run, ...]) -> dict[str, Summary]:
    finished = [run.accuracies for run in trials if not run.diverged]
    return {name: over_trials(name, finished) for name in STATISTICS} if finished else {}


def _not_run(
    description: Mapping[str, Any], published: list[Published], rows: list[Row], where: str
) -> list[Row]:
    """The lines of the paper's table that belong to none of ours.

    What no column of ours selects by, its row's own line may differ in.
    """
    table, columns = description["published"], description["columns"]
    selected = {*table, *(key for column in columns for key in column["published"])}
    telling = [*LINE, *(key for key in SETTING if key not in selected)]
    shown = {cell.published.line for row in rows for cell in row.cells if cell.published}
    lines: dict[tuple[str, ...], list[list[Published]]] = {}
    for c, column in enumerate(columns):
        wanted = {"metric": METRIC, **table, **column["published"]}
        wanted.pop("setting_scope", None)
        for number in select(published, wanted, f"{where}: column {column['name']!r}"):
            if number.line not in shown:
                line = tuple(number.fields[key] for key in telling)
                lines.setdefault(line, [[] for _ in columns])[c].append(number)
    names = _printed_names([dict(zip(telling, line, strict=True)) for line in lines])
    return [
        Row(
            name=name,
            method=line[LINE.index("method")],
            trained=False,
            cells=tuple(
                Cell((), {}, select_one(found, {}, f"{where}: row {name!r}"), False)
                for found in numbers
            ),
        )
        for name, (line, numbers) in zip(names, lines.items(), strict=True)
    ]


def _printed_names(lines: list[dict[str, str]]) -> list[str]:
    """Each line's method, its variant, and what else tells it from the others."""
    varying = [key for key in SETTING if len({line.get(key) for line in lines}) > 1]
    names = []
    for line in lines:
        more = [line[key] for key in ("variant", *varying) if line[key]]
        if line["setting_scope"] != "federated":
            more.append(line["setting_scope"])
        names.append(f"{line['method']} ({', '.join(more)})" if more else line["method"])
    return names
