"""The cells of tables and the lines of figures, whose runs have the numbers of claims.

The labels of a cell are ``table``, ``row``, ``column`` and ``metric``; ``row_group`` and
``row_label``, and the same of the column; ``method``, ``method_first`` and ``method_last`` of the
row's method; and ``as_published``, 1 if the cell is of the paper's own setting, else 0. The
labels of a figure's line are ``table`` (the figure's name), ``panel``, ``line`` and ``metric``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from noisyfl.claims.labels import (
    AS_PUBLISHED,
    OWN_LABELS,
    Label,
    Place,
    labels_of,
)
from noisyfl.claims.query import Query
from noisyfl.specs.descriptions import Description, FigureDescription

OF_NUMBERS = ("metric", *itertools.chain(*OWN_LABELS.values()))
"""Labels in which the numbers of one line may differ."""


@dataclass(frozen=True)
class Line:
    """A cell of a table, or a line of a figure.

    Attributes:
        place: where it stands; in a figure, a line is the row and a panel the column.
        labels: all labels but the metric.
        runs: ids of the runs, one per trial.
        metric: the metric that it shows.
        statistic: the statistic that sums up a run; empty for a figure's line.
    """

    place: Place
    labels: dict[str, Label]
    runs: tuple[str, ...]
    metric: str
    statistic: str


def lines_of(query: Query, parts: Mapping[str, Description]) -> Iterator[Line]:
    """The cells of tables and lines of figures that have the numbers of a query."""
    for name in query.tables:
        for line in cells_and_lines(name, parts[name]) if name in parts else ():
            if query.fits(line.labels, OF_NUMBERS):
                yield line


def cells_and_lines(name: str, part: Description) -> Iterator[Line]:
    """The cells of a table, or the lines of a figure, that may have runs."""
    if isinstance(part, FigureDescription):
        for panel in part.panels:
            for line in panel.lines or [panel]:
                if line.run:
                    texts = {"panel": panel.name or None, "line": line.name or None}
                    labels = labels_of({"table": name, **texts})
                    y = part.y if isinstance(part.y, str) else ""
                    yield Line(Place(name, line.name, panel.name), labels, (line.run,), y, "")
        return
    for row, cells in zip(part.rows, part.cells, strict=True):
        for column, cell in zip(part.columns, cells, strict=True):
            if not column.has_runs:
                continue
            texts = {"table": name, "method": row.method_name}
            for kind, heading in (("row", row), ("column", column)):
                texts |= {
                    kind: heading.name,
                    f"{kind}_group": heading.group,
                    f"{kind}_label": heading.label or heading.name,
                }
            labels = {**labels_of(texts), AS_PUBLISHED: float(cell.as_published)}
            metric, statistic = part.metric_of(row, column), part.statistic_of(row, column)
            place = Place(name, row.name, column.name)
            yield Line(place, labels, cell.runs, metric, statistic)
