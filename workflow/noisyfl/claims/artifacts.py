"""Numbers that only runs have, for claims about figures and costs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisyfl.analysis.clients import client_features, first_values, last_values, ranks_from_0_to_1
from noisyfl.analysis.curves import mean_curve
from noisyfl.analysis.frame import rows_by_trial
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.noisy_clients import SCORES, correctly_flagged
from noisyfl.analysis.pairs import PAIRS
from noisyfl.analysis.runs import Run, read_run, start_of
from noisyfl.analysis.statistics import draws_between_rounds
from noisyfl.claims.labels import WORK, Label
from noisyfl.claims.lines import Line, cells_and_lines, lines_of
from noisyfl.claims.numbers import Entry
from noisyfl.claims.query import Query
from noisyfl.claims.sources import Source
from noisyfl.claims.trials import PooledSpreads, Trials
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.randomness import stream
from noisyfl.data import noisy_partition
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.specs.descriptions import Description
from noisyfl.specs.identity import identity

CURVE = "mean"
"""The statistic whose spread between trials is taken for that of their curves, which are shifted as
a whole.
"""

RANKS = {"noise_rank": "noise_level", "size_rank": "samples"}
"""Labels that hold a client's rank among all clients, from 0 to 1, and the feature ranked."""

FIRST = "first_"
"""How metrics begin that are of a client's first value, where others are of its last."""

CALLS = {f"{first}{score}_calls_rightly": score for score in SCORES for first in ("", FIRST)}
"""Metrics that are 1 for a client that a score flags correctly as noisy or clean; the scores."""

NOT_RUN: Mapping[str, list[dict[str, Label]]] = {
    "tables": [{}],
    "rounds": [{WORK: 100.0}],
    "batches": [{WORK: 100.0}],
    "clients": [{"client": end, **dict.fromkeys(RANKS, end)} for end in (0.0, 1.0)],
    "pairs": [{"pair": "0 and 1"}],
}
"""By kind, the own labels of the unknown numbers of a cell without runs, so that what rests on it
is undecided: one, at the end of a curve; of clients one with the lowest and one with the highest
ranks."""

Found = Iterator[tuple[dict[str, Label], np.ndarray]]
"""Numbers of a cell or line: each number's labels besides those of the line and the metric, and its
values, see :class:`~noisyfl.claims.numbers.Entry`."""


@dataclass(frozen=True, eq=False)
class Artifacts:
    """Tables and figures with their runs and noisy partitions, which are read when needed.

    Attributes:
        parts: descriptions of tables and figures, by ``<experiment>/<name>``.
        files: of each run, by id.
        paths: of each noisy partition, by id.
    """

    parts: Mapping[str, Description]
    files: Mapping[str, RunFiles]
    paths: Mapping[str, Path]

    @functools.cache  # noqa: B019 (as long-lived as what it keeps)
    def run(self, name: str) -> Run:
        """A run by its id."""
        return read_run(name, self.files[name])

    @functools.cache  # noqa: B019
    def partition(self, run: str) -> NoisyPartition:
        """The noisy partition of a run."""
        return noisy_partition.read(self.paths[identity(self.run(run).spec["noisy_partition"])])

    def usable_runs(self, line: Line) -> list[Run]:
        """The runs of a line that did not diverge."""
        return [run for run in map(self.run, line.runs) if not run.diverged]

    def values(self, line: Line, metric: str, statistic: str) -> dict[int, float]:
        """A statistic of a cell's trials by seed, as far as these count."""
        rows = rows_by_trial([self.run(run) for run in line.runs], metric, statistic)
        return {row["seed"]: row["value"] for row in rows if not math.isnan(row["value"])}

    @functools.cache  # noqa: B019
    def spreads(self, metric: str, of_curves: bool) -> PooledSpreads:
        """How far trials of cells lie apart, in the tables of all papers, by group of cells.

        Args:
            of_curves: of all cells, by the mean over a run; otherwise of cells that show the
                metric, by the statistic that they show.
        """
        lines = itertools.chain(*(cells_and_lines(*part) for part in self.parts.items()))
        return PooledSpreads.of(
            self._as_trials(
                line, metric, self.values(line, metric, CURVE if of_curves else line.statistic)
            )
            for line in lines
            if line.statistic and len(line.runs) > 1
            if of_curves or line.metric == metric
        )

    def seeds(self, line: Line) -> frozenset[int]:
        """The seeds of a line that all lines of its column with its metric have, or else all of
        its own.
        """
        place = line.place
        common = self._common_seeds(place.table, place.column, line.metric)
        own = frozenset(run.spec["seed"] for run in self.usable_runs(line))
        return own & common or own

    @functools.cache  # noqa: B019
    def _common_seeds(self, table: str, column: str, metric: str) -> frozenset[int]:
        cells = cells_and_lines(table, self.parts[table])
        seeds = [
            {self.run(run).spec["seed"] for run in cell.runs}
            for cell in cells
            if cell.runs and (cell.place.column, cell.metric) == (column, metric)
        ]
        return frozenset(set.intersection(*seeds)) if seeds else frozenset()

    def errors(
        self, line: Line, metric: str, trials: Mapping[int, float], of_curves: bool = False
    ) -> np.ndarray:
        """How far a mean over a line's trials may be off, float64 [1 + draws]."""
        return self.spreads(metric, of_curves).draws_of_error(self._as_trials(line, metric, trials))

    def _as_trials(self, line: Line, metric: str, values: Mapping[int, float]) -> Trials:
        spec = self.run(line.runs[0]).spec
        dataset = str(spec["noisy_partition"]["dataset"])
        where = line.place.table, line.place.column, dataset, metric
        return Trials(values, " ".join(line.runs), start_of(spec), *where)

    def sources(self) -> dict[str, Source]:
        """The source of each kind of numbers, see :mod:`noisyfl.claims.query`."""
        kinds: dict[str, Callable[[Artifacts, Line, str], Found]] = {
            "tables": _statistic,
            "rounds": functools.partial(_curve, unit="ordinary_rounds"),
            "batches": functools.partial(_curve, unit="batches"),
            "clients": _clients,
            "pairs": _pairs,
        }
        return {kind: functools.partial(self._entries, kind, of) for kind, of in kinds.items()}

    def _entries(
        self, kind: str, of: Callable[[Artifacts, Line, str], Found], query: Query
    ) -> Iterator[Entry]:
        unknown = [(own, np.array([np.nan])) for own in NOT_RUN[kind]]
        metrics = query.where.get("metric")
        for line in lines_of(query, self.parts):
            has_runs = bool(self.usable_runs(line))
            for metric in metrics if isinstance(metrics, list) else [metrics or line.metric]:
                for own, values in of(self, line, metric) if has_runs else unknown:
                    labels = {**line.labels, "metric": metric, **own}
                    if query.fits(labels):
                        yield Entry(labels, values, line.place)


def _statistic(artifacts: Artifacts, line: Line, metric: str) -> Found:
    known = artifacts.values(line, metric, line.statistic)
    if trials := {seed: known[seed] for seed in known if seed in artifacts.seeds(line)}:
        yield {}, np.mean(list(trials.values())) + artifacts.errors(line, metric, trials)


def _curve(artifacts: Artifacts, line: Line, metric: str, unit: str) -> Found:
    seeds = artifacts.seeds(line)
    trials = [run for run in artifacts.usable_runs(line) if run.spec["seed"] in seeds]
    work, values, _ = mean_curve(trials, metric, unit)
    if unit == "ordinary_rounds":
        work = 100 * work / trials[0].spec["schedule"]["rounds"]
    values = METRICS[metric].factor * values
    # A trial that lies higher than others does so along its whole curve, which also swings.
    errors = artifacts.errors(line, metric, dict.fromkeys(seeds, math.nan), of_curves=True)
    swings = draws_between_rounds(values, stream(0, "between rounds", *line.runs, metric))
    for at, value, swing in zip(work, values, swings, strict=True):
        yield {WORK: round(float(at), 3)}, value + errors + swing


def _clients(artifacts: Artifacts, line: Line, metric: str) -> Found:
    run, partition = artifacts.run(line.runs[0]), artifacts.partition(line.runs[0])
    known = client_features(partition)
    if metric in known:
        values = known[metric]
    else:
        read = first_values if metric.startswith(FIRST) else last_values
        values = read(run, CALLS.get(metric, metric), len(partition.clients))
    if metric in CALLS:
        values = correctly_flagged(values, known["noise_level"])
    ranks = {name: ranks_from_0_to_1(known[of]) for name, of in RANKS.items()}
    for client, value in enumerate(values):
        own = {name: float(rank[client]) for name, rank in ranks.items()}
        yield {"client": float(client), **own}, np.array([value])


def _pairs(artifacts: Artifacts, line: Line, metric: str) -> Found:
    run = artifacts.run(line.runs[0])
    found = {} if run.diverged else PAIRS[metric](run, artifacts.partition(run.id))
    for (one, other), value in found.items():
        yield {"pair": f"{one} and {other}"}, np.array([value])
