"""The file of a partition of one's own: which client has which sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.artifacts import to_numpy
from noisyfl.core.options import BadInput, did_you_mean

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset

COLUMNS = ("client", "sample")


def read_clients(places: Sequence[Path], facts: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The client and the sample of each row, int64 [n] each, sorted by client, then by sample.

    Args:
        places: where the file may lie, a .csv or .parquet with the columns :data:`COLUMNS`.

    Raises:
        BadInput: there is no such file, a column is missing, a sample is not the dataset's or there
            twice, or a client has no sample.
    """
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise BadInput(f"there is no file {' or '.join(map(str, places))}", "path")
    if path.suffix not in (".csv", ".parquet"):
        raise BadInput(f"got {path.name!r}, expected a .csv or .parquet file", "path")
    try:
        if path.suffix == ".parquet" and pq.read_metadata(path).num_rows > facts.task_size:
            raise BadInput(f"{path} has more rows than the {facts.task_size:,} samples", "path")
        table = csv.read_csv(path) if path.suffix == ".csv" else pq.ParquetFile(path).read()
    except BadInput:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {str(error).splitlines()[0]}", "path") from error
    if not table.num_rows:
        raise BadInput(f"{path} has no row, expected one for each sample", "path")
    client, sample = (_numbers(path, table, name) for name in COLUMNS)
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


def _numbers(path: Path, table: pa.Table, name: str) -> np.ndarray:
    if table.column_names.count(name) != 1:
        raise BadInput(
            f"{path} has columns {', '.join(table.column_names)}, expected "
            f"{' and '.join(COLUMNS)}, each once{did_you_mean(name, table.column_names)}",
            "path",
        )
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise BadInput(
            f"{path}: column {name!r} is {column.type} with {column.null_count} empty rows, "
            "expected whole numbers",
            "path",
        )
    return to_numpy(column.combine_chunks()).astype(np.int64)


def repetitions(samples: np.ndarray) -> np.ndarray:
    """Whether a sample stands in an earlier row too, bool [n]."""
    again = np.ones(len(samples), dtype=bool)
    again[np.unique(samples, return_index=True)[1]] = False
    return again
