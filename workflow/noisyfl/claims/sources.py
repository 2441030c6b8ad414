"""Where the numbers of claims come from: what is printed, and ours in its place.

Their labels are described in :mod:`noisyfl.claims.labels`; the label ``converged`` is 1 or 0 where
it is known, and ``as_published`` is 1 for what is printed, and for what is made in the paper's own
setting.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from noisyfl.analysis.metrics import ACCURACY, METRICS
from noisyfl.analysis.published_cells import read_cells
from noisyfl.analysis.statistics import DRAWS, Headroom, Spread, draws_of_deviation
from noisyfl.claims.labels import AS_PUBLISHED, Place, cell_labels, printed_place
from noisyfl.claims.numbers import Entry, Numbers
from noisyfl.claims.query import Query
from noisyfl.core.randomness import stream
from noisyfl.specs.published import KEY, Published

Source = Callable[[Query], Iterable[Entry]]


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
        value, std, starred = math.nan, math.nan, None
        if known is None or tuple(row.fields[name] for name in KEY) in known:
            value, std = row.value, math.nan if row.std is None else row.std
            starred = {"true": False, "false": True}.get(row.fields["converged"].lower())
        found += _entries_of(row.fields, np.array([value]), np.array([std]), starred)
    return ClaimSide({"cells": _by_labels(found), "quotes": _from_text})


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of our numbers: if several cells show the same, the one in the paper's own table."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in read_cells(path):
        key = tuple(row[name] for name in KEY)
        if key not in cells or row["shown_in"] == f"{row['paper']}/{row['table']}":
            cells[key] = row
    return list(cells.values())


def spreads_of(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, ...], Spread]:
    """How far trials lie apart in each group of cells that has several, see :func:`_groups`; cells
    that average others do not count, as their deviation is between settings.
    """
    trials: defaultdict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
    for row in (row for row in rows if not _averages(row)):
        for group in _groups(row):
            trials[group].append((float(row["ours_std"] or "nan"), int(row["ours_trials"])))
    spreads = {group: Spread.pool(of_cells) for group, of_cells in trials.items()}
    return {group: spread for group, spread in spreads.items() if spread.freedom}


def spread_of(row: Mapping[str, str], spreads: Mapping[tuple[str, ...], Spread]) -> Spread:
    """The spread of the smallest group of a cell in which it is known."""
    return next((spreads[group] for group in _groups(row) if group in spreads), Spread())


def headroom_of(
    row: Mapping[str, str], spreads: Mapping[tuple[str, ...], Spread]
) -> Headroom | None:
    """The headroom in the setting of a cell; None if it is unknown, or if there is no noise: then
    the oracle is FedAvg, and what a paper says of that setting is not about what noise takes.
    """
    if row["noise"] == "none" or not row["headroom"]:
        return None
    return Headroom(float(row["headroom"]), spread_of(row, spreads).std)


def draws_of_error(
    spread: Spread, metric: str, std: float, trials: int, rng: np.random.Generator
) -> np.ndarray:
    """How far a mean over trials may be off, float64 [1 + draws], of which the first is 0.

    The draws are from Student's t distribution, scaled by the standard error. If no cell of the
    group has several trials, an accuracy or a share may be anything, and a cost is taken as it is.

    Args:
        spread: of the group.
        metric: what the mean is of, see :data:`noisyfl.analysis.metrics.METRICS`.
        std: the standard deviation over the trials; NaN if it is unknown.
    """
    if spread.freedom and trials:
        draws = spread.error(std, trials) * rng.standard_t(spread.freedom, size=DRAWS)
        return np.append(0.0, draws)
    unknown = METRICS[metric].unit == "percent"
    return np.append(0.0, np.full(DRAWS, math.nan if unknown else 0.0))


def draws_of_cell(row: Mapping[str, str], spreads: Mapping[tuple[str, ...], Spread]) -> np.ndarray:
    """Our mean in a cell, and draws of what it may be with other seeds, float64 [1 + draws]; see
    :func:`draws_of_error`.
    """
    mean, std = (float(row[key] or "nan") for key in ("ours", "ours_std"))
    own = math.nan if _averages(row) else std
    rng = stream(0, "mean", *_cell(row))
    trials = int(row["ours_trials"])
    return mean + draws_of_error(spread_of(row, spreads), row["metric"], own, trials, rng)


def _cell(row: Mapping[str, str]) -> list[str]:
    """What a cell is, wherever it stands in the file: what it might be is always the same."""
    return [row[name] for name in (*KEY, "shown_in", "row", "column")]


def _our_entries(
    rows: Sequence[Mapping[str, str]], spreads: Mapping[tuple[str, ...], Spread]
) -> list[Entry]:
    found: list[Entry] = []
    for row in rows:
        std = float(row["ours_std"] or "nan")
        starred = row["ours_starred"] == "True" if row["ours"] and row["ours_starred"] else None
        rng = stream(0, "standard deviation", *_cell(row))
        stds = draws_of_deviation(std, int(row["ours_trials"]), rng)
        found += _entries_of(row, draws_of_cell(row, spreads), stds, starred)
    return found


def our_side(cells: Path, artifacts: Mapping[str, Source]) -> ClaimSide:
    """Our numbers: those in the place of printed ones, and those that only runs have.

    Args:
        cells: the file of published numbers with ours, see :mod:`noisyfl.analysis.published_cells`.
        artifacts: the sources of numbers that only runs have.
    """
    rows = read_rows(cells)
    spreads = spreads_of(rows)
    headrooms = {
        Place(row["shown_in"], row["row"], row["column"]): headroom
        for row in rows
        if row["metric"] == ACCURACY and (headroom := headroom_of(row, spreads))
    }
    return ClaimSide({"cells": _by_labels(_our_entries(rows, spreads)), **artifacts}, headrooms)


def _entries_of(
    row: Mapping[str, str], values: np.ndarray, std: np.ndarray, starred: bool | None
) -> Iterator[Entry]:
    """What is known of a cell, one number per measure: value, std and converged."""
    converged = math.nan if starred is None else float(not starred)
    as_published = float(row.get("ours_as_published", "True") == "True")
    labels = {**cell_labels(row), "converged": converged, AS_PUBLISHED: as_published}
    shown = (row.get("shown_in"), row.get("row"), row.get("column"))
    printed = printed_place(row, str(labels["table"]))
    cell = Place(*(a or b for a, b in zip(shown, printed, strict=True)))
    for measure, known in (
        ("value", values),
        ("std", std),
        ("converged", np.array([converged])),
    ):
        yield Entry({**labels, "measure": measure}, known, cell)


def _averages(row: Mapping[str, str]) -> bool:
    """Whether a cell is the mean of cells in other settings."""
    return row["noise"].startswith("mean_over(")


def _groups(row: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The groups of cells over which a cell's spread may be pooled, the smallest first: its column,
    and all cells of its dataset.
    """
    return (row["shown_in"], row["column"], row["metric"]), (row["dataset"], row["metric"])


def _by_labels(numbers: Sequence[Entry]) -> Source:
    return lambda query: [number for number in numbers if query.fits(number.labels)]


def _from_text(query: Query) -> Iterator[Entry]:
    (label,) = query.by
    for name, value in (query.numbers or {}).items():
        yield Entry({label: name}, np.array([float(value)]), Place("", name, ""))
