"""Read what probes measured of a run, for figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, RunFiles, read_table
from noisyfl.core.options import BadInput
from noisyfl.data.noisy_partition import NoisyPartition
from noisyfl.specs.spec import identity


def probed_rows(run: str, files: RunFiles, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of ``clients`` in which a probe has left its measurements, by client.

    Args:
        run: the run's id.
        files: the run's files.
        columns: names of the probe's columns; a row without a value in the first is left out.

    Returns:
        One row per client, with its ``client`` and the columns.

    Raises:
        BadInput: nothing was measured: the run's spec does not name the probe, or it diverged.
        DamagedArtifact: the file is damaged, or another run's.
    """
    table, metadata = read_table(files.clients)
    if metadata["run"] != run:
        raise DamagedArtifact(f"{files.clients}: expected the run {run}, found {metadata['run']}")
    rows = []
    if set(columns) <= set(table.column_names):
        rows = table.select(["client", *columns]).to_pylist()
        rows = [row for row in rows if row[columns[0]] is not None]
    if not rows:
        raise BadInput(
            f"{files.clients}: no {columns[0]}, expected a run that finished and whose spec names "
            "the probe that measures it"
        )
    return sorted(rows, key=lambda row: row["client"])


def of_every_client(
    run: str, files: RunFiles, columns: Sequence[str], clients: int
) -> list[dict[str, Any]]:
    """What :func:`probed_rows` finds, checked to be one row for each client.

    Args:
        run: the run's id.
        files: the run's files.
        columns: names of the probe's columns.
        clients: how many clients there are.

    Raises:
        BadInput: a client has no row.
    """
    rows = probed_rows(run, files, columns)
    if [row["client"] for row in rows] != list(range(clients)):
        raise BadInput(f"{files.clients}: {columns[0]} of {len(rows)} clients, expected {clients}")
    return rows


def by_id(partitions: Iterable[NoisyPartition]) -> Mapping[str, NoisyPartition]:
    """Noisy partitions by their ids, as a figure's description refers to them."""
    return {identity(partition.spec): partition for partition in partitions}
