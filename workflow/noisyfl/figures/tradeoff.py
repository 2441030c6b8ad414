"""What a run's accuracy costs in rounds and in computation (FedNoiL, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from noisyfl.analysis.curves import mean_curve
from noisyfl.analysis.runs import Run
from noisyfl.figures.looks import (
    DASHES,
    Look,
    legend_of_lines,
    looks,
    row_names,
    setting_name,
)
from noisyfl.figures.style import new_figure, say_empty
from noisyfl.specs.descriptions import FigureDescription

AXES = ("communication\n(ordinary rounds)", "computation\n(training batches)", "test accuracy\n(%)")

SHOWN = 16
"""At most so many evaluations of a row are drawn: evenly chosen, with the first and the last."""

Triples = np.ndarray
"""Ordinary rounds, training batches and test accuracy in percent; float64 [evaluations, 3]."""


def tradeoff(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure: one panel per column, with an axis each for rounds, batches and accuracy.

    A line is one evaluation, the mean over trials. It joins the rounds and batches spent until
    then with the test accuracy reached; later evaluations of a row are drawn more strongly.

    Args:
        description: with a ``table``.
    """
    group, names = row_names(description.source_table.rows)
    styles = looks([row.method for row in description.source_table.rows])
    columns = description.source_table.columns
    figure = new_figure(0.9 + 3.2 * len(columns))
    panels = figure.subplots(len(columns), 1, squeeze=False)[:, 0]
    rows_drawn = set()
    for c, (panel, column) in enumerate(zip(panels, columns, strict=True)):
        panel.set_title(", ".join(filter(None, (group, setting_name(column)))))
        rows = [[runs[run] for run in line[c]] for line in description.source_table.runs]
        found = {r: triples(trials) for r, trials in enumerate(rows) if trials}
        found = {r: points for r, points in found.items() if len(points)}
        if not found:
            panel.axis("off")
            say_empty(panel)
            continue
        rows_drawn |= set(found)
        ends = _ends(np.concatenate(list(found.values())))
        for r, points in found.items():
            _draw(panel, (_thin(points) - ends[0]) / (ends[1] - ends[0]), styles[r])
        _draw_axes(panel, ends)
    legend_of_lines(figure, [(names[r], styles[r]) for r in sorted(rows_drawn)])
    return figure


def triples(trials: list[Run]) -> Triples:
    """A row's triples: means over its trials, at the evaluations of the trial that has most."""
    rounds, accuracy, _ = mean_curve(trials, "test_accuracy")
    batches, _, _ = mean_curve(trials, "test_accuracy", "batches")
    return np.stack([rounds, batches, 100 * accuracy], axis=1)


def _thin(points: Triples) -> Triples:
    if len(points) <= SHOWN:
        return points
    return points[np.linspace(0, len(points) - 1, SHOWN).round().astype(int)]


def _ends(points: Triples) -> np.ndarray:
    """The lowest and the highest value of each axis, [2, 3]: round numbers around all points."""
    spans = []
    for column in range(3):
        low = 0.0 if column < 2 else points[:, column].min()
        ticks = MaxNLocator(5).tick_values(low, max(points[:, column].max(), low + 1e-9))
        spans.append((ticks[0], ticks[-1]))
    return np.array(spans).T


def _draw(panel: Axes, heights: np.ndarray, look: Look) -> None:
    """Draw a line for each triple, given as heights from 0 to 1; later ones are stronger."""
    strength = np.linspace(0.25, 1, len(heights)) if len(heights) > 1 else np.ones(1)
    colours = [to_rgba(look.rgb, float(alpha)) for alpha in strength]
    lines = [list(enumerate(line)) for line in heights]
    panel.add_collection(
        LineCollection(lines, colors=colours, linewidths=1, linestyles=[DASHES[look.dashes]])
    )
    marker = look.point()["marker"]
    for axis in range(3):
        place = np.full(len(heights), axis)
        panel.scatter(
            place, heights[:, axis], 14, c=colours, marker=marker, clip_on=False, linewidths=0
        )


def _draw_axes(panel: Axes, ends: np.ndarray) -> None:
    """Draw an upright axis for each of the three quantities, with its values beside it."""
    panel.set_xlim(0, 2)
    panel.set_ylim(0, 1)
    panel.grid(visible=False)
    panel.set_xticks(range(3), AXES)
    panel.tick_params(bottom=False)
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.set_yticks([])
    whole = FuncFormatter(lambda value, _: f"{value:g}")
    for axis, written in enumerate((whole, EngFormatter(sep=""), whole)):
        scale = panel.inset_axes((axis / 2, 0, 0.001, 1))
        scale.set_ylim(*ends[:, axis])
        scale.grid(visible=False)
        scale.set_xticks([])
        scale.patch.set_visible(False)
        scale.spines["bottom"].set_visible(False)
        scale.yaxis.set_major_locator(MaxNLocator(5))
        scale.yaxis.set_major_formatter(written)
        for label in scale.get_yticklabels():  # lines pass below those of the middle axis
            label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
