"""Labels of numbers, and how a claim selects numbers by them.

A number has the columns of ``config/published.csv`` as labels. If a label's value has parts,
the parts are further labels. The noise ``truncnorm(pair,mu=0.2)`` gives ``noise_kind`` (truncnorm),
``noise_1`` (pair) and ``noise_mu`` (0.2); the method ``krum+dividemix`` gives ``method_first`` and
``method_last``; the variant ``alpha=0.2;finetune=on`` gives ``variant_alpha`` and
``variant_finetune``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from noisyfl.specs.published import KEY

Label = str | float
"""A label's value; a text that reads as a number is stored as one."""

WORK = "work"
"""The label along a curve: its ordinary rounds, in percent of all, or its training batches."""

AS_PUBLISHED = "as_published"
"""The label that is 1 for a number of the paper's own setting, and 0 for one of another."""

OWN_LABELS = {
    "rounds": (WORK,),
    "batches": (WORK,),
    "clients": ("client", "noise_rank", "size_rank"),
    "pairs": ("pair",),
}
"""By the kind of numbers, the labels that tell those of one run apart."""

CLIENT_LABELS = (*OWN_LABELS["clients"], *OWN_LABELS["pairs"])
"""Labels that tell clients, or pairs of clients, apart: a correlation is over these."""

WITH_PARTS = ("partition", "noise", "row", "column")
"""Labels whose value may be a name with options in brackets."""


class Place(NamedTuple):
    """Where a number stands: in ``<experiment>/<table or figure>``, in which row and column."""

    table: str
    row: str
    column: str


def cell_labels(row: Mapping[str, str]) -> dict[str, Label]:
    """The labels of a row of the published numbers."""
    texts = {key: row[key] for key in KEY if key != "paper"}
    return labels_of({**texts, "table": f"{row['paper']}/{row['table']}"})


def printed_place(row: Mapping[str, Any], table: str) -> Place:
    """Where a published number stands, by its table, ``<paper>/<table>``, its line and setting."""
    line = " ".join(filter(None, (row["method"], row["variant"], row["setting_scope"])))
    return Place(table, line, ", ".join((row["dataset"], row["partition"], row["noise"])))


def labels_of(texts: Mapping[str, Any]) -> dict[str, Label]:
    """Labels, and those of the parts of their values; a value of None is left out."""
    labels = {key: as_label(value) for key, value in texts.items() if value is not None}
    found = dict(labels)
    for key in WITH_PARTS:
        # Options are separated by commas, except by those within nested brackets.
        match = re.fullmatch(r"(.+?)(?:\((.*)\))?", str(labels.get(key, "")))
        if match:
            found[f"{key}_kind"] = match[1]
            found |= _parts(key, re.split(r",(?![^(]*\))", match[2] or ""))
    if labels.get("variant"):
        found |= _parts("variant", str(labels["variant"]).split(";"))
    if "method" in labels:
        methods = str(labels["method"]).split("+")
        found |= {"method_first": methods[0], "method_last": methods[-1]}
    return found


def as_label(value: Any) -> Label:
    """A number if it reads as one, else text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _parts(key: str, texts: Sequence[str]) -> dict[str, Label]:
    """The label of each part: ``mu=0.2`` is labelled by its name, any other by its place."""
    found: dict[str, Label] = {}
    for place, text in enumerate(filter(None, texts), start=1):
        named = re.fullmatch(r"(\w+)=(.*)", text)
        name, value = named.groups() if named else (str(place), text)
        found[f"{key}_{name}"] = as_label(value)
    return found


# ---------------------------------------------------------------- labels of many numbers, in rows


def groups_of_rows(labels: pd.DataFrame, over: Sequence[str]) -> list[np.ndarray]:
    """The rows of each group of numbers that differ only in some labels.

    Args:
        over: these labels.
    """
    others = [name for name in labels if name not in over]
    if not others:
        return [np.arange(len(labels))] if len(labels) else []
    groups = map(np.asarray, labels.groupby(others, sort=False).indices.values())
    return sorted(groups, key=lambda rows: int(rows[0]))


def pair_rows(
    left: pd.DataFrame, right: pd.DataFrame
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Pair rows that agree in the shared labels: all labels of each pair, and both sides' rows."""
    shared = [name for name in left if name in right]
    how: dict[str, Any] = {"on": shared} if shared else {"how": "cross"}
    sides = [side.assign(**{key: range(len(side))}) for side, key in ((left, " l"), (right, " r"))]
    merged = sides[0].merge(sides[1], **how)
    one, other = (merged[key].to_numpy(dtype=int) for key in (" l", " r"))
    # The labels keep the order of the side that has more of them.
    names = sorted((list(left), list(right)), key=len, reverse=True)
    return merged[list(dict.fromkeys(itertools.chain(*names)))], one, other


# ---------------------------------------------------------------- what a label must be

Fits = Callable[[Any], bool]


def fits(label: Label, value: Any) -> bool:
    """Whether a label equals a value, is in a list, or makes a function return true."""
    if callable(value):
        return bool(value(label))
    return label in value if isinstance(value, list) else label == value


def but(*values: Label) -> Fits:
    """Select any labels but these."""
    return lambda label: label not in values


def among(*values: Label) -> Fits:
    """Select those of these labels that are there; of a plain list, all must be there."""
    return lambda label: label in values


def since(first: float) -> Fits:
    """Select labels from a number on, itself included."""
    return lambda label: label >= first


def until(last: float) -> Fits:
    """Select labels up to a number, itself included."""
    return lambda label: label <= last
