"""How far a mean over trials may be off: by how far trials of this cell and of others lie apart."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.spreads import Spreads
from noisyfl.analysis.statistics import DRAWS

Group = tuple[str, ...]
"""Cells over which spreads are pooled, see :attr:`Trials.groups`."""


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


@dataclass(frozen=True)
class PooledSpreads:
    """How far the trials of cells lie apart, by :attr:`Trials.groups` of cells."""

    by_group: Mapping[Group, Spreads]

    @classmethod
    def of(cls, cells: Iterable[Trials]) -> PooledSpreads:
        """Pool the spreads in each group.

        The same runs count once, also if several tables show them, by the first one's statistic;
        and so do cells that start from the same and have the same values, since their methods do
        the same, as FedAvg and the oracle do without noise.
        """
        groups: defaultdict[Group, defaultdict[str, dict[str, tuple[tuple[int, float], ...]]]]
        groups = defaultdict(lambda: defaultdict(dict))
        for cell in cells:
            for group in cell.groups:
                groups[group][cell.start].setdefault(cell.runs, tuple(cell.values.items()))
        return cls(
            {
                group: Spreads.pool(
                    [
                        [dict(cell) for cell in sorted(set(alike.values()))]
                        for alike in starts.values()
                    ]
                )
                for group, starts in groups.items()
            }
        )

    def at(self, cell: Trials) -> Spreads:
        """The spreads for a cell: those of its smallest group that has enough trials."""
        return Spreads.of_smallest([self.by_group.get(group, Spreads()) for group in cell.groups])

    def draws_of_error(self, cell: Trials) -> np.ndarray:
        """How far the mean over a cell's trials may be off, float64 [1 + draws], of which the first
        is 0: always the same for the same runs.

        If no cell of its groups has several trials, an accuracy or a share may be anything, and a
        cost is taken as it is.
        """
        found = self.at(cell)
        if found.own.freedom and cell.values:
            start, name = (cell.start, cell.metric), (cell.runs, cell.metric)
            return np.append(0.0, found.draws(cell.values, start, name))
        unknown = METRICS[cell.metric].unit == "percent"
        return np.append(0.0, np.full(DRAWS, math.nan if unknown else 0.0))
