"""How well clean and noisy labels are told apart on each client, and how clients differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.analysis.clients import features, last_values
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.curves import WORK
from noisyfl.figures.looks import Look, looks, setting_name
from noisyfl.figures.style import legend, new_figure, say_empty
from noisyfl.specs.descriptions import FigureDescription

FEATURES = {
    "noise_level": "noise level of the client (%)",
    "samples": "samples of the client",
    "imbalance": "class imbalance of the client",
}
"""Features by which clients are compared, and their axis labels."""

COLUMNS = (
    *("label_precision", "label_recall"),
    *("noise_detection_precision", "noise_detection_recall"),
)
"""Columns of ``clients`` that hold a metric of single clients, and bear the metric's name."""


def by_client(
    description: FigureDescription,
    runs: Mapping[str, Run],
    partitions: Sequence[NoisyPartition],
) -> Figure:
    """Draw the figure: one panel per ``x`` and ``y``, one point per client of the first trial.

    Args:
        description: with a ``table`` of one row and column; ``x``, names in :data:`FEATURES`; and
            ``y``, names in :data:`COLUMNS`.
        runs: by id.
        partitions: the first trial's noisy partition.
    """
    (partition,) = partitions
    run, look = _first_trial(description, runs)
    across = features(partition)
    figure, panels = _panels(description.x, description.y)
    for (name, metric), panel in panels.items():
        values = 100 * last_values(run, metric, len(partition.clients))
        there = ~np.isnan(values)
        panel.set_title(_correlation(across[name][there], values[there]))
        panel.scatter(across[name], values, 20, color=look.rgb, alpha=0.75, linewidths=0)
        panel.set_xmargin(0.06)
        panel.set_ylim(-3, 103)
        if not there.any():
            say_empty(panel)
    figure.suptitle(_cell(description))
    return figure


def _panels(
    across: Sequence[str], metrics: Sequence[str]
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """One line of panels per metric.

    A single feature has all metrics in one line, which fills the page better.
    """
    if len(across) == 1:
        figure = new_figure(3.2)
        axes = figure.subplots(1, len(metrics), squeeze=False).T
    else:
        figure = new_figure(0.7 + 2.3 * len(metrics))
        axes = figure.subplots(len(metrics), len(across), sharey=True, squeeze=False)
    panels = {}
    for n, metric in enumerate(metrics):
        for k, name in enumerate(across):
            panel = panels[name, metric] = axes[n, k]
            panel.set_xlabel(FEATURES[name])
            if k == 0:
                panel.set_ylabel(METRICS[metric].axis)
    return figure, panels


def among_clients(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure: one panel per metric, which shows its mean over clients by round.

    The mean is over the clients that have a value in the round; the band reaches from the lowest
    client to the highest.

    Args:
        description: with a ``table`` of one row and column, of which the first trial is drawn; and
            ``metrics``, names in :data:`COLUMNS`.
        runs: by id.
    """
    run, look = _first_trial(description, runs)
    metrics = description.metrics
    figure = new_figure(3.4)
    panels = figure.subplots(1, len(metrics), sharex=True, sharey=True, squeeze=False)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        panel.set_ylabel(METRICS[metric].axis)
        work, mean, low, high = spread(run, metric)
        if not len(work):
            say_empty(panel)
            continue
        label = "mean over clients"
        panel.plot(work, 100 * mean, label=label, **look.line(len(work)))
        label = "lowest to highest client"
        panel.fill_between(
            work, 100 * low, 100 * high, color=look.rgb, alpha=0.22, linewidth=0, label=label
        )
    panels[0].set_ylim(-3, 103)
    figure.supxlabel(WORK["ordinary_rounds"], fontsize=8)
    labelled = [panel.get_legend_handles_labels()[0] for panel in panels]
    legend(figure, max(labelled, key=len), handlelength=3.4, title=_cell(description))
    return figure


def spread(run: Run, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest value of a column of ``clients``, by round.

    Returns:
        Ordinary rounds, mean, lowest and highest, float64 [rounds in which a client has a value].
    """
    rounds, _, values = run.of_clients(column)
    listed = np.unique(rounds)
    groups = [values[rounds == number] for number in listed]
    work = run.work()[np.searchsorted(run.all_rounds["round"], listed)]
    mean, low, high = (np.array([f(group) for group in groups]) for f in (np.mean, np.min, np.max))
    return work, mean, low, high


def _first_trial(description: FigureDescription, runs: Mapping[str, Run]) -> tuple[Run, Look]:
    (look,) = looks([row.method for row in description.drawn.rows])
    return runs[description.drawn.runs[0][0][0]], look


def _cell(description: FigureDescription) -> str:
    """The name of the table's only cell: its row and its setting."""
    return f"{description.drawn.rows[0].name}, {setting_name(description.drawn.columns[0])}"


def _correlation(x: np.ndarray, y: np.ndarray) -> str:
    """Pearson's r in words; empty where it is undefined."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return ""
    return f"Pearson's r = {np.corrcoef(x, y)[0, 1]:.2f}"
