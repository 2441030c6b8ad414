"""Noisy partitions as pictures: classes and flipped labels on each client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from noisyfl.analysis.clients import count_classes
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.style import (
    CLASSES,
    DARK_NOISY,
    LIGHT_CLEAN,
    PAGE,
    class_colours,
    lay_out,
    legend,
    new_figure,
)
from noisyfl.specs.descriptions import FigureDescription

STRIP = 25
"""How many clients a strip of bubbles has; further clients get further strips."""


def class_counts(description: FigureDescription, partitions: Sequence[NoisyPartition]) -> Figure:
    """Draw each client's samples, stacked by class, the largest client first (FedCorr, Figure 2).

    Args:
        description: ``panels``, each with its ``name``.
    """
    figure, panels = lay_out(len(partitions), min(len(partitions), 3), 0.7, 2.4, share=True)
    classes = dataset(partitions[0].spec["dataset"]).true_names
    colours = class_colours(len(classes))
    names = [panel.name for panel in description.panels]
    for panel, name, partition in zip(panels, names, partitions, strict=True):
        panel.set_title(name)
        table = count_classes(partition)
        table = table[np.argsort(-table.sum(1), kind="stable")]
        tops = table.cumsum(1)
        for k in range(len(classes)):
            bottom = tops[:, k] - table[:, k]
            panel.bar(range(len(table)), table[:, k], 1.0, bottom, color=colours[k], linewidth=0)
        panel.grid(visible=False, axis="x")
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panels[0].set_ylim(
        0, 1.05 * max(count_classes(partition).sum(1).max() for partition in partitions)
    )
    panels[0].set_xlim(-0.5, max(len(partition.clients) for partition in partitions) - 0.5)
    figure.supxlabel("clients, by size", fontsize=8)
    figure.supylabel("samples", fontsize=8)
    if len(classes) <= len(CLASSES):
        legend(figure, [Patch(color=c, label=n) for c, n in zip(colours, classes, strict=True)])
    else:
        scale = ScalarMappable(Normalize(-0.5, len(classes) - 0.5), ListedColormap(colours))
        figure.colorbar(scale, ax=panels, label="class", fraction=0.05, pad=0.02)
    return figure


def bubbles(description: FigureDescription, partitions: Sequence[NoisyPartition]) -> Figure:
    """Draw a bubble per client and class, with a dark one for flipped labels (FedCNI, Figure 5).

    The area of a bubble is proportional to its number of samples.

    Args:
        description: ``panels``, each with its ``name``.
    """
    strips = [
        (panel.name, partition, first)
        for panel, partition in zip(description.panels, partitions, strict=True)
        for first in range(0, len(partition.clients), STRIP)
    ]
    shown = min(STRIP, max(len(partition.clients) for partition in partitions))
    classes = dataset(partitions[0].spec["dataset"]).true_names
    # Inches between two clients and between two classes; bubbles fill the smaller of both.
    across, along = (PAGE - 1.2) / shown, max(0.09, min(0.3, 2.6 / len(classes)))
    figure = new_figure(0.9 + len(strips) * (along * len(classes) + 0.5))
    largest = max(int(count_classes(partition).max()) for partition in partitions)
    diameter = 0.95 * 72 * min(across, along)  # in points
    area = diameter**2 / largest  # of one sample, in square points, as matplotlib takes it
    axes = figure.subplots(len(strips), 1, squeeze=False, sharey=True).flat
    for panel, (name, partition, first) in zip(axes, strips, strict=True):
        if first == 0:
            panel.set_title(name)
        _draw_strip(panel, partition, first, area)
        panel.set_xlim(first - 0.6, first + shown - 0.4)
        panel.set_ylim(len(classes) - 0.4, -0.6)
        if len(classes) <= 20:
            panel.set_yticks(range(len(classes)), classes)
        panel.grid(visible=False)
    figure.supxlabel("client", fontsize=8)
    figure.supylabel("true class", fontsize=8)
    _bubble_legend(figure, largest, area)
    return figure


def _draw_strip(panel: Axes, partition: NoisyPartition, first: int, area: float) -> None:
    """Draw the bubbles of up to STRIP clients, from ``first`` on."""
    last = min(first + STRIP, len(partition.clients))
    for table, colour in (
        (count_classes(partition), LIGHT_CLEAN),
        (count_classes(partition, flipped=True), DARK_NOISY),
    ):
        part = table[first:last]
        client, label = np.nonzero(part)
        sizes = area * part[client, label]
        panel.scatter(client + first, label, sizes, color=colour, linewidths=0)
    panel.xaxis.set_major_locator(MaxNLocator(13, integer=True))


def _bubble_legend(figure: Figure, largest: int, area: float) -> None:
    """Add a legend of the bubbles' sizes and colours."""
    sizes = [_round_number(largest * share) for share in (1.0, 0.4, 0.1)]
    handles = [
        _dot(f"{size} samples", LIGHT_CLEAN, (area * size) ** 0.5) for size in dict.fromkeys(sizes)
    ]
    handles.append(_dot("of these, labels flipped", DARK_NOISY, 6))
    legend(figure, handles)


def _dot(label: str, colour: str, diameter: float) -> Line2D:
    return Line2D(
        [],
        [],
        label=label,
        color=colour,
        marker="o",
        linestyle="none",
        markersize=diameter,
        markeredgewidth=0,
    )


def _round_number(size: float) -> int:
    """Round down to one significant digit, to at least 1."""
    power = 10 ** int(np.log10(max(size, 1)))
    return max(1, int(size // power * power))
