"""What tells clean samples from noisy ones, in classes of many samples and in those of few.

A class that has at least as many samples on a client, by given label, as the client's classes have
on average is a majority class there; the others that it has are minority classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from noisyfl.core.artifacts import RunFiles
from noisyfl.core.options import BadInput, find
from noisyfl.reporting.descriptions import FigureDescription, Panel
from noisyfl.reporting.figures.probed import probed_rows
from noisyfl.reporting.figures.style import CLEAN, NOISY, legend, new_figure, say_empty

SCORES = {
    "loss": ("sample_loss", "loss of the given label", 1),
    "similarity": ("sample_similarity", "similarity to the prototype of the given class", -1),
}
"""By name, the column that has it, what an axis calls it, and its sign: noisy samples have the
larger ones of the signed score."""

CLASSES = {"majority": True, "minority": False}

BINS = 40


def detection(description: FigureDescription, runs: Mapping[str, RunFiles]) -> Figure:
    """Draw the figure (FedCNI, Figure 1): histograms of a score, all clients' samples together.

    The area under the ROC curve is the probability that the score of a noisy sample is on the right
    side of that of a clean one.

    Args:
        description: ``panels``, each with its ``name``; ``run``, an id; ``score``, a name in
            :data:`SCORES`; and ``classes``, ``majority`` or ``minority``.
        runs: by id.

    Raises:
        BadInput: a run has no samples' scores, nobody knows which labels are true, or there is no
            such score or group of classes.
    """
    panels = description.panels
    found = [_values(panel, runs, f"{description.name}: {panel.name}") for panel in panels]
    edges = {
        name: _edges([v for panel, (v, _) in zip(panels, found, strict=True) if _of(panel, name)])
        for name in {panel.score for panel in panels}
    }
    width = min(len(panels), 2)
    height = -(-len(panels) // width)
    figure = new_figure(0.5 + 2.1 * height)
    axes = figure.subplots(height, width, squeeze=False)
    for surplus in axes.flat[len(panels) :]:
        surplus.remove()
    handles: list[Any] = []
    for place, panel, (values, noisy) in zip(axes.flat, panels, found, strict=False):
        _, axis, sign = SCORES[panel.score]
        place.set_title("\n".join([panel.name, _area(sign * values, noisy)]))
        place.set_xlabel(axis)
        drawn = _draw(place, values, noisy, edges[panel.score])
        handles = max(handles, drawn, key=len)
    figure.supylabel("share of the clean, and of the noisy samples (%)", fontsize=8)
    legend(figure, handles)
    return figure


def majority(given: np.ndarray) -> np.ndarray:
    """Which of a client's samples are of a majority class, bool [samples].

    Args:
        given: int64 [samples], their given labels.
    """
    _, place, many = np.unique(given, return_inverse=True, return_counts=True)
    return (many >= many.mean())[place]


def _values(
    panel: Panel, runs: Mapping[str, RunFiles], where: str
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of a panel's samples, float64 [samples], and which of them are noisy."""
    column, _, _ = find(SCORES, panel.score, "score", f"{where}: score")
    wanted = find(CLASSES, panel.classes, "group of classes", f"{where}: classes")
    files = runs[panel.run]
    values, noisy = [], []
    for row in probed_rows(panel.run, files, [column, "sample_given_label", "sample_true_label"]):
        given, true = np.array(row["sample_given_label"]), np.array(row["sample_true_label"])
        if (true < 0).any():
            raise BadInput(f"{files.clients}: true labels are not known, expected those of a run")
        chosen = majority(given) == wanted
        values.append(np.array(row[column], dtype=np.float64)[chosen])
        noisy.append((given != true)[chosen])
    score, flags = np.concatenate(values), np.concatenate(noisy)
    finite = np.isfinite(score)
    return score[finite], flags[finite]


def _of(panel: Panel, score: str) -> bool:
    return panel.score == score


def _edges(values: list[np.ndarray]) -> np.ndarray:
    """Common bins of all panels that draw a score."""
    return np.histogram_bin_edges(np.concatenate(values), BINS)


def _area(score: np.ndarray, noisy: np.ndarray) -> str:
    """The area under the ROC curve in words; it needs samples of both kinds."""
    if noisy.all() or not noisy.any():
        return f"{len(noisy)} samples"
    return f"{len(noisy)} samples, area under the ROC curve {roc_auc_score(noisy, score):.2f}"


def _draw(panel: Axes, values: np.ndarray, noisy: np.ndarray, edges: np.ndarray) -> list[Any]:
    """Histograms of which each adds up to 100; returns what a legend names."""
    for group, colour, label in ((~noisy, CLEAN, "clean samples"), (noisy, NOISY, "noisy samples")):
        part = values[group]
        if len(part):
            weights = np.full(len(part), 100 / len(part))
            panel.hist(part, list(edges), weights=weights, color=colour, alpha=0.55, label=label)
    if not len(values):
        say_empty(panel)
    return panel.get_legend_handles_labels()[0]
