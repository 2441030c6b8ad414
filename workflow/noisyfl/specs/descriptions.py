"""Descriptions of tables and figures: plain data that their jobs are given as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from noisyfl.core.options import BadInput
from noisyfl.core.registry import split_method
from noisyfl.data.titles import know
from noisyfl.specs.identity import canonical_json

Runs = tuple[tuple[tuple[str, ...], ...], ...]
"""Ids of runs, indexed by row, then column, then trial."""

Labels = Mapping[str, str]
"""Texts by the columns of the file of published numbers that hold them."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A row or a column of a table.

    Attributes:
        name: the name, different from those of the other rows or columns.
        label: what is printed below or beside its group.
        group: the header that it shares with its neighbours; empty for none.
        method: for a row, its method, as the experiment's file gives it or canonical.
        published: the texts that select its published numbers, by the columns of their file; None
            if it is not compared with published numbers.
        metric: the metric that its cells show, if it differs from the table's.
        statistic: the statistic that summarizes a run, if it differs from the table's.
        x: where a figure draws it.
        mean_of: for a column, the names of the columns whose means it averages; it then has no
            runs.
        average_rank: for a column, whether it has no runs but shows the average of each row's
            ranks in the columns with runs.
        ranked: for a row, whether it has a rank.
    """

    name: str
    label: str = ""
    group: str = ""
    method: Any = None
    published: Labels | None = field(default_factory=dict)
    metric: str | None = None
    statistic: str | None = None
    x: int | float | None = None
    mean_of: tuple[str, ...] = ()
    average_rank: bool = False
    ranked: bool = True

    @property
    def method_name(self) -> str:
        """The names of the method's parts, joined by ``+``."""
        return "+".join(part["name"] for part in split_method(self.method, self.name))

    @property
    def variant(self) -> str:
        """The variant that the method is given with; empty if there is none."""
        return split_method(self.method, self.name)[0].get("variant", "")

    @property
    def has_runs(self) -> bool:
        """Whether its cells have runs of their own, and are not computed from other columns."""
        return not (self.mean_of or self.average_rank)


@dataclass(frozen=True, kw_only=True)
class CellDescription:
    """A cell of a table, before its runs are read.

    Attributes:
        runs: ids, one per trial.
        as_published: whether the setting and the method are the paper's in every option.
        labels: in the file of published numbers: all label columns of its number, or if it has
            none, as many as the table's description gives.
        number: what the paper prints, by :data:`noisyfl.specs.published.PRINTED`; empty if it
            prints nothing. It is part of the description, so that a corrected number causes those
            tables to be printed again that show it, and no others.
        changed_options: the options of its runs that are not the defaults, by method.
        remarks: what a reader should know of its runs.
    """

    runs: tuple[str, ...] = ()
    as_published: bool = False
    labels: Labels = field(default_factory=dict)
    number: Labels = field(default_factory=dict)
    changed_options: Mapping[str, list[str]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableDescription:
    """A table: what its pages say, and the runs behind each cell.

    Attributes:
        scale_note: the scale's note, which describes it.
        metric: the metric of the cells whose row and column name no other.
        statistic: the statistic that summarizes a run, in the cells whose row and column name no
            other.
        published: the texts that select the paper's numbers; None for a table of no paper.
        cells: by row, then column.
        left_out: rows of the experiment's file that the scale does not keep. They give their names
            to the lines of the paper's table that belong to them.
        other_numbers: the lines of the file of published numbers that are of the paper's table and
            of none of the cells.
        missing: how many more runs it would have if all were trained.
        missing_hours: about how many hours of one CPU core training these would take.
        titles: of users' own data, by digest.
    """

    experiment: str
    experiment_title: str
    name: str
    title: str
    scale: str
    metric: str
    statistic: str
    columns: tuple[Heading, ...]
    rows: tuple[Heading, ...]
    cells: tuple[tuple[CellDescription, ...], ...]
    note: str = ""
    scale_note: str = ""
    published: Labels | None = None
    left_out: tuple[Heading, ...] = ()
    other_numbers: tuple[Labels, ...] = ()
    missing: int = 0
    missing_hours: float = 0.0
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> Runs:
        """The ids of the runs of each cell."""
        return tuple(tuple(cell.runs for cell in line) for line in self.cells)

    def with_runs(self, runs: Sequence[Sequence[Sequence[str]]]) -> TableDescription:
        """The table with other runs in its cells, by row, then column, then trial."""
        pairs = (zip(*lines, strict=True) for lines in zip(self.cells, runs, strict=True))
        cells = tuple(tuple(replace(cell, runs=tuple(ids)) for cell, ids in line) for line in pairs)
        return replace(self, cells=cells)

    def metric_of(self, row: Heading | None, column: Heading) -> str:
        """The metric of a cell: its row's if that has one, else its column's, else the table's."""
        return (row and row.metric) or column.metric or self.metric

    def statistic_of(self, row: Heading | None, column: Heading) -> str:
        """The statistic that summarizes a run of a cell, looked up as :meth:`metric_of` does."""
        return (row and row.statistic) or column.statistic or self.statistic

    def run_ids(self) -> list[str]:
        """Every run of the table once, in order."""
        return list(dict.fromkeys(run for row in self.runs for cell in row for run in cell))

    @property
    def not_as_published(self) -> Literal["none", "some", "all"]:
        """How many of its cells with runs are not in the paper's setting."""
        own = {cell.as_published for line in self.cells for cell in line if cell.runs}
        if False not in own:
            return "none"
        return "some" if True in own else "all"

    def part(self, rows: Sequence[int], columns: Sequence[int]) -> TableDescription:
        """The table of some of its rows and columns, by number, without the published numbers."""
        return replace(
            self,
            rows=tuple(self.rows[r] for r in rows),
            columns=tuple(self.columns[c] for c in columns),
            cells=tuple(tuple(replace(self.cells[r][c], number={}) for c in columns) for r in rows),
            published=None,
            left_out=(),
            other_numbers=(),
        )

    def panels(self, where: str) -> dict[str, list[int]]:
        """The numbers of the columns that have runs, by group; in a group they are ordered by
        their ``x``. ``where`` is what error messages call the figure with a panel for each group.

        Raises:
            BadInput: a column has no ``x``, or the cells of a group show different metrics or
                statistics.
        """
        found: dict[str, list[tuple[float, int]]] = {}
        for c, column in enumerate(self.columns):
            if not any(line[c] for line in self.runs):
                continue
            if column.x is None:
                raise BadInput(
                    f"{where}: column {column.name!r} of the table {self.name!r} has no x, "
                    "expected a number: where it is drawn"
                )
            found.setdefault(column.group, []).append((column.x, c))
        for group, places in found.items():
            columns = [self.columns[c] for _, c in places]
            shown = {
                f"{self.statistic_of(row, column)} of {self.metric_of(row, column)}"
                for row in self.rows
                for column in columns
            }
            if len(shown) > 1:
                raise BadInput(
                    f"{where}: got a panel ({group!r}) of {', '.join(sorted(shown))}, expected one "
                    "of these, by the rows and columns that the figure names"
                )
        return {group: [c for _, c in sorted(places)] for group, places in found.items()}

    def with_columns_of(self, other: TableDescription) -> TableDescription:
        """The table with another table's columns after its own, without the published numbers.

        Rows are the same if their names are; one that a table lacks has no runs in its columns.
        """
        rows = {row.name: row for row in self.rows}
        for row in other.rows:
            rows.setdefault(row.name, row)

        def lines(table: TableDescription) -> Iterator[tuple[CellDescription, ...]]:
            of_row = {row.name: line for row, line in zip(table.rows, table.cells, strict=True)}
            for name in rows:
                line = of_row.get(name, (CellDescription(),) * len(table.columns))
                yield tuple(replace(cell, number={}) for cell in line)

        return replace(
            self,
            columns=(*self.columns, *other.columns),
            rows=tuple(rows.values()),
            cells=tuple((*mine, *its) for mine, its in zip(lines(self), lines(other), strict=True)),
            published=None,
            left_out=(),
            other_numbers=(),
            missing=self.missing + other.missing,
            missing_hours=self.missing_hours + other.missing_hours,
        )

    @classmethod
    def from_json(cls, text: str) -> TableDescription:
        """Read what :func:`description_text` has written, and take note of the titles."""
        table = _TABLES.validate_json(text)
        know(table.titles)
        return table


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of a figure, or a line in a panel.

    Attributes:
        run: the id of the run that is drawn, if one is.
        partition: the id of the noisy partition that is drawn, or that the drawn run has.
        method: the canonical method, for a line that is drawn from a method's options alone.
        score: the score by which a figure of detection tells clean samples from noisy ones.
        classes: the group of classes whose samples it shows.
        lines: the lines of a panel in which several things are drawn.
    """

    name: str = ""
    run: str = ""
    partition: str = ""
    method: Any = None
    score: str = ""
    classes: str = ""
    lines: tuple[Panel, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A vertical line with a label, drawn after ``at`` ordinary rounds."""

    at: int | float
    label: str


@dataclass(frozen=True, kw_only=True)
class FigureDescription:
    """A figure: what is drawn, and what it is drawn from.

    Attributes:
        kind: a name in :data:`noisyfl.figures.draw.KINDS`; it decides which of the other
            attributes are used.
        runs: ids of every run that is drawn.
        partitions: ids of every noisy partition that is drawn.
        table: the part of a table whose runs are drawn.
        panels: what is drawn in a figure that is not drawn from a table.
        metrics: the metrics of the runs that are drawn.
        x: what the horizontal axis shows; in a figure of clients, several names, one panel each.
        y: what the vertical axis shows.
        xlabel: the label of the horizontal axis, where the table does not give one; empty for the
            kind's own.
        footer: whether a line below says where the figure comes from.
        rounds: how many rounds are drawn.
        marks: the marks of a figure by round.
        titles: of users' own data, by digest.
    """

    experiment: str
    experiment_title: str
    name: str
    scale: str
    kind: str
    title: str
    caption: str
    runs: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    table: TableDescription | None = None
    panels: tuple[Panel, ...] = ()
    metrics: tuple[str, ...] = ("test_accuracy",)
    x: str | tuple[str, ...] = "ordinary_rounds"
    y: str | tuple[str, ...] = ""
    xlabel: str = ""
    footer: bool = True
    rounds: int = 0
    marks: tuple[Mark, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def source_table(self) -> TableDescription:
        """The part of a table that is drawn, in a figure of a kind that draws one."""
        assert self.table is not None
        return self.table

    def run_ids(self) -> list[str]:
        """Every run of the figure once, in order."""
        return list(dict.fromkeys(self.runs))

    def without_runs(self, lacks: Callable[[str], bool]) -> FigureDescription | None:
        """The figure without those of its panels and lines that need a run which ``lacks`` names by
        its id; None if nothing is left.
        """

        def left_of(panels: Iterable[Panel]) -> tuple[Panel, ...]:
            found = []
            for panel in panels:
                lines = left_of(panel.lines)
                if bool(lines) == bool(panel.lines) and not (panel.run and lacks(panel.run)):
                    found.append(replace(panel, lines=lines))
            return tuple(found)

        panels = left_of(self.panels)
        lines = [line for panel in panels for line in panel.lines or (panel,)]
        if not lines:
            return None
        return replace(
            self,
            panels=panels,
            runs=tuple(line.run for line in lines if line.run),
            partitions=tuple(line.partition for line in lines if line.partition),
        )

    @classmethod
    def from_json(cls, text: str) -> FigureDescription:
        """Read what :func:`description_text` has written, and take note of the titles."""
        figure = _FIGURES.validate_json(text)
        know(figure.titles)
        return figure


_TABLES = TypeAdapter(TableDescription)
_FIGURES = TypeAdapter(FigureDescription)


def complete_block(runs: Runs) -> tuple[list[int], list[int]]:
    """Return the numbers of rows and columns that make a block in which every cell has a run.

    Columns are added one by one, those with runs in most rows first, and only the rows that have
    runs in all of them are kept; the result is the block with the most cells on the way. Rows can
    be compared only in such a block, since means over different columns are not comparable.
    """
    having = {
        c: {r for r, row in enumerate(runs) if row[c]} for c in range(len(runs[0]) if runs else 0)
    }
    best: tuple[list[int], list[int]] = [], []
    rows: set[int] = set(range(len(runs)))
    columns: list[int] = []
    for column in sorted(having, key=lambda c: -len(having[c])):
        rows, columns = rows & having[column], [*columns, column]
        if len(rows) * len(columns) > len(best[0]) * len(best[1]):
            best = sorted(rows), sorted(columns)
    return best


Description = TableDescription | FigureDescription


def description_text(description: Description) -> str:
    """A description as :func:`script_safe` JSON, so that equal ones are equal texts."""
    return script_safe(asdict(description))


def script_safe(content: Mapping[str, Any]) -> str:
    """Canonical JSON without ``<``: Snakemake writes the parameters of a reported rule as they are
    into a script of its report, which a ``<`` could end.
    """
    return canonical_json(content).replace("<", r"\u003c")


def in_restructured_text(text: str) -> str:
    """Text as one line of reStructuredText that shows it as it stands.

    Titles and captions may come from somebody else's experiment file, and markup could make the
    report hold a file of this machine, or run a script.
    """
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def read_description(text: str) -> Description:
    """Read what :func:`description_text` has written, of a table or of a figure."""
    kind = FigureDescription if "kind" in json.loads(text) else TableDescription
    return kind.from_json(text)
