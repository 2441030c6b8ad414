"""How well each client tells clean labels from noisy ones, and how clients differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisyfl.analysis.clients import client_features, last_values
from noisyfl.analysis.curves import spread_over_clients
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.curves import WORK
from noisyfl.figures.looks import Look, looks, setting_name
from noisyfl.figures.style import correlation_words, legend, new_figure, say_empty
from noisyfl.specs.descriptions import FigureDescription

FEATURES = {
    "noise_level": "noise level of the client (%)",
    "samples": "samples of the client",
    "imbalance": "class imbalance of the client",
}
"""Features by which clients are compared, and their axis labels."""


def by_client(
    description: FigureDescription,
    runs: Mapping[str, Run],
    partitions: Sequence[NoisyPartition],
) -> Figure:
    """Draw the figure: one panel per ``x`` and ``y``, one point per client of the first trial.

    Args:
        description: with a ``table`` of one row and column; ``x``, names in :data:`FEATURES`; and
            ``y``, names in :data:`noisyfl.analysis.metrics.OF_CLIENTS`.
    """
    (partition,) = partitions
    run, look = _first_trial(description, runs)
    across = client_features(partition)
    figure, panels = _panels(description.x, description.y)
    for (name, metric), panel in panels.items():
        one = METRICS[metric]
        values = one.factor * last_values(run, _column(metric), len(partition.clients))
        panel.set_title(correlation_words(across[name], values))
        panel.scatter(across[name], values, 20, color=look.rgb, alpha=0.75, linewidths=0)
        panel.set_xmargin(0.06)
        if one.unit == "percent":
            panel.set_ylim(-3, 103)
        if np.isnan(values + across[name]).all():
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
        axes = figure.subplots(len(metrics), len(across), sharey="row", squeeze=False)
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
            ``metrics``, names in :data:`noisyfl.analysis.metrics.OF_CLIENTS`.
    """
    run, look = _first_trial(description, runs)
    metrics = description.metrics
    figure = new_figure(3.4)
    units = {METRICS[metric].unit for metric in metrics}
    panels = figure.subplots(
        1, len(metrics), sharex=True, sharey=units == {"percent"}, squeeze=False
    )[0]
    for panel, metric in zip(panels, metrics, strict=True):
        one = METRICS[metric]
        panel.set_ylabel(one.axis)
        if one.unit == "percent":
            panel.set_ylim(-3, 103)
        work, mean, low, high = spread_over_clients(run, _column(metric))
        if not len(work):
            say_empty(panel)
            continue
        label = "mean over clients"
        panel.plot(work, one.factor * mean, label=label, **look.line(len(work)))
        label = "lowest to highest client"
        panel.fill_between(
            work,
            one.factor * low,
            one.factor * high,
            color=look.rgb,
            alpha=0.22,
            linewidth=0,
            label=label,
        )
    panels[0].xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    figure.supxlabel(description.xlabel or WORK["ordinary_rounds"], fontsize=8)
    labelled = [panel.get_legend_handles_labels()[0] for panel in panels]
    legend(figure, max(labelled, key=len), handlelength=3.4, title=_cell(description))
    return figure


def _column(metric: str) -> str:
    """The column of ``clients`` that has a metric."""
    return METRICS[metric].of_clients or metric


def _first_trial(description: FigureDescription, runs: Mapping[str, Run]) -> tuple[Run, Look]:
    (look,) = looks([row.method for row in description.source_table.rows])
    return runs[description.source_table.runs[0][0][0]], look


def _cell(description: FigureDescription) -> str:
    """The name of the table's only cell: its row and its setting."""
    table = description.source_table
    return f"{table.rows[0].name}, {setting_name(table.columns[0])}"
