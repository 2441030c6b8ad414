"""Features of clients' local models on their samples, beside the global class centroids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from sklearn.manifold import TSNE

from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.figures.style import CLASSES, GREY, PAGE, class_colours, lay_out, legend, new_figure
from noisyfl.specs.descriptions import FigureDescription

PERPLEXITY = 30
"""Perplexity of t-SNE: about how many neighbours a sample has."""

DOT: dict[str, Any] = {"s": 7, "linewidths": 0, "alpha": 0.85}
CROSS: dict[str, Any] = {"s": 9, "marker": "x", "linewidths": 0.7, "alpha": 0.85}
STAR: dict[str, Any] = {"s": 150, "marker": "*", "edgecolors": "black", "linewidths": 0.9}


@dataclass(frozen=True)
class Features:
    """The features that a panel draws.

    Attributes:
        vectors: float [samples, width].
        classes: int64 [samples], the true classes, or the given ones where those are not known.
        wrong: bool [samples], whether the given label is known to differ from the true one.
        centroids: float [known classes, width], the global class centroids.
        known: int64 [known classes], the classes that have a centroid.
    """

    vectors: np.ndarray
    classes: np.ndarray
    wrong: np.ndarray
    centroids: np.ndarray
    known: np.ndarray


def features(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the figure (RoFL, Figure 4): t-SNE of the features, with the centroids as stars.

    Args:
        description: ``panels``, each with its ``name`` and ``run``, an id.
        runs: by id.

    Raises:
        BadInput: a run has no features.
    """
    panels = description.panels
    spec = runs[panels[0].run].spec
    names = DATASETS[spec["noisy_partition"]["dataset"]].classes
    colours = class_colours(len(names))
    width = min(len(panels), 2)
    height = -(-len(panels) // width)
    figure = new_figure(0.4 + PAGE / width * height)
    axes = lay_out(figure, len(panels), width)
    drawn = [read_features(runs[panel.run]) for panel in panels]
    for place, panel, found in zip(axes, panels, drawn, strict=True):
        place.set_title(panel.name)
        _draw(place, found, colours)
    legend(figure, _handles(names, colours, drawn))
    return figure


def read_features(run: Run) -> Features:
    """The features of all clients that have some; samples without finite features are left out.

    Raises:
        BadInput: no client has features.
    """
    labels = ["feature_true_label", "feature_given_label"]
    rows = probed_rows(run, ["feature_vector", *labels, "class_centroid"])
    vectors = np.concatenate([np.array(row["feature_vector"], dtype=np.float64) for row in rows])
    true, given = (np.concatenate([row[label] for row in rows]) for label in labels)
    centroids = np.zeros((0, vectors.shape[1]))
    if rows[0]["class_centroid"] is not None:
        centroids = np.array(rows[0]["class_centroid"], dtype=np.float64)
    known = np.flatnonzero(centroids.any(1) & np.isfinite(centroids).all(1))
    finite = np.isfinite(vectors).all(1)
    return Features(
        vectors=vectors[finite],
        classes=np.where(true < 0, given, true)[finite],
        wrong=((true >= 0) & (given != true))[finite],
        centroids=centroids[known],
        known=known,
    )


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


def _handles(names: Sequence[str], colours: Sequence[Any], drawn: Sequence[Features]) -> list[Any]:
    """The legend's handles: the classes, if they are few enough, and the markers that are drawn."""
    handles: list[Any] = []
    if len(names) <= len(CLASSES):
        handles += [Patch(color=c, label=name) for name, c in zip(names, colours, strict=True)]
    shown: dict[str, Any] = {"color": GREY, "linestyle": "none"}
    if any(found.wrong.any() for found in drawn):
        handles.append(Line2D([], [], marker="x", markersize=4, label="wrong label", **shown))
    if any(len(found.known) for found in drawn):
        handles.append(Line2D([], [], marker="*", markersize=10, label="global centroid", **shown))
    return handles
