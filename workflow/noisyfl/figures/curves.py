"""Metrics by round: one panel per metric and column of a table, one line per row."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from noisyfl.analysis.curves import mean_curve
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.runs import Run
from noisyfl.figures.looks import Look, legend_of_lines, looks, row_names, setting_name
from noisyfl.figures.style import DIVERGED, GREY, new_figure, say_empty, trials_in_words
from noisyfl.specs.descriptions import FigureDescription

WORK = {
    "ordinary_rounds": "ordinary rounds: as many local updates as a round of FedAvg has",
    "batches": "training batches of all clients",
}
"""Label of the x axis, by the unit in which :meth:`Run.work` counts."""

MARKS = (":", "-.", "--")
"""Dashes of the vertical lines at ``marks``, in their order."""

BAND = 0.16
"""Opacity of a band."""


def by_round(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure; an ordinary round on its axis is the same amount of work for every method.

    Args:
        description: with a ``table``, ``metrics``, ``x`` (``ordinary_rounds`` or ``batches``),
            ``xlabel``, and on an axis of rounds ``marks``, each of which is drawn in the panels
            whose curves reach it.
    """
    table, unit, marks = description.source_table, str(description.x), description.marks
    group, names = row_names(table.rows)
    styles = looks([row.method for row in table.rows])
    titles = _titles(description, group)
    figure, panels = _panels(titles, description.metrics)
    counts: dict[int, set[int]] = defaultdict(set)  # of the trials of each row that is drawn
    uneven = False
    marked: dict[str, Line2D] = {}
    for (c, metric), panel in panels.items():
        drawn = set()
        for r, look in enumerate(styles):
            trials = [runs[run] for run in table.runs[r][c]]
            if _draw_row(panel, trials, metric, unit, look, r / len(styles)):
                counts[r].add(len(trials))
                drawn.add(len(trials))
        uneven |= len(drawn) > 1
        if not panel.lines:
            say_empty(panel)
        end = max((np.asarray(line.get_xdata())[-1] for line in panel.lines), default=0)
        for mark, dashes in zip(marks, itertools.cycle(MARKS)):
            if mark.at <= end:  # the runs of a short scale may end before it
                style: dict[str, Any] = {"color": GREY, "linestyle": dashes, "linewidth": 1}
                panel.axvline(mark.at, **style)
                marked[mark.label] = Line2D([], [], label=mark.label, **style)
        panel.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if unit == "batches":
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.supxlabel(description.xlabel or WORK[unit], fontsize=8)
    shown = [
        (f"{names[r]} ({trials_in_words(counts[r])})" if uneven else names[r], styles[r])
        for r in sorted(counts)
    ]
    markers = [line.get_marker() for panel in panels.values() for line in panel.lines]
    diverged = "a trial diverged" if DIVERGED["marker"] in markers else None
    more: list[Artist] = list(marked.values())
    if any(panel.collections for panel in panels.values()):
        more.append(Patch(label="± standard deviation", color=GREY, alpha=BAND, linewidth=0))
    legend_of_lines(figure, shown, diverged, titles[0] if len(titles) == 1 else "", more)
    return figure


def _titles(description: FigureDescription, group: str) -> list[str]:
    """A title for each column: the rows' common group, and the name of the column's setting.

    A part is left out if it only repeats the label of a metric that is drawn.
    """
    labels = [METRICS[metric].label for metric in description.metrics]
    names = [setting_name(column) for column in description.source_table.columns]
    return [
        ", ".join(part for part in (group, name) if part not in ("", *labels)) for name in names
    ]


def _panels(
    titles: Sequence[str], metrics: Sequence[str]
) -> tuple[Figure, dict[tuple[int, str], Axes]]:
    """The panels by column and metric: all share the x axis, those of a metric share the y axis.

    Columns stand side by side and metrics below each other, unless there is only one column.
    """
    lines = _lines(len(titles), metrics)
    width = max(map(len, lines))
    figure = new_figure(0.9 + (2.9 if width == 1 else 2.2) * len(lines))
    axes = figure.subplots(len(lines), width, sharex=True, squeeze=False)
    panels: dict[tuple[int, str], Axes] = {}
    scales: dict[str, Axes] = {}
    for n, line in enumerate(lines):
        for k, (c, metric) in enumerate(line):
            panel = panels[c, metric] = axes[n, k]
            if panel is not scales.setdefault(metric, panel):
                panel.sharey(scales[metric])
            if k and line[k - 1][1] == metric:
                panel.tick_params(labelleft=False)
            else:
                panel.set_ylabel(METRICS[metric].axis)
            if len(titles) > 1 and metric == metrics[0]:
                panel.set_title(titles[c])
            if n == len(lines) - 1 or k >= len(lines[n + 1]):
                panel.tick_params(labelbottom=True)
        for surplus in axes[n, len(line) :]:
            surplus.remove()
    return figure, panels


def _lines(columns: int, metrics: Sequence[str]) -> list[list[tuple[int, str]]]:
    """The column and metric of each panel, line by line, with at most three panels in a line."""
    if columns > 1 and len(metrics) > 1:
        strips = [range(columns)[first : first + 3] for first in range(0, columns, 3)]
        return [[(c, metric) for c in strip] for strip in strips for metric in metrics]
    places = [(c, metric) for c in range(columns) for metric in metrics]
    width = 2 if len(places) == 4 else 3
    return [places[first : first + width] for first in range(0, len(places), width)]


def _draw_row(
    panel: Axes, trials: Sequence[Run], metric: str, unit: str, look: Look, turn: float
) -> bool:
    """Draw a line, its band, and a cross where a trial diverged; return whether any was drawn."""
    factor, share = METRICS[metric].factor, METRICS[metric].unit == "percent"
    work, mean, std = mean_curve(trials, metric, unit) if trials else (np.zeros(0),) * 3
    if len(work):
        panel.plot(work, factor * mean, **look.line(len(work), turn))
        if std.any():
            least = 0 if METRICS[metric].is_ranked else None
            low, high = factor * np.clip((mean - std, mean + std), least, 1 if share else None)
            panel.fill_between(work, low, high, color=look.rgb, alpha=BAND, lw=0)
    ended = 0
    for run in trials:
        _, values = run.series(metric)
        if run.diverged and (len(values) or not run.accuracies):
            ended += 1
            _draw_end(panel, run.work(unit)[-1], factor * values, look)
    return bool(len(work) or ended)


def _draw_end(panel: Axes, work: float, values: np.ndarray, look: Look) -> None:
    """Mark where a run diverged: a cross at its last value, or on the axis if it has none."""
    if len(values):
        panel.plot(work, values[-1], color=look.rgb, **DIVERGED)
    else:
        below = panel.get_xaxis_transform()
        panel.plot(work, 0.02, color=look.rgb, transform=below, clip_on=False, **DIVERGED)
