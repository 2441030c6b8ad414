"""What a run found of each sample's label, as its file ``labels.parquet`` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch

from noisyfl.core.artifacts import DamagedArtifact, RunFiles, read_table
from noisyfl.core.options import BadInput
from noisyfl.simulation.clients import Client
from noisyfl.simulation.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

LABELS_REVISION = 2
"""Increased if the same run would keep something else."""

COLUMNS = {
    "client": pa.int64(),
    "sample": pa.int64(),
    "given_label": pa.int64(),
    "given_probability": pa.float32(),
    "suggested_label": pa.int64(),
    "suggested_probability": pa.float32(),
    "other_label": pa.int64(),
    "other_probability": pa.float32(),
    "in_sample": pa.bool_(),
    "models": pa.int64(),
    "judged": pa.int64(),
    "selected": pa.int64(),
    "last_selected": pa.int64(),
    "judged_in": pa.int64(),
    "learnt_label": pa.int64(),
    "relabelled_in": pa.int64(),
}
"""The columns, one row per sample; docs/artifacts.md says what they mean."""


def labels_table(clients: list[Client], ledger: Ledger) -> pa.Table:
    """The table of a run whose rounds are done."""
    found = {name: value.numpy() for name, value in ledger.state.items()}
    given = torch.cat([client.given.cpu() for client in clients]).numpy()
    rows = np.arange(len(given))
    probability = found["probability"] / np.maximum(found["looks"], 1)[:, None]
    suggested = probability.argmax(1)
    others = probability.copy()
    others[rows, given] = -1
    other = others.argmax(1)
    columns = {
        **found,
        "client": np.repeat([client.id for client in clients], ledger.sizes),
        "sample": torch.cat([client.rows.cpu() for client in clients]).numpy(),
        "given_label": given,
        "given_probability": probability[rows, given],
        "suggested_label": suggested,
        "suggested_probability": probability[rows, suggested],
        "other_label": other,
        "other_probability": probability[rows, other],
        "in_sample": found["in_sample"].astype(bool),
        "models": found["looks"],
        "learnt_label": found["label"],
    }
    return pa.table({name: pa.array(columns[name], kind) for name, kind in COLUMNS.items()})


def has_labels(run: str, files: RunFiles) -> bool:
    """Whether the rows of a run's samples are there, as this version keeps them."""
    try:
        read_labels(run, files)
    except (BadInput, DamagedArtifact):
        return False
    return True


def read_labels(run: str, files: RunFiles) -> pd.DataFrame:
    """The rows of a run's samples.

    Raises:
        BadInput: the run has not kept them.
        DamagedArtifact: the file is damaged, or another run's.
    """
    if not files.labels.exists():
        raise BadInput(
            f"{files.labels}: no labels were saved; a run saves them with --keep-labels, or "
            "keep_labels: true in its scale, unless it diverges"
        )
    table, metadata = read_table(files.labels)
    if metadata.get("run") != run or table.schema.names != list(COLUMNS):
        raise DamagedArtifact(f"{files.labels}: not the labels of the run {run}")
    if (revision := metadata.get("revision", 1)) != LABELS_REVISION:
        raise DamagedArtifact(
            f"{files.labels}: got revision {revision}, expected revision "
            f"{LABELS_REVISION}; train the run again with --keep-labels"
        )
    found = table.to_pandas()
    # 1 - p of a float32 is 1 for any p below 6e-8, and the most suspicious labels would be equal.
    return found.astype({name: float for name in COLUMNS if name.endswith("probability")})
