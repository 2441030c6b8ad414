"""The two sides of a claim's numbers: what the papers print, and ours in its place.

Their labels are described in :mod:`noisyfl.claims.labels`; the label ``converged`` is 1 or 0 where
it is known, and ``as_published`` is 1 for what is printed, and for what is made in the paper's own
setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from noisyfl.analysis.metrics import ACCURACY
from noisyfl.analysis.statistics import Headroom, draws_of_deviation
from noisyfl.claims.labels import AS_PUBLISHED, Place, cell_labels, printed_place
from noisyfl.claims.numbers import Entry, Numbers
from noisyfl.claims.our_cells import (
    draws_of_cell,
    headroom_of,
    on_common_seeds,
    read_rows,
    spreads_of,
)
from noisyfl.claims.query import Query
from noisyfl.core.randomness import stream
from noisyfl.specs.published import KEY, Published

Source = Callable[[Query], Iterable[Entry]]
"""Gives the numbers of a query, each with at least the labels that it asks for."""


@dataclass(frozen=True)
class ClaimSide:
    """One side of the numbers that claims are checked against: the papers', or ours.

    Attributes:
        sources: by the kind of :class:`Query`; this side has no numbers of other kinds.
        headrooms: of the cells of which it is known.
    """

    sources: Mapping[str, Source]
    headrooms: Mapping[Place, Headroom] = field(default_factory=dict)

    def numbers(self, query: Query, where: str) -> Numbers:
        """The numbers of a query.

        Raises:
            BadInput: two numbers have the same labels.
        """
        if query.kind not in self.sources:
            return Numbers.unknown(query.by)
        found = list(self.sources[query.kind](query))
        lists = {key: value for key, value in query.where.items() if isinstance(value, list)}
        return Numbers.of(found, query.by, where).at(**lists)

    def has_headroom(self, cells: Iterable[Place]) -> bool:
        """Whether the headroom of one of these cells suffices, or that of none is known."""
        known = [self.headrooms[cell] for cell in cells if cell in self.headrooms]
        return not known or any(headroom.suffices for headroom in known)


def published(
    rows: Iterable[Published], known: Collection[tuple[str, ...]] | None = None
) -> ClaimSide:
    """The papers' own numbers: as tables print them, shares in percent, and as texts give them.

    Args:
        known: by their labels in the order of :data:`noisyfl.specs.published.KEY`, the printed
            numbers to take as known; None for all.
    """
    found: list[Entry] = []
    for row in rows:
        value = std = converged = math.nan
        if known is None or tuple(row.fields[name] for name in KEY) in known:
            number = row.number
            value, std = number.value, math.nan if number.std is None else number.std
            converged = {"true": 1.0, "false": 0.0}.get(row.fields["converged"].lower(), math.nan)
        found += _entries_of(row.fields, np.array([value]), np.array([std]), converged)
    return ClaimSide({"cells": _by_labels(found), "quotes": _from_text})


def our_side(cells: Path, artifacts: Mapping[str, Source]) -> ClaimSide:
    """Our numbers: those in the place of printed ones, over the seeds that all cells of a column
    have, and those that only runs have.

    Args:
        cells: the file of published numbers with ours, see :mod:`noisyfl.analysis.published_cells`.
        artifacts: the sources of numbers that only runs have.
    """
    rows = read_rows(cells)
    spreads = spreads_of(rows)
    found: list[Entry] = []
    for row in on_common_seeds(rows):
        rng = stream(0, "standard deviation", row["runs"], row["metric"])
        stds = draws_of_deviation(float(row["ours_std"] or "nan"), int(row["ours_trials"]), rng)
        starred = row["ours_starred"] if row["ours"] else ""
        converged = {"True": 0.0, "False": 1.0}.get(starred, math.nan)
        found += _entries_of(row, draws_of_cell(row, spreads), stds, converged)
    headrooms = {
        Place(row["shown_in"], row["row"], row["column"]): headroom
        for row in rows
        if row["metric"] == ACCURACY and (headroom := headroom_of(row, spreads))
    }
    return ClaimSide({"cells": _by_labels(found), **artifacts}, headrooms)


def _entries_of(
    row: Mapping[str, str], value: np.ndarray, std: np.ndarray, converged: float
) -> Iterator[Entry]:
    """The numbers of a cell, one per measure."""
    as_published = float(row.get("ours_as_published", "True") == "True")
    labels = {**cell_labels(row), "converged": converged, AS_PUBLISHED: as_published}
    cell = printed_place(row, str(labels["table"]))
    if row.get("shown_in"):
        cell = Place(row["shown_in"], row["row"], row["column"])
    measures = {"value": value, "std": std, "converged": np.array([converged])}
    for measure, values in measures.items():
        yield Entry({**labels, "measure": measure}, values, cell)


def _by_labels(numbers: Sequence[Entry]) -> Source:
    return lambda query: [number for number in numbers if query.fits(number.labels)]


def _from_text(query: Query) -> Iterator[Entry]:
    (label,) = query.by
    for name, value in (query.numbers or {}).items():
        yield Entry({label: name}, np.array([float(value)]), Place("", name, ""))
