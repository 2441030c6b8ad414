"""The accuracy of every client's local model, clients in the order of their noise levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from noisyfl.analysis.clients import by_id
from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.looks import Look, looks
from noisyfl.figures.style import GREY, correlation_words, lay_out, legend
from noisyfl.specs.descriptions import FigureDescription, Panel

ACCURACIES = {
    "test_accuracy": ("local_test_accuracy", "test accuracy of the local model (%)"),
    "own_classes_accuracy": (
        "local_own_classes_accuracy",
        "accuracy on test samples of the client's classes (%)",
    ),
    "train_accuracy": ("local_train_accuracy", "accuracy on the client's given labels (%)"),
}
"""For each accuracy, by name: the column that holds it, and its axis label."""

NOISE: dict[str, Any] = {"color": GREY, "alpha": 0.18, "linewidth": 0}


def local_models(
    description: FigureDescription,
    runs: Mapping[str, Run],
    partitions: Sequence[NoisyPartition],
) -> Figure:
    """Draw the figure (FedRN, Figures 1 and 4); the shaded area is the clients' noise level.

    Args:
        description: ``y``, a name in :data:`ACCURACIES`; and ``panels``, each with its ``name`` and
            ``lines``, each of those with its ``name``, and the ids ``run`` and ``partition``.
        partitions: those of all lines, in any order.

    Raises:
        BadInput: a run has no local models' accuracies.
    """
    panels, known = description.panels, by_id(partitions)
    column, axis = ACCURACIES[str(description.y)]
    look = _looks([line for panel in panels for line in panel.lines], runs)
    figure, places = lay_out(len(panels), min(len(panels), 3), 0.9, 2.3, share=True)
    for axes, panel in zip(places, panels, strict=True):
        levels = [known[line.partition].realised for line in panel.lines]
        shaded = {line.partition for line in panel.lines}
        found = [
            probed_rows(runs[line.run], [column], len(level))
            for line, level in zip(panel.lines, levels, strict=True)
        ]
        values = [100 * np.array([row[column] for row in rows]) for rows in found]
        r = correlation_words(levels[0], values[0]) if len(levels) == 1 else ""
        axes.set_title("\n".join([panel.name, *([r] if r else [])]))
        for partition in sorted(shaded):
            level = np.sort(known[partition].realised)
            axes.fill_between(range(len(level)), 100 * level, **NOISE)
        for line, level, value in zip(panel.lines, levels, values, strict=True):
            _draw(axes, level, value, look[line.name], len(panel.lines))
        axes.set_ylim(0, 103)
        axes.set_xmargin(0.02)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.supxlabel("clients, by noise level", fontsize=8)
    figure.supylabel(axis, fontsize=8)
    handles = [Line2D([], [], label=name, **one.line()) for name, one in look.items()]
    legend(figure, [*handles, Patch(label="noise level (%)", **NOISE)], handlelength=3.4)
    return figure


def _looks(lines: list[Panel], runs: Mapping[str, Run]) -> dict[str, Look]:
    """The look of each line by its name, the same in every panel."""
    named = {line.name: runs[line.run] for line in reversed(lines)}
    names = list(dict.fromkeys(line.name for line in lines))
    return dict(zip(names, looks([named[name].spec["method"] for name in names]), strict=True))


def _draw(axes: Axes, level: np.ndarray, values: np.ndarray, look: Look, lines: int) -> None:
    """Draw one line, which is thinner if the panel has several."""
    width = 1.4 if lines == 1 else 1.0
    order = np.argsort(level, kind="stable")
    axes.plot(values[order], **{**look.line(len(values)), "linewidth": width})
