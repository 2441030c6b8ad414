"""How similar the outputs of clients' local models are for one image of random noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.analysis.clients import by_id, count_classes, main_classes
from noisyfl.analysis.pairs import OUTPUT, cosines
from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.style import PAGE, lay_out
from noisyfl.specs.descriptions import FigureDescription

FEW_CLASSES = 20
"""Classes on an axis are named if there are no more than this."""

NAME = 0.045
"""Room for a class's name, as a share of an axis."""


def similarity(
    description: FigureDescription,
    runs: Mapping[str, Run],
    partitions: Sequence[NoisyPartition],
) -> Figure:
    """Draw the figure (FedRN, Figure 5): one heat map per panel, clients ordered by main classes.

    Args:
        description: ``panels``, each with its ``name`` and the ids ``run`` and ``partition``.
        partitions: those of all panels, in any order.

    Raises:
        BadInput: a run has no outputs for the random image.
    """
    panels, known = description.panels, by_id(partitions)
    width = min(len(panels), 2)
    figure, axes = lay_out(len(panels), width, 0.5, PAGE / width - 0.3)
    for place, panel in zip(axes, panels, strict=True):
        partition = known[panel.partition]
        rows = probed_rows(runs[panel.run], [OUTPUT], len(partition.clients))
        outputs = np.array([row[OUTPUT] for row in rows], dtype=np.float64)
        image = _draw(place, panel.name, cosines(outputs), partition)
    figure.colorbar(image, ax=axes, label="cosine similarity", shrink=0.75, pad=0.02)
    figure.supxlabel("client, by its main classes", fontsize=8)
    return figure


def _draw(panel: Axes, name: str, table: np.ndarray, partition: NoisyPartition) -> Any:
    """Draw one heat map; its title has the means over pairs that share a main class, and others."""
    counts, main = count_classes(partition), main_classes(partition)
    order = np.lexsort((main[:, 1], main[:, 0]))
    first = main[order, 0]
    image = panel.imshow(table[np.ix_(order, order)], vmin=0, vmax=1, cmap="viridis")
    apart = ~np.eye(len(main), dtype=bool)
    has = np.zeros((len(main), len(counts[0])))
    np.put_along_axis(has, main, np.take_along_axis(counts, main, axis=1) > 0, axis=1)
    alike = has @ has.T > 0
    means = [
        f"{words} {np.nanmean(table[pairs]):.2f}"
        for words, pairs in (("sharing a main class", alike & apart), ("others", ~alike))
        if pairs.any()
    ]
    panel.set_title(f"{name}\nmean: {', '.join(means)}")
    panel.grid(visible=False)
    classes = dataset(partition.spec["dataset"]).true_names
    present, begins, many = np.unique(first, return_index=True, return_counts=True)
    if len(present) <= FEW_CLASSES:
        names = [classes[label] for label in present]
        middle = spread_out(begins + (many - 1) / 2, NAME * len(first), len(first) - 1)
        panel.set_yticks(middle, names)
        panel.set_xticks(middle, names)
        if max(map(len, names)) > 2:
            panel.set_xticks(middle, names, rotation=60, ha="right")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    return image


def spread_out(places: np.ndarray, least: float, end: float) -> np.ndarray:
    """Places in ascending order, moved as little as it takes for any two to lie ``least`` apart.

    Args:
        places: float64 [n].
        end: how far the last one may be moved.
    """
    moved = places.astype(float)
    for n in range(1, len(moved)):
        moved[n] = max(moved[n], moved[n - 1] + least)
    if len(moved):
        moved[-1] = min(moved[-1], end)
    for n in reversed(range(len(moved) - 1)):
        moved[n] = min(moved[n], moved[n + 1] - least)
    return moved
