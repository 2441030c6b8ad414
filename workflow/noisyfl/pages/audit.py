"""An audit as HTML: the most suspicious images of all clients, and a page per client."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from noisyfl.core.artifacts import write_text
from noisyfl.pages.html import render

ALL, OF_CLIENT = 200, 60
"""Most images that the first page shows, and the page of a client."""

PAIRS = 10
"""Most pairs of classes that the first page shows."""

SIDE = 96
"""The longer side of a thumbnail in pixels, at most."""

OUTSIDE = (
    "Confidence: mean over models of rounds in which the client did not take part, at the class "
    "frequencies of the client's given labels. These models "
    "start from earlier ones, which the client helped to train, so that traces of its labels may "
    "remain."
)
INSIDE = (
    "Confidence: in at least one run from the final model, which was trained on the labels that it "
    "is asked about, because the client took part in every round that was looked at (or has a "
    "model of its own). A model that has memorised wrong labels is confident in them: treat these "
    "numbers with caution."
)
BOTH = (
    "Clients marked “in sample” took part in every round that was looked at, in at least one run."
)

CLIENT_HEAD = (
    *("client", "samples", "suspected", "noise level", "left out", "relabelled"),
    *("method's estimate", "flagged", "confidence"),
)

Picture = Callable[[int], np.ndarray | None]
"""The pixels of a row of the training part, uint8 [height, width, channels]; None of a vector."""


def write_pages(
    folder: Path,
    samples: pd.DataFrame,
    clients: pd.DataFrame,
    confused: pd.DataFrame,
    names: Sequence[str],
    picture: Picture,
    about: Sequence[str],
) -> list[Path]:
    """Write ``index.html`` and ``client_<number>.html``.

    Args:
        samples: see :mod:`noisyfl.analysis.audit`.
        clients: see :func:`noisyfl.analysis.audit.clients_of`.
        confused: see :func:`noisyfl.analysis.audit.confused_classes`.
        names: of the training images, by row.
        about: lines on what was audited.
    """
    inside = clients["in_sample"]
    kind = INSIDE if inside.all() else f"{OUTSIDE} {BOTH}" if inside.any() else OUTSIDE
    pages = {
        "index.html": {
            "title": "Which labels are wrong?",
            "back": False,
            "facts": [*about, kind],
            "client_head": CLIENT_HEAD,
            "clients": [
                (row["client"], _called(row), _client_cells(row)) for _, row in clients.iterrows()
            ],
            "classes": [_class_cells(row) for _, row in confused.head(PAIRS).iterrows()],
            **_shown(samples, ALL, names, picture),
        }
    }
    for _, row in clients.iterrows():
        own = samples[samples["client"] == row["client"]]
        cells = zip(CLIENT_HEAD[1:], _client_cells(row), strict=True)
        pages[f"client_{row['client']}.html"] = {
            "title": _called(row),
            "back": True,
            "facts": [
                ", ".join(f"{name}: {cell}" for name, cell in cells if cell),
                INSIDE if row["in_sample"] else OUTSIDE,
            ],
            "client_head": (),
            "clients": [],
            "classes": [],
            **_shown(own, OF_CLIENT, names, picture),
        }
    for page in folder.glob("client_*.html"):
        of_client = re.fullmatch(r"client_\d+\.html", page.name)
        if of_client and page.name not in pages:  # of an audit of more clients
            page.unlink()
    for name, values in pages.items():
        write_text(folder / name, render("audit.html", **values))
    return [folder / name for name in pages]


def _called(row: pd.Series) -> str:
    """What a page calls a client."""
    return str(row.get("client_name", f"Client {row['client']}"))


def _class_cells(row: pd.Series) -> list[str]:
    return [
        *(row["given_label"], row["suggested_label"]),
        *(str(row["samples"]), str(row["suspected"]), f"{row['share']:.1%}"),
    ]


def _client_cells(row: pd.Series) -> list[str]:
    flagged = row["flagged"]
    words = (
        "" if math.isnan(flagged) else {0: "no", 1: "yes"}.get(flagged, f"{flagged:.0%} of runs")
    )
    shares = (row[name] for name in ("noise_level", "left_out", "relabelled", "method_noise_level"))
    return [
        *(str(row["samples"]), str(row["suspected"])),
        *("" if math.isnan(share) else f"{share:.1%}" for share in shares),
        words,
        "in sample" if row["in_sample"] else "out of sample",
    ]


def _shown(
    samples: pd.DataFrame, most: int, names: Sequence[str], picture: Picture
) -> dict[str, Any]:
    worth = samples[samples["suggested_label"] != samples["given_label"]]
    first = worth.head(most)
    return {
        "samples": list(_cards(first, names, picture)),
        "shown": len(first),
        "total": len(worth),
    }


def _cards(
    samples: pd.DataFrame, names: Sequence[str], picture: Picture
) -> Iterator[dict[str, Any]]:
    for _, row in samples.iterrows():
        pixels = picture(row["sample"])
        yield {
            "image": None if pixels is None else _thumbnail(pixels),
            "given": row["given_label"],
            "suggested": row["suggested_label"],
            "confidence": f"{row['given_probability']:.0%} → {row['suggested_probability']:.0%}",
            "decisions": list(_decisions(row)),
            "name": f"{_called(row)}, {names[row['sample']]}",
        }


def _decisions(row: pd.Series) -> Iterator[str]:
    """What the methods decided, in words."""
    several = row["runs"] > 1
    if several:
        yield f"suspected by {row['suspected_by']} of {row['runs']} runs"
    if row["judged_by"]:
        of = f" by {row['left_out_by']} of {row['judged_by']}" if several else ""
        yield f"left out{of}" if row["left_out_by"] else "selected as clean"
    if row["relabelled_by"]:
        of = f" by {row['relabelled_by']}" if several else ""
        yield f"relabelled as {row['learnt_label']}{of} (round {row['relabelled_in']})"


def _thumbnail(pixels: np.ndarray) -> str:
    """An image as a data URI."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
