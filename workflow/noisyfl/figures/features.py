"""Features of clients' local models on their samples, beside the global class centroids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from sklearn.manifold import TSNE

from noisyfl.analysis.runs import Run
from noisyfl.analysis.samples import Features, read_features
from noisyfl.data.datasets.dataset import dataset
from noisyfl.figures.style import CLASSES, GREY, PAGE, class_colours, lay_out, legend
from noisyfl.specs.descriptions import FigureDescription

PERPLEXITY = 30
"""Perplexity of t-SNE: about how many neighbours a sample has."""

DOT: dict[str, Any] = {"s": 7, "linewidths": 0, "alpha": 0.85}
CROSS: dict[str, Any] = {"s": 9, "marker": "x", "linewidths": 0.7, "alpha": 0.85}
STAR: dict[str, Any] = {"s": 150, "marker": "*", "edgecolors": "black", "linewidths": 0.9}


def features(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure (RoFL, Figure 4): t-SNE of the features, with the centroids as stars.

    Args:
        description: ``panels``, each with its ``name`` and ``run``, an id.

    Raises:
        BadInput: a run has no features.
    """
    panels = description.panels
    spec = runs[panels[0].run].spec
    names = dataset(spec["noisy_partition"]["dataset"]).true_names
    colours = class_colours(len(names))
    width = min(len(panels), 2)
    figure, axes = lay_out(len(panels), width, 0.4, PAGE / width)
    parts = [read_features(runs[panel.run]) for panel in panels]
    for place, panel, found in zip(axes, panels, parts, strict=True):
        place.set_title(panel.name)
        _draw(place, found, colours)
    legend(figure, _handles(names, colours, parts))
    return figure


def embed(found: Features) -> tuple[np.ndarray, np.ndarray]:
    """Embed samples and centroids together in a plane: float [samples, 2], [known classes, 2]."""
    points = np.concatenate([found.vectors, found.centroids])
    perplexity = min(PERPLEXITY, max(1, (len(points) - 1) // 3))
    plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(points)
    return plane[: len(found.vectors)], plane[len(found.vectors) :]


def _draw(panel: Axes, found: Features, colours: Sequence[Any]) -> None:
    samples, centroids = embed(found)
    by_class = np.array(colours, dtype=object)
    for chosen, style in ((~found.wrong, DOT), (found.wrong, CROSS)):
        panel.scatter(*samples[chosen].T, color=list(by_class[found.classes[chosen]]), **style)
    panel.scatter(*centroids.T, color=list(by_class[found.known]), **STAR)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_aspect("equal", adjustable="datalim")
    panel.spines[:].set_visible(True)


def _handles(names: Sequence[str], colours: Sequence[Any], parts: Sequence[Features]) -> list[Any]:
    """The legend's handles: the classes, if they are few enough, and the markers that are drawn."""
    handles: list[Any] = []
    if len(names) <= len(CLASSES):
        handles += [Patch(color=c, label=name) for name, c in zip(names, colours, strict=True)]
    shown: dict[str, Any] = {"color": GREY, "linestyle": "none"}
    if any(part.wrong.any() for part in parts):
        handles.append(Line2D([], [], marker="x", markersize=4, label="wrong label", **shown))
    if any(len(part.known) for part in parts):
        handles.append(Line2D([], [], marker="*", markersize=10, label="global centroid", **shown))
    return handles
