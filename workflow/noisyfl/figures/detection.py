"""How well a score tells clean samples from noisy ones, in majority and in minority classes.

A client's majority classes are those of which it has at least as many samples, by given label, as
of its classes on average; its other classes are its minority classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from noisyfl.analysis.runs import Run
from noisyfl.analysis.samples import scores_of_samples
from noisyfl.figures.style import CLEAN, NOISY, lay_out, legend, say_empty
from noisyfl.specs.descriptions import FigureDescription, Panel

SCORES = {
    "loss": ("sample_loss", "loss of the given label", 1),
    "similarity": ("sample_similarity", "similarity to the prototype of the given class", -1),
}
"""For each score, by name: the column that holds it, its axis label, and its sign. The score
times its sign should be larger for noisy samples."""

CLASSES = {"majority": True, "minority": False}

BINS = 40


def detection(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure (FedCNI, Figure 1): histograms of a score, all clients' samples together.

    The area under the ROC curve is the probability that the scores of a noisy and of a clean sample
    are in the expected order, see :data:`SCORES`.

    Args:
        description: ``panels``, each with its ``name``; ``run``, an id; ``score``, a name in
            :data:`SCORES`; and ``classes``, ``majority`` or ``minority``.

    Raises:
        BadInput: a run has no scores of samples.
    """
    panels = description.panels
    found = [_values(panel, runs) for panel in panels]
    edges = {
        score: np.histogram_bin_edges(
            np.concatenate(
                [v for panel, (v, _) in zip(panels, found, strict=True) if panel.score == score]
            ),
            BINS,
        )
        for score in {panel.score for panel in panels}
    }
    figure, axes = lay_out(len(panels), min(len(panels), 2), 0.5, 2.1)
    handles: list[Any] = []
    for place, panel, (values, noisy) in zip(axes, panels, found, strict=True):
        _, axis, sign = SCORES[panel.score]
        place.set_title("\n".join([panel.name, _area(sign * values, noisy)]))
        place.set_xlabel(axis)
        patches = _draw(place, values, noisy, edges[panel.score])
        handles = max(handles, patches, key=len)
    figure.supylabel("share of the clean, and of the noisy samples (%)", fontsize=8)
    legend(figure, handles)
    return figure


def _values(panel: Panel, runs: Mapping[str, Run]) -> tuple[np.ndarray, np.ndarray]:
    """The scores of a panel's samples, float64 [samples], and which of them are noisy."""
    column, _, _ = SCORES[panel.score]
    return scores_of_samples(runs[panel.run], column, CLASSES[panel.classes])


def _area(score: np.ndarray, noisy: np.ndarray) -> str:
    """The number of samples, and the area under the ROC curve if both kinds are there, in words."""
    if noisy.all() or not noisy.any():
        return f"{len(noisy)} samples"
    return f"{len(noisy)} samples, area under the ROC curve {roc_auc_score(noisy, score):.2f}"


def _draw(panel: Axes, values: np.ndarray, noisy: np.ndarray, edges: np.ndarray) -> list[Any]:
    """Draw the histograms, each of which adds up to 100; return the legend's handles."""
    for group, colour, label in ((~noisy, CLEAN, "clean samples"), (noisy, NOISY, "noisy samples")):
        part = values[group]
        if len(part):
            weights = np.full(len(part), 100 / len(part))
            panel.hist(part, list(edges), weights=weights, color=colour, alpha=0.55, label=label)
    if not len(values):
        say_empty(panel)
    return panel.get_legend_handles_labels()[0]
