"""The cells of tables and the lines of figures, whose runs have the numbers of claims.

The labels of a cell are ``table``, ``row``, ``column`` and ``metric``; ``row_group`` and
``row_label``, and the same of the column; ``method_first`` and ``method_last``, which are the parts
of the row's method; and ``as_published``, 1 if the cell is of the paper's own setting, else 0. The
labels of a figure's line are ``table`` (the figure's name), ``panel``, ``line`` and ``metric``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from noisyfl.claims.declaration import Claim
from noisyfl.claims.labels import (
    AS_PUBLISHED,
    OWN_LABELS,
    Label,
    Place,
    as_label,
    cell_labels,
    labels_of,
)
from noisyfl.claims.query import Query
from noisyfl.specs.descriptions import Description, FigureDescription, TableDescription
from noisyfl.specs.published import KEY

OF_NUMBERS = ("metric", *itertools.chain(*OWN_LABELS.values()))
"""Labels in which the numbers of one line may differ."""


@dataclass(frozen=True)
class Line:
    """A cell of a table, or a line of a figure.

    Attributes:
        labels: all labels but the metric.
        runs: ids of the runs, one per trial.
        metric: the metric that it shows.
        statistic: the statistic that sums up a run; empty for a figure's line.
    """

    labels: dict[str, Label]
    runs: tuple[str, ...]
    metric: str
    statistic: str

    @property
    def place(self) -> Place:
        """Where its numbers stand: in a figure, a line is the row and a panel the column."""
        row, column = (
            self.labels.get(one, self.labels.get(other, ""))
            for one, other in (("row", "line"), ("column", "panel"))
        )
        return Place(str(self.labels["table"]), str(row), str(column))


def lines_of(query: Query, parts: Mapping[str, Description]) -> Iterator[Line]:
    """The cells of tables and lines of figures that have the numbers of a query."""
    for name in query.tables:
        for line in cells_and_lines(name, parts[name]) if name in parts else ():
            if query.fits(line.labels, OF_NUMBERS):
                yield line


def runs_of_claim(claim: Claim, parts: Mapping[str, Description]) -> list[str]:
    """The runs that it takes to judge a claim by our numbers, each once."""
    runs: dict[str, None] = {}
    for query in claim.queries.values():
        of_lines = (line.runs for line in lines_of(query, parts))
        found = _runs_of_cells(query, parts) if query.kind == "cells" else of_lines
        runs |= dict.fromkeys(itertools.chain(*found))
    return list(runs)


def _runs_of_cells(query: Query, parts: Mapping[str, Description]) -> Iterator[Sequence[str]]:
    """The runs of each cell that shows a number of a query."""
    for part in map(parts.get, query.tables):
        if not isinstance(part, TableDescription):
            continue
        for cells in part.cells:
            runs = {c.name: cell.runs for c, cell in zip(part.columns, cells, strict=True)}
            for cell, column in zip(cells, part.columns, strict=True):
                if set(cell.labels) != set(KEY):
                    continue
                known = {**cell_labels(cell.labels), AS_PUBLISHED: float(cell.as_published)}
                if query.fits(known, ("measure", "converged")):
                    yield from (runs[one] for one in column.mean_of or [column.name])


def cells_and_lines(name: str, part: Description) -> Iterator[Line]:
    """The cells of a table, or the lines of a figure, that may have runs."""
    if isinstance(part, FigureDescription):
        for panel in part.panels:
            for line in panel.lines or [panel]:
                texts = {"table": name, "panel": panel.name or None, "line": line.name or None}
                if line.run:
                    y = part.y if isinstance(part.y, str) else ""
                    yield Line(labels_of(texts), (line.run,), y, "")
        return
    for row, cells in zip(part.rows, part.cells, strict=True):
        for column, cell in zip(part.columns, cells, strict=True):
            if not column.has_runs:
                continue
            labels = labels_of({"table": name, "row": row.name, "column": column.name})
            labels[AS_PUBLISHED] = float(cell.as_published)
            for kind, header in (("row", row), ("column", column)):
                labels |= {
                    f"{kind}_group": header.group,
                    f"{kind}_label": as_label(header.label or header.name),
                }
            parts = row.method_name.split("+")
            labels |= {"method_first": parts[0], "method_last": parts[-1]}
            metric, statistic = part.metric_of(row, column), part.statistic_of(row, column)
            yield Line(labels, cell.runs, metric, statistic)
