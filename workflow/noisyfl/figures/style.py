"""The figures' house style: legible at a page's width, and to colour-blind readers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from noisyfl.analysis.statistics import correlation
from noisyfl.core.artifacts import replacing

PAGE = 7.2
"""Width of a page's text, in inches."""

LETTER = 0.064
"""Width of a letter of a panel's title on average, in inches."""

TITLE_LETTER = 0.082
"""Width of a letter of a figure's title on average, in inches."""

LINE = 0.17
"""Height of a legend's line, in inches."""

STAMP = 0.13
"""Height of the line below a figure, in inches."""

GREY = "#555555"
"""The colour of what belongs to no method."""

DIVERGED: dict[str, Any] = {
    "marker": "x",
    "markersize": 6,
    "markeredgewidth": 1.6,
    "linestyle": "none",
}
"""The marker of a run whose global model ceased to be finite."""

CLASSES = (
    *("#332288", "#88ccee", "#44aa99", "#117733", "#999933"),
    *("#ddcc77", "#cc6677", "#882255", "#aa4499", "#bbbbbb"),
)
"""Tol's muted palette, for up to ten classes."""

SYMBOL = re.compile(r"\b([^\W\d_])_(\w+)\b")
"""A letter and its index, as plain text has them."""

CLEAN, NOISY = "#0072b2", "#d55e00"
LIGHT_CLEAN, DARK_NOISY = "#a6cee9", "#a63603"

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,  # names may have dollar signs
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
    "legend.title_fontsize": 9.5,
    "legend.frameon": False,
    "figure.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # embedded TrueType fonts, so that text stays text
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw with Matplotlib's defaults and the house style, ignoring the user's settings."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


class _RoundedLayout(ConstrainedLayoutEngine):
    """Constrained layout without its solver's last digits, which differ from call to call."""

    def execute(self, fig: Any) -> None:
        """Lay the figure out, with positions in millionths of its size."""
        super().execute(fig)
        for axes in fig.axes:
            axes.set_position(np.round(axes.get_position(original=True).bounds, 6).tolist())
            axes.set_in_layout(True)  # which a position that is set ends


def new_figure(height: float) -> Figure:
    """A figure of a page's width, whose layout makes room for every label.

    Args:
        height: in inches.
    """
    return Figure(figsize=(PAGE, height), layout=_RoundedLayout())


def lay_out(
    panels: int, columns: int, besides: float, height: float, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of a page's width, and the axes of its panels in reading order.

    Args:
        columns: how many panels stand side by side.
        besides: inches of height for all but the panels.
        height: inches of height for each line of panels.
        share: all panels have the same scales, and tick labels on the outside only.
    """
    rows = -(-panels // columns)
    figure = new_figure(besides + height * rows)
    axes = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)
    for surplus in axes.flat[panels:]:
        surplus.remove()
    shown = list(axes.flat[:panels])
    for lowest in shown[-columns:] if share else ():
        lowest.xaxis.set_tick_params(labelbottom=True)
    return figure, shown


def class_colours(classes: int) -> list[str]:
    """One colour per class: well apart if there are few classes, from a scale if there are many."""
    if classes <= len(CLASSES):
        return list(CLASSES[:classes])
    scale = matplotlib.colormaps["viridis"](np.linspace(0, 1, classes))
    return [to_hex(colour) for colour in scale]


def say_empty(panel: Axes) -> None:
    """Write into an empty panel that its values were not recorded."""
    place = {"transform": panel.transAxes, "ha": "center", "va": "center"}
    panel.text(0.5, 0.5, "not recorded", color=GREY, **place)  # type: ignore[arg-type]


def trials_in_words(counts: Iterable[int]) -> str:
    """How many trials there are, in words: one number or several."""
    listed = sorted(counts)
    return f"{' or '.join(map(str, listed))} trial{'s' if listed[-1] > 1 else ''}"


def only_words(words: str) -> Figure:
    """A figure in which there is nothing to draw, and which says why."""
    figure = new_figure(1.0)
    figure.text(0.5, 0.5, words, color=GREY, ha="center", va="center")
    return figure


def correlation_words(x: np.ndarray, y: np.ndarray) -> str:
    """Pearson's r in words; empty where it is undefined."""
    r = correlation(x, y, "pearson")
    return "" if np.isnan(r) else f"Pearson's r = {r:.2f}"


def legend(
    figure: Figure, handles: Sequence[Artist], handlelength: float = 2.0, title: str = ""
) -> None:
    """Add a legend above the panels: one line if that fits the page, else as many columns as fit.

    Args:
        figure: the figure, whose height grows by the legend's lines except the first.
        handlelength: the length of a line in it, in units of the legend's font size.
        title: what is written above the legend, if not empty; without handles, above the figure.
    """
    title = _fold(title, int(PAGE / TITLE_LETTER))
    if not handles:
        figure.suptitle(title)
        return
    besides = 0.33 + handlelength * matplotlib.rcParams["legend.fontsize"] / 72  # in inches
    widths = [besides + 0.062 * len(str(handle.get_label())) for handle in handles]
    fitting = len(handles) if sum(widths) <= PAGE else max(1, int(PAGE / max(widths)))
    rows = -(-len(handles) // fitting)
    columns = -(-len(handles) // rows)  # only as many as fill the rows evenly
    figure.set_figheight(
        figure.get_figheight() + LINE * (rows - 1 + (1.5 + title.count("\n")) * bool(title))
    )
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=columns,
        handlelength=handlelength,
        title=title or None,
    )


def fold_titles(figure: Figure) -> None:
    """Break the panels' titles into lines that fit between those of the panels beside them."""
    for axes in figure.axes:
        place, title = axes.get_subplotspec(), axes.get_title()
        if place is not None and title:
            letters = int(PAGE / place.get_gridspec().ncols * len(place.colspan) / LETTER)
            axes.set_title("\n".join(_fold(line, letters) for line in title.split("\n")))


def _fold(line: str, letters: int) -> str:
    """Lines of about equal length, as many as it takes for none to be longer than ``letters``."""
    lines = textwrap.wrap(line, letters)
    while letters > 1 and len(shorter := textwrap.wrap(line, letters - 1)) == len(lines):
        lines, letters = shorter, letters - 1
    return "\n".join(lines)


def set_indices(figure: Figure) -> None:
    """Set symbols such as ``λ_e`` and ``T_s1`` as letters with an index."""
    for text in figure.findobj(Text):
        words = text.get_text()
        if SYMBOL.search(words):
            text.set_parse_math(True)
            text.set_text(SYMBOL.sub(r"$\\mathregular{\1_{\2}}$", words.replace("$", r"\$")))


def stamp(figure: Figure, text: str) -> None:
    """Write below a figure where it comes from, in a line of its own."""
    height = figure.get_figheight() + STAMP
    figure.set_figheight(height)
    engine = figure.get_layout_engine()
    if label := figure.get_supxlabel():
        figure.supxlabel(f"{label}\n", fontsize=8)  # the line break leaves a line free below
    elif isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, STAMP / height, 1, 1 - STAMP / height))
    place: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 5.5, "color": GREY}
    figure.text(0.997, 0.03 / height, text, **place)


def save(figure: Figure, *files: Path) -> None:
    """Write the figure to files, as PNG or PDF by their suffix; equal figures give equal bytes."""
    unstamped = {".png": {"Software": None}, ".pdf": {"CreationDate": None}}
    for file in files:
        with replacing(file) as draft:
            figure.savefig(draft, format=file.suffix[1:], metadata=unstamped[file.suffix])
