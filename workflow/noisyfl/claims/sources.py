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
from typing import NamedTuple

import numpy as np

from noisyfl.analysis.cells import round_number
from noisyfl.analysis.metrics import ACCURACY, METRICS
from noisyfl.analysis.published_cells import read_cells
from noisyfl.analysis.spreads import Spreads
from noisyfl.analysis.statistics import DRAWS, Headroom, draws_of_deviation
from noisyfl.claims.labels import AS_PUBLISHED, Place, cell_labels, printed_place
from noisyfl.claims.numbers import Entry, Numbers
from noisyfl.claims.query import Query
from noisyfl.core.randomness import stream
from noisyfl.specs.published import KEY, Published

Source = Callable[[Query], Iterable[Entry]]

COLUMN = ("shown_in", "column", "dataset", "metric")
"""What the cells have in common that a column compares."""


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
        value, std, starred = math.nan, math.nan, None
        if known is None or tuple(row.fields[name] for name in KEY) in known:
            number = row.number
            value, std = number.value, math.nan if number.std is None else number.std
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


class Trials(NamedTuple):
    """The trials of a cell, and what tells how far they lie apart.

    Attributes:
        values: by seed; NaN if these tell nothing.
        runs: their ids, or what else tells the cell from others.
        start: what they start from, see :func:`noisyfl.analysis.runs.start_of`: in a seed,
            those that start from the same share its luck.
        table: of the cell, as ``<experiment>/<name>``.
        column: of the cell.
        dataset: of the cell.
        metric: of the cell, see :data:`noisyfl.analysis.metrics.METRICS`.
    """

    values: Mapping[int, float]
    runs: str
    start: str
    table: str
    column: str
    dataset: str
    metric: str

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups over which spreads may be pooled, the smallest first: what starts from the
        same; the column's cells with this dataset, which at another scale start from another; those
        of the table; those of the experiment's tables; and all with this dataset.
        """
        kind = self.dataset, self.metric
        experiment = self.table.partition("/")[0]
        column, table = (self.table, self.column, *kind), (self.table, *kind)
        return (self.start, self.metric), column, table, (experiment, *kind), kind


Group = tuple[str, ...]
"""Cells over which spreads are pooled, see :attr:`Trials.groups`."""


def pooled(cells: Iterable[Trials]) -> dict[Group, Spreads]:
    """How far trials lie apart in each group of cells.

    The same runs count once, also if several tables show them, by the first one's statistic; and so
    do cells that start from the same and have the same values, since their methods do the same, as
    FedAvg and the oracle do without noise.
    """
    groups: defaultdict[Group, defaultdict[str, dict[str, tuple[tuple[int, float], ...]]]]
    groups = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        for group in cell.groups:
            groups[group][cell.start].setdefault(cell.runs, tuple(cell.values.items()))
    return {
        group: Spreads.pool(
            [[dict(cell) for cell in sorted(set(alike.values()))] for alike in starts.values()]
        )
        for group, starts in groups.items()
    }


def spreads_at(cell: Trials, spreads: Mapping[Group, Spreads]) -> Spreads:
    """The spreads of a cell, by those of groups."""
    return Spreads.of_smallest([spreads.get(group, Spreads()) for group in cell.groups])


def spreads_of(rows: Iterable[Mapping[str, str]]) -> dict[Group, Spreads]:
    """How far trials lie apart in each group of cells; those that average others do not count, as
    their deviation is between settings.
    """
    return pooled(trials_of(row) for row in rows if not _averages(row))


def trials_of(row: Mapping[str, str]) -> Trials:
    """The trials of a cell; of one that averages others, and so has no runs, theirs from 1 instead
    of by seed.
    """
    seeds, values = (row[name].split() for name in ("ours_seeds", "ours_values"))
    return Trials(
        dict(zip(map(int, seeds), map(float, values), strict=True)),
        row["runs"] or f"{row['shown_in']}, {row['row']}, {row['column']}",
        *(row[name] for name in ("ours_start", *COLUMN)),
    )


def on_common_seeds(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows, with ours over those seeds alone that all of a column have, if there are such: a
    seed with worse noise would otherwise count against those methods that have it.
    """
    seeds: dict[tuple[str, ...], set[int]] = {}
    columns = [tuple(row[name] for name in COLUMN) for row in rows]
    for column, row in zip(columns, rows, strict=True):
        if row["ours"]:
            own = set(trials_of(row).values)
            seeds[column] = seeds.get(column, own) & own
    found = []
    for column, row in zip(columns, rows, strict=True):
        values = trials_of(row).values
        kept = {seed: values[seed] for seed in values if seed in seeds.get(column, ())}
        found.append(dict(row))
        if kept:
            found[-1] |= {
                "ours": str(round_number(float(np.mean(list(kept.values()))))),
                "ours_seeds": " ".join(map(str, kept)),
                "ours_values": " ".join(map(str, kept.values())),
            }
    return found


def headroom_of(row: Mapping[str, str], spreads: Mapping[Group, Spreads]) -> Headroom | None:
    """The headroom in the setting of a cell; None if it is unknown, or if there is no noise: then
    the oracle is FedAvg, and what a paper says of that setting is not about what noise takes.
    """
    if row["noise"] == "none" or not row["headroom"]:
        return None
    deviation = spreads_at(trials_of(row), spreads).own.std
    return Headroom(float(row["headroom"]), math.sqrt(2) * deviation)


def draws_of_error(cell: Trials, spreads: Mapping[Group, Spreads]) -> np.ndarray:
    """How far a mean over trials may be off, float64 [1 + draws], of which the first is 0: always
    the same for the same runs.

    If no cell of its groups has several trials, an accuracy or a share may be anything, and a cost
    is taken as it is.
    """
    found = spreads_at(cell, spreads)
    if found.own.freedom and cell.values:
        start, name = (cell.start, cell.metric), (cell.runs, cell.metric)
        return np.append(0.0, found.draws(cell.values, start, name))
    unknown = METRICS[cell.metric].unit == "percent"
    return np.append(0.0, np.full(DRAWS, math.nan if unknown else 0.0))


def draws_of_cell(row: Mapping[str, str], spreads: Mapping[Group, Spreads]) -> np.ndarray:
    """Our mean in a cell, and draws of what it may be with other seeds, float64 [1 + draws]; see
    :func:`draws_of_error`.
    """
    trials = trials_of(row)
    if _averages(row):  # how far settings lie apart is not how far seeds do
        trials = trials._replace(values=dict.fromkeys(trials.values, math.nan))
    return float(row["ours"] or "nan") + draws_of_error(trials, spreads)


def _our_entries(
    rows: Sequence[Mapping[str, str]], spreads: Mapping[Group, Spreads]
) -> list[Entry]:
    found: list[Entry] = []
    for row in rows:
        std = float(row["ours_std"] or "nan")
        starred = row["ours_starred"] == "True" if row["ours"] and row["ours_starred"] else None
        rng = stream(0, "standard deviation", row["runs"], row["metric"])
        stds = draws_of_deviation(std, int(row["ours_trials"]), rng)
        found += _entries_of(row, draws_of_cell(row, spreads), stds, starred)
    return found


def our_side(cells: Path, artifacts: Mapping[str, Source]) -> ClaimSide:
    """Our numbers: those in the place of printed ones, over the seeds that all cells of a column
    have, and those that only runs have.

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
    return ClaimSide(
        {"cells": _by_labels(_our_entries(on_common_seeds(rows), spreads)), **artifacts}, headrooms
    )


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


def _by_labels(numbers: Sequence[Entry]) -> Source:
    return lambda query: [number for number in numbers if query.fits(number.labels)]


def _from_text(query: Query) -> Iterator[Entry]:
    (label,) = query.by
    for name, value in (query.numbers or {}).items():
        yield Entry({label: name}, np.array([float(value)]), Place("", name, ""))
