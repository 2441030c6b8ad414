"""Average ranks of a table's rows over its columns, and which rows differ significantly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.analysis.frame import column_values, tidy
from noisyfl.analysis.ranks import Ranking, rank
from noisyfl.analysis.runs import Run
from noisyfl.figures.style import PAGE, new_figure
from noisyfl.specs.descriptions import FigureDescription

# Heights in lines of text, counted downwards from the axis of ranks.
NUMBERS, BRACKET = -0.55, -1.75
FIRST_BAR, BETWEEN_BARS = 0.75, 0.5
LINE = 0.185  # inches
INK, BAR = "#333333", "#d55e00"


def critical_difference(description: FigureDescription, runs: Mapping[str, Run]) -> Figure:
    """Draw the diagram of Demsar (JMLR 7, 2006, Fig. 1), the best rank on the left.

    Bars join the rows that do not differ significantly by Nemenyi's test at the level 0.05.

    Args:
        description: with a ``table`` of at least two rows and a column with runs.
    """
    names = [row.name for row in description.source_table.rows]
    values = column_values(tidy(description.source_table, runs)).to_numpy()
    ranking = rank(values)
    bars = [group for group in ranking.groups() if len(group) > 1]
    first_name = FIRST_BAR + BETWEEN_BARS * len(bars) + 0.5
    depth = first_name + (len(names) + 1) // 2
    figure = new_figure(LINE * (depth - BRACKET + 2.5))
    axes = figure.add_subplot()
    left, right = _margins(names, ranking.ranks)
    step = (PAGE - left - right - 0.1) / (len(names) - 1)  # inches from rank to rank
    axes.set_xlim(1 - left / step, len(names) + right / step)
    axes.set_ylim(depth, BRACKET - 0.9)
    axes.axis("off")
    _draw_axis(axes, len(names))
    _draw_bracket(axes, ranking, len(names))
    for height, bar in enumerate(bars):
        ends = ranking.ranks[[bar[0], bar[-1]]] + np.array([-0.06, 0.06]) / step
        level = FIRST_BAR + BETWEEN_BARS * height
        axes.plot(ends, [level, level], color=BAR, linewidth=3, solid_capstyle="butt")
    _draw_names(axes, names, ranking, first_name)
    figure.supxlabel(_in_words(ranking), fontsize=8)
    return figure


def _margins(names: Sequence[str], ranks: np.ndarray) -> tuple[float, float]:
    """Widths, in inches, left and right, for the names of the better and of the worse half."""
    better, worse = _halves(ranks)
    left, right = (
        max(0.9, *(0.35 + 0.062 * len(names[r]) for r in half)) for half in (better, worse)
    )
    return left, right


def _halves(ranks: np.ndarray) -> tuple[list[int], list[int]]:
    """Rows from the best to the middle, and from the worst to the middle."""
    order = np.argsort(ranks, kind="stable").tolist()
    middle = (len(order) + 1) // 2
    return order[:middle], order[: middle - 1 : -1]


def _draw_axis(axes: Axes, last: int) -> None:
    every = 1 if last <= 16 else 2
    axes.plot([1, last], [0, 0], color=INK, linewidth=1)
    for place in range(1, last + 1):
        axes.plot([place, place], [-0.3 if place % every == 1 % every else -0.15, 0],
                  color=INK, linewidth=1)  # fmt: skip
        if place % every == 1 % every:
            axes.text(place, NUMBERS, str(place), ha="center", va="center", fontsize=7.5)


def _draw_bracket(axes: Axes, ranking: Ranking, last: int) -> None:
    """Draw the critical difference as a length, cut off where the axis ends."""
    length = ranking.critical_difference
    end = min(1 + length, last)
    axes.plot([1, end], [BRACKET, BRACKET], color=INK, linewidth=1)
    for place in (1, end):
        axes.plot([place, place], [BRACKET - 0.2, BRACKET + 0.2], color=INK, linewidth=1)
    more = ", more than the whole axis" if 1 + length > last else ""
    axes.text((1 + end) / 2, BRACKET - 0.5, f"critical difference {length:.2f}{more}",
              ha="center", va="center", fontsize=7.5)  # fmt: skip


def _draw_names(axes: Axes, names: Sequence[str], ranking: Ranking, first: float) -> None:
    """Write each name beside the axis, on a line of its own, with its average rank."""
    last = len(names)
    low, high = axes.get_xlim()
    inch = (high - low) / PAGE
    for half, edge, side in zip(
        _halves(ranking.ranks), (1 - 0.1 * inch, last + 0.1 * inch), ("right", "left"), strict=True
    ):
        for level, r in enumerate(half):
            place, height = ranking.ranks[r], first + level
            axes.plot([place, place, edge], [0, height, height], color=INK, linewidth=0.7)
            text = f"{names[r]}  {place:.1f}" if side == "right" else f"{place:.1f}  {names[r]}"
            axes.text(edge + (-0.05 if side == "right" else 0.05) * inch, height, text,
                      ha=side, va="center", fontsize=7.5)  # fmt: skip


def _in_words(ranking: Ranking) -> str:
    rows = len(ranking.ranks)
    columns = f"{ranking.settings} column{'s' if ranking.settings > 1 else ''}"
    p = f"p = {ranking.p_value:.2g}" if ranking.p_value >= 1e-4 else "p < 0.0001"
    verdict = (
        "" if ranking.p_value < ranking.level else ": no row differs significantly from another"
    )
    return (
        f"average rank over {columns}, 1 is best; "
        f"Friedman's χ²({rows - 1}) = {ranking.statistic:.1f}, {p}{verdict}"
    )
