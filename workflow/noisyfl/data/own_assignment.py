"""Read which client has which sample from a user's own file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.data.own_table import OwnTable
from noisyfl.data.roots import Roots, located


def read_assignment(file: str, roots: Roots, facts: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The client and the sample of each row, int64 [n] each, sorted by client, then by sample.

    Args:
        file: path of a .csv or .parquet in a data folder, with the columns client and sample.

    Raises:
        BadInput: there is no such file, a column is missing, a sample is not the dataset's or there
            twice, or a client has no sample.
    """
    if Path(file).suffix not in (".csv", ".parquet"):
        raise BadInput(f"got {file!r}, expected a .csv or .parquet file", "path")
    table = OwnTable(located(file, roots, "path"))
    columns = {name: np.array(table.labels(name)) for name in ("client", "sample")}
    for name, values in columns.items():
        if values.dtype.kind != "i":
            raise BadInput(f"{table.path}: {name!r} has names, expected whole numbers", "path")
    client, sample = columns.values()
    first_rows = np.unique(sample, return_index=True)[1]
    for wrong, words in (
        (client < 0, "client is negative"),
        (
            (sample < 0) | (sample >= facts.task_size),
            f"sample is none of the {facts.task_size:,} training samples of {facts.title}",
        ),
        (~np.isin(np.arange(len(sample)), first_rows), "sample is there twice"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BadInput(
                f"{table.path}, row {row} (client {client[row]}, sample {sample[row]}): its "
                f"{words}",
                "path",
            )
    clients = np.unique(client)
    if len(lacking := np.flatnonzero(clients != np.arange(len(clients)))):
        raise BadInput(
            f"{table.path}: client {lacking[0]} has no sample, and client {clients[-1]} has some; "
            f"expected numbers from 0 to {len(clients) - 1} for {len(clients)} clients",
            "path",
        )
    order = np.lexsort((sample, client))
    return client[order], sample[order]
