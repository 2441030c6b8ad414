"""Our cells beside published numbers: the rows of ``cells.csv``, as texts by column.

The file is that of :mod:`noisyfl.analysis.published_cells`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from noisyfl.analysis.cells import round_number
from noisyfl.analysis.published_cells import read_cells
from noisyfl.analysis.statistics import Headroom
from noisyfl.claims.trials import PooledSpreads, Trials
from noisyfl.specs.published import KEY

COLUMN = ("shown_in", "column", "dataset", "metric")
"""What the cells have in common that a column compares."""


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of our numbers: if several cells show the same, the one in the paper's own table."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in read_cells(path):
        key = tuple(row[name] for name in KEY)
        if key not in cells or row["shown_in"] == f"{row['paper']}/{row['table']}":
            cells[key] = row
    return list(cells.values())


def spreads_of(rows: Iterable[Mapping[str, str]]) -> PooledSpreads:
    """How far trials lie apart in each group of cells; those that average others do not count, as
    their deviation is between settings.
    """
    return PooledSpreads.of(trials_of(row) for row in rows if not _averages(row))


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


def headroom_of(row: Mapping[str, str], spreads: PooledSpreads) -> Headroom | None:
    """The headroom in the setting of a cell; None if it is unknown, or if there is no noise: then
    the oracle is FedAvg, and what a paper says of that setting is not about what noise takes.
    """
    if row["noise"] == "none" or not row["headroom"]:
        return None
    deviation = spreads.at(trials_of(row)).own.std
    return Headroom(float(row["headroom"]), math.sqrt(2) * deviation)


def draws_of_cell(row: Mapping[str, str], spreads: PooledSpreads) -> np.ndarray:
    """Our mean in a cell, and draws of what it may be with other seeds, float64 [1 + draws]; see
    :meth:`~noisyfl.claims.trials.PooledSpreads.draws_of_error`.
    """
    trials = trials_of(row)
    if _averages(row):  # how far settings lie apart is not how far seeds do
        trials = trials._replace(values=dict.fromkeys(trials.values, math.nan))
    return float(row["ours"] or "nan") + spreads.draws_of_error(trials)


def _averages(row: Mapping[str, str]) -> bool:
    """Whether a cell is the mean of cells in other settings."""
    return row["noise"].startswith("mean_over(")
