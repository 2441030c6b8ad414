"""FedCorr's LID scores: how well they tell clean clients from noisy ones (its Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.analysis.noisy_clients import lid_scores_of, split
from noisyfl.analysis.runs import Run
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.figures.style import CLEAN, NOISY, correlation_words, legend, new_figure
from noisyfl.methods.estimators.mixture import TwoComponents
from noisyfl.specs.descriptions import FigureDescription

TITLES = {"lid": "LID score", "cumulative_lid": "cumulative LID score"}


def lid_scores(
    description: FigureDescription,
    runs: Mapping[str, Run],
    partitions: Sequence[NoisyPartition],
) -> Figure:
    """Draw score densities with the fitted mixture above, scores against true noise levels below.

    A client is noisy if any of its given labels is wrong.
    """
    (run,), (partition,) = runs.values(), partitions
    level = partition.realised
    scores = lid_scores_of(run, len(level))
    figure = new_figure(4.9)
    axes = figure.subplots(2, 2)
    for column, (name, title) in enumerate(TITLES.items()):
        values = scores[name]
        mixture, called_noisy = split(values)
        right = called_noisy == (level > 0)
        above, below = axes[:, column]
        _draw_density(above, values, level > 0, mixture)
        above.set_title(f"{title}\nmixture calls {right.mean():.0%} of clients right")
        above.set_xlabel(title)
        _draw_levels(below, level, values, right)
        undefined = "Pearson's r is undefined: all values are equal"
        below.set_title(correlation_words(level, values) or undefined)
        below.set_ylabel(title)
        below.set_xlabel("true noise level of the client")
    axes[0, 0].set_ylabel("density")
    handles = [*axes[0, 0].get_legend_handles_labels()[0], below.collections[-1]]
    legend(figure, handles)
    return figure


def _draw_density(
    panel: Axes, values: np.ndarray, noisy: np.ndarray, mixture: TwoComponents
) -> None:
    """Draw histograms of total area 1, and the mixture's components on the same scale."""
    edges = np.histogram_bin_edges(values, round(2 * len(values) ** 0.5))
    share = np.full(len(values), 1 / (len(values) * (edges[1] - edges[0])))
    for group, colour, label in ((~noisy, CLEAN, "clean clients"), (noisy, NOISY, "noisy clients")):
        panel.hist(
            values[group], list(edges), weights=share[group], color=colour, alpha=0.55, label=label
        )
    highest = panel.get_ylim()[1]
    margin = 0.15 * (edges[-1] - edges[0])
    span = np.linspace(edges[0] - margin, edges[-1] + margin, 400)
    for k, dash in enumerate(("-", "--")):
        mean, variance = float(mixture.means[0, k]), float(mixture.variances[0, k])
        # Add points around the mean, since a component may be narrower than the span's spacing.
        line = np.sort(np.append(span, mean + variance**0.5 * np.linspace(-4, 4, 81)))
        density = np.exp(-((line - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        label = f"{('low', 'high')[k]} component"
        panel.plot(
            line, float(mixture.weights[0, k]) * density, color="black", linestyle=dash, label=label
        )
    # A component fitted to a few equal values is a spike, which would flatten everything else.
    panel.set_ylim(0, min(panel.get_ylim()[1], 1.5 * highest))


def _draw_levels(panel: Axes, level: np.ndarray, values: np.ndarray, right: np.ndarray) -> None:
    """Draw one point per client, ringed if the mixture calls the client wrongly."""
    for group, colour in ((level == 0, CLEAN), (level > 0, NOISY)):
        panel.scatter(level[group], values[group], 16, color=colour, alpha=0.8, linewidths=0)
    panel.scatter(
        *(level[~right], values[~right], 46),
        facecolors="none",
        edgecolors="black",
        linewidths=0.9,
        label="called wrongly",
    )
