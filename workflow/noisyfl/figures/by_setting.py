"""A table's numbers plotted against the values of its columns, one line per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from noisyfl.analysis.cells import Cell
from noisyfl.analysis.frame import cells_of, tidy
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.runs import Run
from noisyfl.figures.looks import Look, legend_of_lines, looks, row_names
from noisyfl.figures.style import DIVERGED, GREY, lay_out, say_empty
from noisyfl.specs.descriptions import FigureDescription

WORDS = {
    "best": "best {}",
    "last": "{} at the end",
    "mean_last_10": "{}, mean of last 10",
    "final_or_max": "{} at the end, or maximum",
    "mean": "mean {}",
}
"""Label of an axis that shows a statistic, by its name; ``{}`` stands for the metric."""

BAR: dict[str, Any] = {"linestyle": "none", "markersize": 12, "markeredgewidth": 0.9}
"""How an error bar looks in the legend."""

WIDE = 100
"""An axis is logarithmic if its largest value is at least this many times its smallest."""


class Quantity(NamedTuple):
    """What a cell shows: a metric, and the statistic that sums it up over a run."""

    metric: str
    statistic: str

    @property
    def axis(self) -> str:
        """The label of an axis that shows this quantity."""
        return WORDS[self.statistic].format(METRICS[self.metric].axis)


class Point(NamedTuple):
    """A cell of the table as it is drawn; mean and standard deviation are NaN if it has no mean."""

    x: float
    mean: float
    std: float
    diverged: bool


def by_setting(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure: one panel per group of columns, each column at its ``x``.

    A point is the mean over the trials that did not diverge, with an error bar of one standard
    deviation to either side; a cross on the axis marks a setting in which all trials diverged. An
    x axis whose values are positive and span a factor of :data:`WIDE` is logarithmic.

    Args:
        description: with a ``table`` and ``xlabel``.

    Raises:
        BadInput: as :meth:`noisyfl.specs.descriptions.TableDescription.panels`, which planning has
            asked before.
    """
    common, names = row_names(description.source_table.rows)
    styles = looks([row.method for row in description.source_table.rows])
    panels = description.source_table.panels(description.name)
    cells = [list(map(Cell, line)) for line in cells_of(tidy(description.source_table, runs))]
    width = 2 if len(panels) == 4 else min(len(panels), 3)
    figure, axes = lay_out(len(panels), width, 0.9, 2.9 if width == 1 else 2.2)
    scales: dict[Quantity, Axes] = {}
    rows_drawn, diverged = set(), False
    for n, (panel, (group, places)) in enumerate(zip(axes, panels.items(), strict=True)):
        shown = [[line[c] for c in places] for line in cells]
        quantity = Quantity(shown[0][0].metric, shown[0][0].statistic)
        panel.set_title(", ".join(filter(None, (common, group))))
        if panel is not scales.setdefault(quantity, panel):
            panel.sharey(scales[quantity])
        if n % width == 0 or len(scales) > 1:
            panel.set_ylabel(quantity.axis)
        for r, look in enumerate(styles):
            points = [_point(cell) for cell in shown[r]]
            if _draw(panel, points, look, r / len(styles)):
                rows_drawn.add(r)
            diverged |= any(point.diverged for point in points)
        if not panel.lines:
            say_empty(panel)
        _scale(panel, [cell.facts["x"] for cell in shown[0]])
    figure.supxlabel(description.xlabel, fontsize=8)
    named = [(names[r], styles[r]) for r in sorted(rows_drawn)]
    bars = Line2D([], [], label="± standard deviation", color=GREY, marker="|", **BAR)
    more = [bars] if any(panel.collections for panel in axes) else []
    legend_of_lines(figure, named, "every trial diverged" if diverged else None, more=more)
    return figure


def _point(cell: Cell) -> Point:
    x, ours = cell.facts["x"], cell.summary
    if ours is None:
        return Point(x, np.nan, np.nan, 0 < len(cell.runs) == cell.diverged)
    return Point(x, ours.mean, ours.std or 0.0, False)


def _draw(panel: Axes, points: Sequence[Point], look: Look, turn: float) -> bool:
    """Draw a line with its error bars and its crosses; return whether there was anything to draw.

    The line has a gap where a cell has no mean.
    """
    x, mean, std, _ = (np.array(column) for column in zip(*points, strict=True))
    there = bool(np.any(~np.isnan(mean)))
    if there:
        bars: dict[str, Any] = {"ecolor": look.rgb, "elinewidth": 0.9, "capsize": 2}
        spread = std if np.any(std > 0) else None
        panel.errorbar(x, mean, spread, **look.line(len(x), turn), **bars)
    below = panel.get_xaxis_transform()
    ended = [point.x for point in points if point.diverged]
    for place in ended:
        panel.plot(place, 0.02, color=look.rgb, transform=below, clip_on=False, **DIVERGED)
    return there or bool(ended)


def _scale(panel: Axes, values: Sequence[float]) -> None:
    """Put ticks at the columns' values, and make the axis logarithmic where they span a lot."""
    values = sorted(set(values))
    if values[0] > 0 and values[-1] >= WIDE * values[0]:
        panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(values))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
