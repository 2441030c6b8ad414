"""The file of a user's own partition: which client has which sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.own_table import OwnTable

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset


def read_partition_file(places: Sequence[Path], facts: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The client and the sample of each row, int64 [n] each, sorted by client, then by sample.

    Args:
        places: where the file may be, a .csv or .parquet with the columns client and sample.

    Raises:
        BadInput: there is no such file, a column is missing, a sample is not the dataset's or there
            twice, or a client has no sample.
    """
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise BadInput(f"there is no file {' or '.join(map(str, places))}", "path")
    if path.suffix not in (".csv", ".parquet"):
        raise BadInput(f"got {path.name!r}, expected a .csv or .parquet file", "path")
    table = OwnTable(path)
    client, sample = (_numbers(table, name) for name in ("client", "sample"))
    for wrong, words in (
        (client < 0, "client is negative"),
        (
            (sample < 0) | (sample >= facts.task_size),
            f"sample is none of the {facts.task_size:,} training samples of {facts.name}",
        ),
        (repetitions(sample), "sample is there twice"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BadInput(
                f"{path}, row {row} (client {client[row]}, sample {sample[row]}): its {words}",
                "path",
            )
    clients = np.unique(client)
    if len(lacking := np.flatnonzero(clients != np.arange(len(clients)))):
        raise BadInput(
            f"{path}: client {lacking[0]} has no sample, and client {clients[-1]} has some; "
            f"expected numbers from 0 to {len(clients) - 1} for {len(clients)} clients",
            "path",
        )
    order = np.lexsort((sample, client))
    return client[order], sample[order]


def _numbers(table: OwnTable, name: str) -> np.ndarray:
    values = np.array(table.labels(name))
    if values.dtype.kind != "i":
        raise BadInput(f"{table.path}: {name!r} has names, expected whole numbers", "path")
    return values.astype(np.int64)


def repetitions(samples: np.ndarray) -> np.ndarray:
    """Whether a sample is in an earlier row too, bool [n]."""
    again = np.ones(len(samples), dtype=bool)
    again[np.unique(samples, return_index=True)[1]] = False
    return again
