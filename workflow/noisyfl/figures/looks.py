"""How a method looks in a figure: the same colour, marker and dashes in every one.

The marker follows from colour and dashes, so that two looks that share one of the three differ in
the other two: lines can be told apart in grey, and points without their lines. A combination of two
methods has the colour of the part behind the ``+``, and dashes that tell the part before
it. A client side that is given alone, such as DivideMix, has the dashes of ``fedavg`` before it; it
is solid where every method of a figure is there both alone and in a combination.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from noisyfl.core.registry import split_method
from noisyfl.figures.style import DIVERGED, GREY, legend
from noisyfl.specs.descriptions import Heading

COLOURS = {
    "black": "#000000",
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
}
"""Okabe and Ito's palette, without its yellow, which is lost on white."""

MARKERS = (
    *(("o", 4.2), ("s", 4), ("^", 4.8), ("D", 3.8), ("v", 4.8), ("P", 5.4), ("*", 7)),
    *(("X", 5.2), ("p", 4.8)),
)
"""Markers, as many as dashes, and their sizes in points, by which all look equally large."""

DASHES: dict[str, Any] = {
    "solid": "-",
    "dashed": (0, (4, 2)),
    "dotted": (0, (1, 1)),
    "dash-dot": (0, (5, 1, 1, 1)),
    "long": (5, (9, 2)),
    "dash-dot-dot": (0, (5, 1, 1, 1, 1, 1)),
    "long-short": (0, (9, 1.5, 3, 1.5)),
    "pairs": (0, (3, 1, 3, 4)),
    "dot-pairs": (0, (1, 1, 1, 3)),
}

METHODS = {
    "fedavg": ("black", "solid"),
    "fedcorr": ("blue", "solid"),
    "fedcni": ("vermilion", "solid"),
    "rofl": ("green", "solid"),
    "fedrn": ("purple", "solid"),
    "fednoil": ("orange", "solid"),
    "coteaching": ("sky", "dashed"),
    "jointopt": ("orange", "dashed"),
    "selfie": ("blue", "dashed"),
    "dividemix": ("vermilion", "dashed"),
    "josrc": ("purple", "dashed"),
    "deep_self_learning": ("green", "dashed"),
    "fedprox": ("sky", "solid"),
    "oracle": ("black", "dotted"),
    "scaffold": ("black", "dash-dot"),
    "fedproto": ("black", "long"),
    "distributed": ("black", "dash-dot-dot"),
    "centralized": ("black", "long-short"),
    "feddyn": ("sky", "dotted"),
    "median": ("orange", "dotted"),
    "poc": ("green", "dotted"),
    "arfl": ("green", "dash-dot"),
    "krum": ("blue", "dotted"),
    "cfl": ("blue", "dash-dot"),
    "apfl": ("blue", "long"),
    "mae": ("purple", "dotted"),
    "gce": ("purple", "dash-dot"),
    "sce": ("purple", "long"),
    "bootstrapping": ("purple", "dash-dot-dot"),
    "label_smoothing": ("purple", "long-short"),
    "mixup": ("green", "long"),
    "elr": ("green", "dash-dot-dot"),
    "coteaching_plus": ("sky", "long"),
    "fedlsr": ("vermilion", "dash-dot"),
    "fednoro": ("vermilion", "long"),
    "feddiv": ("vermilion", "dash-dot-dot"),
    "fedfixer": ("vermilion", "long-short"),
    "fedelc": ("orange", "dash-dot"),
    "masked_optim": ("orange", "long"),
    "trimmed_mean": ("orange", "dash-dot-dot"),
    "rfa": ("orange", "long-short"),
    "fedsir": ("sky", "dash-dot"),
    "fedrg": ("sky", "dash-dot-dot"),
    "fedelr": ("sky", "long-short"),
    "fedned": ("green", "long-short"),
    "fedgr": ("blue", "long-short"),
    "fedexp": ("black", "dashed"),
    "feddecorr": ("blue", "dash-dot-dot"),
    "moon": ("vermilion", "dotted"),
    "dynamic_bootstrapping": ("purple", "pairs"),
    "fedopt": ("sky", "pairs"),
    "active_passive": ("purple", "dot-pairs"),
}
"""The colour and the dashes of each method."""

BEFORE = {
    "fedavg": "dashed",
    "apfl": "dotted",
    "krum": "dash-dot",
    "cfl": "long",
    "fedcorr": "long",
    "distributed": "dash-dot-dot",
    "centralized": "long-short",
}
"""The dashes of a combination of two methods, by the method before the ``+``."""

MARKS = 7
"""About how many markers a line of many points has."""


@dataclass(frozen=True)
class Look:
    """How a line looks: names in :data:`COLOURS` and :data:`DASHES`."""

    colour: str
    dashes: str

    @property
    def rgb(self) -> str:
        """The colour as matplotlib takes it."""
        return COLOURS[self.colour]

    def line(self, points: int = 0, turn: float = 0.0) -> dict[str, Any]:
        """Matplotlib's options for a line.

        Args:
            points: how many the line has; if there are many, only some of them get a marker.
            turn: 0 to 1, by what part of the distance between two markers, and of the period of its
                dashes, the line is shifted, so that several lines do not hide each other.
        """
        every, dashes = max(1, points // MARKS), DASHES[self.dashes]
        if dashes != "-":
            offset, lengths = dashes
            dashes = (offset + turn * sum(lengths), lengths)
        return {
            "color": self.rgb,
            "linestyle": dashes,
            **self.point(),
            "markevery": (int(turn * every), every),
        }

    def point(self) -> dict[str, Any]:
        """Matplotlib's options for the marker of a line."""
        number = list(COLOURS).index(self.colour) + list(DASHES).index(self.dashes)
        marker, size = MARKERS[number % len(MARKERS)]
        return {"marker": marker, "markersize": size, "markeredgewidth": 0}


def legend_of_lines(
    figure: Figure,
    lines: Sequence[tuple[str, Look]],
    diverged: str | None = None,
    title: str = "",
    more: Sequence[Artist] = (),
) -> None:
    """The legend of a figure's lines.

    Args:
        diverged: what the mark of divergence means; None if nothing is marked.
        title: what is written above the legend.
        more: handles of what else is drawn; none if there are no lines.
    """
    handles: list[Artist] = [Line2D([], [], label=name, **look.line()) for name, look in lines]
    handles += more if handles else ()
    if diverged:
        handles.append(Line2D([], [], label=diverged, color=GREY, **DIVERGED))
    legend(figure, handles, handlelength=3.4, title=title)


def row_names(rows: Sequence[Heading]) -> tuple[str, list[str]]:
    """The group that all rows share, empty if there is none, and the rows' names beside it."""
    groups = {row.group for row in rows}
    if len(groups) == 1 and groups != {""}:
        return groups.pop(), [row.label for row in rows]
    return "", [row.name for row in rows]


def setting_name(column: Heading) -> str:
    """What names a column's setting: its group, if it has one and its own metric, else its name."""
    return column.group if column.metric and column.group else column.name


def looks(rows: Sequence[Any]) -> list[Look]:
    """A look for each row's method, no two the same as long as there are enough looks.

    If several rows share a method that has a look, the one with the fewest options gets it. The
    other rows, which are its variants, and methods that a user has added get free looks, never a
    solid line. If all rows have the same method and differ in exactly two options, a word and a
    number, the colour tells the number and the dashes tell the word.
    """
    methods = [split_method(method, "method") for method in rows]
    names = ["+".join(part["name"] for part in parts) for parts in methods]
    if len(set(names)) == 1:
        found = _by_options(
            [{k: v for part in parts for k, v in part.items()} for parts in methods]
        )
        if found:
            return found
    if found := _pairs(names):
        return found
    plainest: dict[str, int] = {}
    for r in sorted(range(len(methods)), key=lambda r: sum(map(len, methods[r]))):
        plainest.setdefault(names[r], r)
    own = [_own(name) if plainest[name] == r else None for r, name in enumerate(names)]
    own = [look if look not in own[:r] else None for r, look in enumerate(own)]
    free = _available({look for look in own if look is not None})
    return [look or next(free) for look in own]


def _pairs(names: Sequence[str]) -> list[Look]:
    """Looks of methods alone and of the same methods behind others; empty if the rows differ."""
    alone = [name for name in names if "+" not in name]
    behind = {name.partition("+")[2] for name in names if "+" in name}
    own = [_own(name) for name in names]
    found = [
        Look(look.colour, "solid") if name in alone else look
        for name, look in zip(names, own, strict=True)
        if look
    ]
    paired = set(alone) == behind and len(set(found)) == len(names)
    return found if paired else []


def _own(name: str) -> Look | None:
    """The look that a method, or a combination of two, has everywhere."""
    first, _, second = name.partition("+")
    if not second:
        return Look(*METHODS[first]) if first in METHODS else None
    if first in BEFORE and second in METHODS:
        return Look(METHODS[second][0], BEFORE[first])
    return None


def _by_options(methods: Sequence[Mapping[str, Any]]) -> list[Look]:
    """Looks by a word and a number; empty if the rows do not differ in exactly two such options."""
    keys = dict.fromkeys(key for options in methods for key in options)
    varying: dict[str, list[Any]] = {key: [row.get(key) for row in methods] for key in keys}
    varying = {key: values for key, values in varying.items() if len(set(map(str, values))) > 1}
    words = [v for v in varying.values() if all(isinstance(value, str) for value in v)]
    numbers = [v for v in varying.values() if all(isinstance(value, int | float) for value in v)]
    if not len(words) == len(numbers) == 1 or len(varying) > 2:
        return []
    dashes, colours = list(dict.fromkeys(words[0])), sorted(set(numbers[0]))
    if len(dashes) > len(DASHES) or len(colours) > len(COLOURS):
        return []
    found = [
        Look(list(COLOURS)[colours.index(number)], list(DASHES)[dashes.index(word)])
        for word, number in zip(words[0], numbers[0], strict=True)
    ]
    return found if len(set(found)) == len(found) else []


def _available(used: set[Look]) -> Iterator[Look]:
    """Looks that are not taken, unused colours first; from the start again once all are used up."""
    _, *dashes = DASHES
    used_colours = {look.colour for look in used}
    colours = sorted(COLOURS, key=lambda colour: colour in used_colours)
    every = [Look(colour, dash) for dash in dashes for colour in colours]
    return itertools.cycle([look for look in every if look not in used])
