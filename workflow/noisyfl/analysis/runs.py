"""Runs as tables and figures read them: their artifacts, and what two runs have in common."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from noisyfl.analysis.metrics import METRICS
from noisyfl.core.artifacts import RunFiles, to_numpy
from noisyfl.core.options import find
from noisyfl.core.provenance import Provenance
from noisyfl.runs.artifact import read_artifact, read_clients
from noisyfl.specs.descriptions import TableDescription
from noisyfl.specs.identity import identity

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, np.ndarray]
"""The numeric columns of a table, each float64 [rows], NaN where a row has no value."""


@dataclass(frozen=True, repr=False)
class Run:
    """What a report needs of a run.

    Attributes:
        spec: the canonical spec, whose identity is the run's id.
        provenance: how the run was made.
        all_rounds: the columns of ``rounds``, for all rounds.
    """

    id: str
    files: RunFiles
    spec: dict[str, Any]
    provenance: Provenance
    all_rounds: Columns

    def __repr__(self) -> str:
        from noisyfl.specs.run_words import describe_run  # with torch, which tables do without

        return f"<run {self.id}: {describe_run(self.spec)}, {self.provenance.status}>"

    @property
    def folder(self) -> Path:
        """Where the artifact lies."""
        return self.files.folder

    @property
    def partition(self) -> str:
        """The id of its noisy partition."""
        return identity(self.spec["noisy_partition"])

    @property
    def diverged(self) -> bool:
        """Whether the global model ceased to be finite, which ended the run early."""
        return self.provenance.status == "diverged"

    @property
    def counted(self) -> Columns:
        """The columns of the rounds that count.

        The last round of a run that diverged does not count: its evaluation is of a global model
        that is not finite.
        """
        last = -1 if self.diverged else None
        return {name: column[:last] for name, column in self.all_rounds.items()}

    @functools.cached_property
    def rounds(self) -> pd.DataFrame:
        """The rounds that count, one row each: all columns of docs/artifacts.md."""
        return read_artifact(self.id, self.files).rounds.to_pandas()[: len(self.counted["round"])]

    @functools.cached_property
    def clients(self) -> Columns:
        """The columns of ``clients``.

        Raises:
            DamagedArtifact: the file is damaged, or another run's.
        """
        return _columns(read_clients(self.id, self.files))

    def work(self, unit: str = "ordinary_rounds") -> np.ndarray:
        """The work that was done by the end of each round, float64 [all rounds].

        The last round of a run that diverged is included.

        Args:
            unit: ``ordinary_rounds``, the number of local updates divided by the participants of an
                ordinary round; or ``batches``, the training batches of all clients. A batch is
                ``batch_size`` samples through the network backwards, so that methods whose steps
                are larger, or that train several networks, are counted by what they compute.
        """
        if unit == "ordinary_rounds":
            return self.all_rounds[unit]
        samples = np.cumsum(self.all_rounds["samples_backward"])
        return samples / self.spec["schedule"]["batch_size"]

    def values(self, metric: str) -> np.ndarray:
        """The values of a metric by round, float64 [rounds that count]; NaN where there is none.

        Args:
            metric: a name in :data:`noisyfl.analysis.metrics.METRICS`.

        Raises:
            BadInput: there is no such metric.
        """
        chosen = find(METRICS, metric, "metric", f"run {self.id}")
        if not chosen.of_clients:
            return chosen.values(self.counted, self.spec)
        rounds, _, values = self.of_clients(chosen.of_clients)
        counted = self.counted["round"]
        found = np.full(len(counted), np.nan)
        for number in np.unique(rounds):
            found[counted == number] = values[rounds == number].mean()
        return found

    def of_clients(self, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The round, client and value of each entry in a column of ``clients``.

        Only rounds that count are included. Each array is float64 [values], in the order of rounds;
        empty if the run lacks the column.
        """
        rounds, clients = self.clients["round"], self.clients["client"]
        values = self.clients.get(column, np.full(len(rounds), np.nan))
        there = ~np.isnan(values) & np.isin(rounds, self.counted["round"])
        return rounds[there], clients[there], values[there]

    def series(self, metric: str, unit: str = "ordinary_rounds") -> tuple[np.ndarray, np.ndarray]:
        """The work by the end of each round with a value of a metric, and the values.

        Both are float64 [values].
        """
        values = self.values(metric)
        there = ~np.isnan(values)
        return self.work(unit)[: len(values)][there], values[there]

    @functools.cached_property
    def confusion(self) -> np.ndarray | None:
        """The confusion matrix of the last evaluation, int64 [classes, classes].

        It counts the test samples by true class (rows) and predicted class (columns); its diagonal
        divided by the sums of its rows is the accuracy of each class. None for a run that diverged,
        or was trained before the matrix was recorded.
        """
        table = read_artifact(self.id, self.files).rounds
        last = table["confusion"][-1].as_py() if "confusion" in table.column_names else None
        return None if last is None else np.reshape(last, (math.isqrt(len(last)), -1))

    @functools.cached_property
    def accuracies(self) -> tuple[float, ...]:
        """The test accuracy of each evaluation, as a share."""
        return tuple(self.series("test_accuracy")[1].tolist())


def read_run(run: str, files: RunFiles) -> Run:
    """Read a run; its table of clients is read when it is first used.

    Raises:
        DamagedArtifact: a file is damaged, or the folder holds another run.
    """
    found = read_artifact(run, files)
    return Run(run, files, found.spec, found.provenance, _columns(found.rounds))


def read_runs(runs: Mapping[str, RunFiles]) -> dict[str, Run]:
    """Read every run, by id."""
    return {run: read_run(run, files) for run, files in runs.items()}


def start_of(spec: Mapping[str, Any]) -> str:
    """Name what a run starts from, but for its seed.

    Runs of two methods with the same start and the same seed begin with the same weights and learn
    from the same noisy partition.
    """
    partition = {**spec.get("noisy_partition", {}), "seed": None}
    return identity({"noisy_partition": partition, "model": spec.get("model")})


def setting_of(spec: Mapping[str, Any]) -> str:
    """Name what a run's method is trained on, and for how long.

    Runs of two methods with the same setting have the same noisy partition, network, augmentation,
    rounds, local epochs and participation. They may differ in what a paper tunes for its own
    method: the learning rate, the momentum, the batch size.
    """
    shared = {name: spec.get(name) for name in ("noisy_partition", "model", "augmentation")}
    lengths = ("rounds", "local_epochs", "participation")
    return identity({**shared, **{name: spec["schedule"].get(name) for name in lengths}})


def run_files(folders: Mapping[str, str]) -> dict[str, RunFiles]:
    """The files of each run, by id, of runs whose folders a rule has passed to its script."""
    return {run: RunFiles(Path(folder)) for run, folder in folders.items()}


def described(text: str, folders: Mapping[str, str]) -> tuple[TableDescription, dict[str, Run]]:
    """A table, and its runs by id.

    Args:
        text: the table's description as JSON.
        folders: of its runs by id.
    """
    return TableDescription.from_json(text), read_runs(run_files(folders))


def _columns(table: pa.Table) -> dict[str, np.ndarray]:
    """The numeric columns of a table, and true and false as 1 and 0."""
    return {
        field.name: _numbers(table[field.name].combine_chunks())
        for field in table.schema
        if pa.types.is_integer(field.type)
        or pa.types.is_floating(field.type)
        or pa.types.is_boolean(field.type)
    }


def _numbers(column: pa.Array) -> np.ndarray:
    numbers = np.full(len(column), np.nan)
    numbers[to_numpy(column.is_valid()).astype(bool)] = to_numpy(column.drop_null())
    return numbers
