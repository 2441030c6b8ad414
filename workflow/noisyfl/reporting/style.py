"""The figures' house style: legible at the width of a page, and for the colour-blind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisyfl.artifacts import replacing

PAGE = 7.2
"""Width of a page's text, in inches."""

LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, without its yellow, which is lost on white."""

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
"""One more pattern for each turn of the palette."""

CLASSES = (
    *("#332288", "#88ccee", "#44aa99", "#117733", "#999933"),
    *("#ddcc77", "#cc6677", "#882255", "#aa4499", "#bbbbbb"),
)
"""Tol's muted palette, for up to ten classes."""

CLEAN, NOISY = "#0072b2", "#d55e00"
LIGHT_CLEAN, DARK_NOISY = "#a6cee9", "#a63603"

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
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
    "pdf.fonttype": 42,  # whole fonts, so that text stays text
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's defaults with the house style on them, whatever the user configured."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def new_figure(height: float) -> Figure:
    """A figure of a page's width, with room made for every label.

    Args:
        height: in inches.
    """
    return Figure(figsize=(PAGE, height), layout="constrained")


def grid(figure: Figure, panels: int, columns: int) -> list[Axes]:
    """Axes for panels in reading order, with common scales and labels on the outside only."""
    rows = -(-panels // columns)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for surplus in axes.flat[panels:]:
        surplus.remove()
    for column in range(columns):
        above = (panels - 1 - column) // columns  # the lowest panel of this column
        axes[above, column].xaxis.set_tick_params(labelbottom=True)
    return list(axes.flat[:panels])


def legend(figure: Figure, handles: Sequence[Artist], **options: Any) -> None:
    """A legend above the panels: one line if it fits the page, else columns that do.

    Args:
        figure: what it belongs to.
        handles: labelled artists.
        options: of matplotlib's legend.
    """
    widths = [0.55 + 0.062 * len(str(handle.get_label())) for handle in handles]  # in inches
    fitting = len(handles) if sum(widths) <= PAGE else max(1, int(PAGE / max(widths)))
    rows = -(-len(handles) // fitting)
    columns = -(-len(handles) // rows)  # no more than fill the rows evenly
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, **options)


def line_style(number: int) -> dict[str, Any]:
    """Colour and pattern of a figure's line, by its place in the legend."""
    turn, colour = divmod(number, len(LINES))
    return {"color": LINES[colour], "linestyle": DASHES[turn % len(DASHES)]}


def save(figure: Figure, png: Path, pdf: Path) -> None:
    """Write the figure twice; equal figures give equal bytes."""
    unstamped = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
    for path, kind in ((png, "png"), (pdf, "pdf")):
        with replacing(path) as draft:
            figure.savefig(draft, format=kind, metadata=unstamped[kind])
