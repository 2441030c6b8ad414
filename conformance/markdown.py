"""What the sections of docs/conformance.md share."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from conformance import FOLDER
from conformance.runs import RECORDED
from conformance.runs.statistics import Comparison

NAMES = {
    "label_precision": "precision of the samples selected as clean",
    "label_recall": "recall of the samples selected as clean",
    "refurbished": "share of samples with a new label",
    "refurbished_accuracy": "share of the new labels that are true",
    "label_accuracy": "share of labels that are true at the end",
    "flagged": "clients flagged as noisy",
    "estimated_noise_level": "estimated noise level, mean over clients",
    "clusters": "clusters at the end",
    "largest_cluster": "clients in the largest cluster",
    "mixing_share": "share of the private model in the mixture, mean over clients",
    "unvisited": "share of neighbours that had not taken part yet",
    "unvisited_first": "the same, of clients on their first visit",
}
"""How the page names each recorded decision."""


def run_record(name: str) -> dict[str, Any] | None:
    """The recorded whole runs of a method, or None if no seed has been run on both sides."""
    path = FOLDER / "runs" / RECORDED / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else None
    return record if record and record["ours"].keys() & record["official"].keys() else None


def percent(mean: float, spread: float) -> str:
    """A mean share in per cent, with its spread."""
    return f"{100 * mean:.2f}{beside(spread)}"


def beside(width: float) -> str:
    """A width in points, as it stands after a number; nothing if it is not finite."""
    return f" ± {100 * width:.2f}" if math.isfinite(width) else ""


def text(paragraph: str) -> str:
    """A paragraph wrapped at 100 characters, with an empty line after it."""
    return textwrap.fill(paragraph, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def table_row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def signed(told: Comparison) -> str:
    """A difference in points, with its interval."""
    return f"{100 * told.difference:+.2f}{beside(told.half_width)}"
