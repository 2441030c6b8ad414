"""Numbers that only runs have, for claims about figures and costs.

The labels of a cell are ``table``, ``row``, ``column`` and ``metric``; ``row_group`` and
``row_label``, and the same of the column; and ``method_first`` and ``method_last``, which are the
parts of the row's method. The labels of a figure's line are ``table`` (the figure's name),
``panel``, ``line`` and ``metric``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisyfl.analysis.clients import count_classes, features, last_values
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import Run, read_run
from noisyfl.analysis.statistics import over_trials
from noisyfl.claims.numbers import Cell, Number
from noisyfl.claims.sources import Source, Spread, cell_labels, labelled, plain
from noisyfl.claims.wanted import OWN_LABELS, WORK, Claim, Label, Wanted
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.options import find
from noisyfl.data import noisy_partition
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.specs.descriptions import Description, FigureDescription, TableDescription
from noisyfl.specs.published import KEY
from noisyfl.specs.spec import identity

OF_NUMBERS = ("metric", *itertools.chain(*OWN_LABELS.values()))
"""Labels in which the numbers of one line may differ."""

Labels = dict[str, Label]


@dataclass(frozen=True)
class Line:
    """A cell of a table, or a line of a figure.

    Attributes:
        labels: all labels but the metric.
        runs: ids of the runs, one per trial.
        metric: the metric that it shows.
        statistic: the statistic that sums up a run; empty for a figure's line.
    """

    labels: Labels
    runs: tuple[str, ...]
    metric: str
    statistic: str

    @property
    def cell(self) -> Cell:
        """Where its numbers stand: in a figure, a line is the row and a panel the column."""
        row, column = (
            self.labels.get(one, self.labels.get(other, ""))
            for one, other in (("row", "line"), ("column", "panel"))
        )
        return Cell(str(self.labels["table"]), str(row), str(column))


class Artifacts:
    """Tables and figures with their runs and noisy partitions, which are read when needed.

    Args:
        parts: descriptions of tables and figures, by ``<experiment>/<name>``.
        runs: the artifact of every run in them, by id.
        partitions: the noisy partitions of those runs, by id.
    """

    def __init__(
        self,
        parts: Mapping[str, Description],
        runs: Mapping[str, RunFiles],
        partitions: Mapping[str, Path],
    ) -> None:
        self.parts, self.files, self.paths = parts, runs, partitions

    @functools.cache  # noqa: B019 (as long-lived as what it keeps)
    def run(self, name: str) -> Run:
        """A run by its id."""
        return read_run(name, self.files[name])

    @functools.cache  # noqa: B019
    def partition(self, run: str) -> NoisyPartition:
        """The noisy partition of a run."""
        return noisy_partition.read(self.paths[identity(self.run(run).spec["noisy_partition"])])

    def trials(self, line: Line) -> list[Run]:
        """The runs of a line that did not diverge."""
        return [run for run in map(self.run, line.runs) if not run.diverged]

    def summary(self, line: Line, metric: str) -> tuple[float, float, int] | None:
        """A cell's mean, standard deviation (NaN if unknown) and number of trials, or None."""
        values = [run.series(metric)[1].tolist() for run in self.trials(line)]
        values = [found for found in values if found]
        if not values:
            return None
        found, factor = over_trials(line.statistic, values), METRICS[metric].factor
        std = float("nan") if found.std is None else factor * found.std
        return factor * found.mean, std, found.trials

    @functools.cache  # noqa: B019
    def spread(self, table: str, column: str, metric: str) -> Spread:
        """How far trials of the cells of a table's column lie apart.

        Args:
            table: as ``<experiment>/<name>``.
            column: its name.
            metric: of the cells, see :data:`noisyfl.analysis.metrics.METRICS`.
        """
        lines = (line for line in _lines(table, self.parts[table]) if line.cell.column == column)
        summaries = (self.summary(line, metric) for line in lines)
        return Spread.pooled((std, trials) for _, std, trials in filter(None, summaries))

    def sources(self) -> dict[str, Source]:
        """The source of each kind of numbers, see :mod:`noisyfl.claims.wanted`."""
        kinds: dict[str, Callable[[Artifacts, Line, str], Found]] = {
            "tables": _of_tables,
            "rounds": functools.partial(_by_work, unit="ordinary_rounds"),
            "batches": functools.partial(_by_work, unit="batches"),
            "clients": _of_clients,
            "pairs": _of_pairs,
        }
        return {name: functools.partial(self._found, of) for name, of in kinds.items()}

    def _found(self, of: Callable[[Artifacts, Line, str], Found], wanted: Wanted) -> Found:
        metrics = wanted.where.get("metric")
        for line in (line for line in lines_of(wanted, self.parts) if line.runs):
            for metric in metrics if isinstance(metrics, list) else [metrics or line.metric]:
                yield from (n for n in of(self, line, metric) if wanted.fits(n.labels))


Found = Iterator[Number]


def lines_of(wanted: Wanted, parts: Mapping[str, Description]) -> Iterator[Line]:
    """The cells of tables and lines of figures that have the wanted numbers."""
    for name in wanted.tables:
        for line in _lines(name, parts[name]) if name in parts else ():
            if wanted.fits(line.labels, OF_NUMBERS):
                yield line


def needed(claim: Claim, parts: Mapping[str, Description]) -> list[str]:
    """The runs that it takes to judge a claim by our numbers, each once.

    Args:
        claim: one of :func:`noisyfl.claims.wanted.all_claims`.
        parts: descriptions of all tables and figures, by ``<experiment>/<name>``.
    """
    runs: dict[str, None] = {}
    for wanted in claim.wanted.values():
        of_lines = (line.runs for line in lines_of(wanted, parts))
        found = _runs_of_cells(wanted, parts) if wanted.kind == "cells" else of_lines
        runs |= dict.fromkeys(itertools.chain(*found))
    return list(runs)


def _runs_of_cells(wanted: Wanted, parts: Mapping[str, Description]) -> Iterator[Sequence[str]]:
    """The runs of each cell that shows a wanted number."""
    for part in map(parts.get, wanted.tables):
        if not isinstance(part, TableDescription):
            continue
        for all_labels, by_column in zip(part.labels, part.runs, strict=True):
            runs = dict(zip((column.name for column in part.columns), by_column, strict=True))
            for labels, column in zip(all_labels, part.columns, strict=True):
                printed = set(labels) == set(KEY)
                if printed and wanted.fits(cell_labels(labels), ("measure", "converged")):
                    yield from (runs[one] for one in column.mean_of or [column.name])


def _lines(name: str, part: Description) -> Iterator[Line]:
    if isinstance(part, FigureDescription):
        for panel in part.panels:
            for line in panel.lines or [panel]:
                texts = {"table": name, "panel": panel.name or None, "line": line.name or None}
                if line.run:
                    y = part.y if isinstance(part.y, str) else ""
                    yield Line(labelled(texts), (line.run,), y, "")
        return
    for row, by_column in zip(part.rows, part.runs, strict=True):
        for column, runs in zip(part.columns, by_column, strict=True):
            labels = labelled({"table": name, "row": row.name, "column": column.name})
            for kind, header in (("row", row), ("column", column)):
                labels |= {
                    f"{kind}_group": header.group,
                    f"{kind}_label": plain(header.label or header.name),
                }
            parts = row.method_name.split("+")
            labels |= {"method_first": parts[0], "method_last": parts[-1]}
            metric, statistic = part.metric_of(row, column), part.statistic_of(row, column)
            yield Line(labels, tuple(runs), metric, statistic)


def _of_tables(artifacts: Artifacts, line: Line, metric: str) -> Found:
    summary = artifacts.summary(line, metric)
    if summary is not None:
        column = artifacts.spread(line.cell.table, line.cell.column, metric)
        mean, std, trials = summary
        draws = column.draws(mean, std, trials, seed=int(line.runs[0], 16))
        yield Number({**line.labels, "metric": metric}, draws, line.cell)


def _by_work(artifacts: Artifacts, line: Line, metric: str, unit: str) -> Found:
    curves = [run.series(metric, unit) for run in artifacts.trials(line)]
    # Trials of one setting are evaluated after the same rounds.
    length = min((len(values) for _, values in curves), default=0)
    if length:
        work, values = (
            np.mean([curve[part][:length] for curve in curves], axis=0) for part in (0, 1)
        )
        if unit == "ordinary_rounds":
            work = 100 * work / artifacts.run(line.runs[0]).spec["schedule"]["rounds"]
        for at, value in zip(work, METRICS[metric].factor * values, strict=True):
            labels = {**line.labels, "metric": metric, WORK: round(float(at), 3)}
            yield Number(labels, np.array([value]), line.cell)


def _of_clients(artifacts: Artifacts, line: Line, metric: str) -> Found:
    run, partition = artifacts.run(line.runs[0]), artifacts.partition(line.runs[0])
    known = features(partition)
    clients = len(partition.clients)
    values = known[metric] if metric in known else last_values(run, metric, clients)
    ranks = {name: _ranks(known[of]) for name, of in RANKS.items()}
    for client, value in enumerate(values):
        labels: Labels = {**line.labels, "metric": metric, "client": float(client)}
        labels |= {name: float(rank[client]) for name, rank in ranks.items()}
        yield Number(labels, np.array([value]), line.cell)


RANKS = {"noise_rank": "noise_level", "size_rank": "samples"}
"""Labels that hold a client's rank among all clients, from 0 to 1, and the feature ranked."""


def _ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort(kind="stable").argsort(kind="stable") / max(len(values) - 1, 1)


def _of_pairs(artifacts: Artifacts, line: Line, metric: str) -> Found:
    run = artifacts.run(line.runs[0])
    measure = find(PAIRS, metric, "metric of pairs of clients", str(line.labels["table"]))
    for (one, other), value in ({} if run.diverged else measure(artifacts, run)).items():
        labels = {**line.labels, "metric": metric, "pair": f"{one} and {other}"}
        yield Number(labels, np.array([value]), line.cell)


ByPair = dict[tuple[int, int], float]


def _class_overlap(artifacts: Artifacts, run: Run) -> ByPair:
    """The overlap of two clients' distributions of true labels, from 0 to 1."""
    table = count_classes(artifacts.partition(run.id))
    shares = table / table.sum(1, keepdims=True)
    return {
        (one, other): float(np.minimum(shares[one], shares[other]).sum())
        for one, other in itertools.combinations(range(len(shares)), 2)
    }


def _output_similarity(artifacts: Artifacts, run: Run) -> ByPair:
    """The cosine of two local models' softmax outputs for the random image (FedRN, Eq. 5)."""
    column = "random_image_output"
    outputs = {r["client"]: np.array(r[column]) for r in probed_rows(run.id, run.files, [column])}
    return {
        (one, other): float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
        for (one, a), (other, b) in itertools.combinations(outputs.items(), 2)
    }


def _class_mean_distance(artifacts: Artifacts, run: Run) -> ByPair:
    """The mean distance between two clients' mean feature vectors of the same given class.

    The mean is over the classes that both clients have; it is divided by the mean length of all
    feature vectors.
    """
    means: dict[int, dict[int, np.ndarray]] = {}
    lengths: list[float] = []
    for row in probed_rows(run.id, run.files, ["feature_vector", "feature_given_label"]):
        vectors, labels = np.array(row["feature_vector"]), np.array(row["feature_given_label"])
        means[row["client"]] = {label: vectors[labels == label].mean(0) for label in set(labels)}
        lengths += np.linalg.norm(vectors, axis=1).tolist()
    found = {}
    for one, other in itertools.combinations(means, 2):
        shared = set(means[one]) & set(means[other])
        apart = [np.linalg.norm(means[one][label] - means[other][label]) for label in shared]
        if apart:
            found[one, other] = float(np.mean(apart) / np.mean(lengths))
    return found


PAIRS: dict[str, Callable[[Artifacts, Run], ByPair]] = {
    "class_mean_distance": _class_mean_distance,
    "class_overlap": _class_overlap,
    "output_similarity": _output_similarity,
}
"""The measures of pairs of clients, by metric."""
