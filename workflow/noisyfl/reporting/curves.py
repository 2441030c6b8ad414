"""Test accuracy by round, a panel a column of a table and a line a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.reporting.runs import Run
from noisyfl.reporting.style import grid, legend, line_style, new_figure

DIVERGED: dict[str, Any] = {
    "marker": "x",
    "markersize": 6,
    "markeredgewidth": 1.6,
    "linestyle": "none",
}


def over_trials(trials: Sequence[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean test accuracy of a row's trials, and its spread.

    The grid is that of the trial with most evaluations. Where another's evaluations lie elsewhere,
    straight lines join them; where it has ended, it no longer counts.

    Returns:
        Ordinary rounds, mean, and sample standard deviation (0 of a single trial), [evaluations].
        Empty if no trial was evaluated.
    """
    longest = max(trials, key=lambda run: len(run.accuracies))
    rounds = np.array(longest.ordinary_rounds)
    if not len(rounds):
        return rounds, rounds, rounds
    curves = np.array(
        [
            np.interp(rounds, run.ordinary_rounds, run.accuracies, left=np.nan, right=np.nan)
            for run in trials
            if run.accuracies
        ]
    )
    there = ~np.isnan(curves)
    trials_there = there.sum(0)
    mean = np.where(there, curves, 0).sum(0) / trials_there
    squares = np.where(there, curves - mean, 0) ** 2
    return rounds, mean, np.sqrt(squares.sum(0) / np.maximum(trials_there - 1, 1))


def accuracy_by_round(description: Mapping[str, Any], runs: Mapping[str, Run]) -> Figure:
    """Draw the figure; an ordinary round of the axis is as much work for every method.

    Args:
        description: with ``columns``, ``rows`` and the run ids of ``cells[row][column]``.
        runs: by id.
    """
    columns, names = description["columns"], description["rows"]
    width = min(len(columns), 3)
    rows = -(-len(columns) // width)
    figure = new_figure(0.8 + (2.9 if width == 1 else 2.2) * rows)
    diverged = False
    panels = grid(figure, len(columns), width)
    for c, (panel, column) in enumerate(zip(panels, columns, strict=True)):
        panel.set_title(column)
        for r in range(len(names)):
            trials = [runs[run] for run in description["cells"][r][c]]
            _draw_row(panel, trials, r)
            diverged |= any(run.diverged for run in trials)
    panels[0].set_xlim(left=0)
    figure.supxlabel("ordinary rounds", fontsize=8)
    figure.supylabel("test accuracy (%)", fontsize=8)
    _legend(figure, panels[0], names, diverged)
    return figure


def _draw_row(panel: Axes, trials: Sequence[Run], row: int) -> None:
    """A line with its band, and a cross where a trial diverged."""
    style = line_style(row)
    rounds, mean, std = over_trials(trials)
    panel.plot(rounds, 100 * mean, **style)
    low, high = 100 * np.clip((mean - std, mean + std), 0, 1)
    panel.fill_between(rounds, low, high, color=style["color"], alpha=0.16, linewidth=0)
    for run in trials:
        if run.diverged:
            height = run.accuracies[-1] if run.accuracies else 0.0
            panel.plot(run.rounds_done, 100 * height, color=style["color"], **DIVERGED)


def _legend(figure: Figure, panel: Axes, names: Sequence[str], diverged: bool) -> None:
    handles = [panel.plot([], [], label=name, **line_style(r))[0] for r, name in enumerate(names)]
    if diverged:
        handles += panel.plot([], [], label="a trial diverged", color="#555555", **DIVERGED)
    legend(figure, handles, handlelength=2.6)
