"""Read what probes measured of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisyfl.analysis.runs import Run
from noisyfl.core.options import BadInput
from noisyfl.runs.artifact import read_clients


def probed_rows(
    run: Run, columns: Sequence[str], clients: int | None = None
) -> list[dict[str, Any]]:
    """The rows of ``clients`` in which a probe has left its measurements, by client.

    Args:
        columns: names of the probe's columns; a row without a value in the first is left out.
        clients: how many clients there must be; any number if None.

    Returns:
        One row per client, with its ``client`` and the columns.

    Raises:
        BadInput: nothing was measured, as the run's spec does not name the probe, or it diverged;
            or a client has no row.
        DamagedArtifact: the file is damaged, or another run's.
    """
    table = read_clients(run.id, run.files)
    rows = []
    if set(columns) <= set(table.column_names):
        rows = table.select(["client", *columns]).to_pylist()
        rows = [row for row in rows if row[columns[0]] is not None]
    if not rows:
        raise BadInput(
            f"{run.files.clients}: no {columns[0]}, expected a run that finished and whose spec "
            "names the probe that measures it"
        )
    rows.sort(key=lambda row: row["client"])
    if clients is not None and [row["client"] for row in rows] != list(range(clients)):
        raise BadInput(
            f"{run.files.clients}: {columns[0]} of {len(rows)} clients, expected {clients}"
        )
    return rows
