"""Read which client has which sample from a user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from noisyfl.core.options import BadInput, within
from noisyfl.data.datasets.classes import check_spelling
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.data.datasets.requested import shortened
from noisyfl.data.image_names import COLUMN, SAMPLE, ImageNames
from noisyfl.data.own_table import OwnTable
from noisyfl.data.roots import Roots, located


def read_assignment(
    file: str,
    column: str,
    roots: Roots,
    facts: Dataset,
    names: Callable[[], ImageNames | None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The client and the sample of each row, int64 [n] each, sorted by client, then by sample; and
    the clients' names by number, none if the file has numbers.

    Args:
        file: path of a .csv or .parquet in a data folder, with columns of clients and of samples,
            or of images in their place. A file that the dataset is read from needs neither.
        column: of the clients.
        names: of the dataset's samples, if they are known.

    Raises:
        BadInput: there is no such file, a column is missing, a sample is not the dataset's or there
            twice, or is not the image next to it, or a client has no sample.
    """
    if Path(file).suffix not in (".csv", ".parquet"):
        raise BadInput(f"got {file!r}, expected a .csv or .parquet file", "path")
    table = OwnTable(located(file, roots, "path"), texts=[COLUMN])
    whole = facts.whole if table.dataset != facts.own else None
    size = whole or facts.task_size
    called, client = _clients(table, column)
    rows, sample, kept = _samples(table, len(client), names, facts)
    client = client[rows]
    if not len(client):
        raise BadInput(f"{table.path}: it lists no training sample of {facts.title}", "path")
    first_rows = np.unique(sample, return_index=True)[1]
    for wrong, words in (
        (client < 0, "client is negative"),
        (
            (sample >= size) & (sample < facts.train_size),
            "sample is an open-set image, which some noise has put in the place of a sample",
        ),
        (
            (sample < 0) | (sample >= size),
            f"sample is none of the {size:,} training samples of {facts.title}",
        ),
        (~np.isin(np.arange(len(sample)), first_rows), "sample is there twice"),
    ):
        if wrong.any():
            at = int(np.argmax(wrong))
            one = called[client[at]] if called else client[at]
            raise BadInput(
                f"{table.path}, row {rows[at]} (client {one}, sample {sample[at]}): its {words}",
                "path",
            )
    clients = np.unique(client)
    if called and len(clients) < len(called):
        lacking = np.setdiff1d(np.arange(len(called)), clients)[0]
        raise BadInput(f"{table.path}: client {called[lacking]} has no training sample", "path")
    if len(gaps := np.flatnonzero(clients != np.arange(len(clients)))):
        raise BadInput(
            f"{table.path}: client {gaps[0]} has no sample, and client {clients[-1]} has some; "
            f"expected numbers from 0 to {len(clients) - 1} for {len(clients)} clients, or names",
            "path",
        )
    sample = kept[sample]
    client, sample = client[sample >= 0], sample[sample >= 0]
    if len(lost := np.setdiff1d(clients, client)):
        lacking_all = [called[one] if called else str(one) for one in lost.tolist()]
        raise BadInput(
            f"{table.path}: all samples of client {shortened(lacking_all)} are held out for "
            "validation, expected more samples",
            "path",
        )
    order = np.lexsort((sample, client))
    return client[order], sample[order], called


def _clients(table: OwnTable, column: str) -> tuple[list[str], np.ndarray]:
    """The clients' names in alphabetical order, none if the file has numbers; and the client of
    each row, int64 [rows].
    """
    values = table.labels(column, "column")
    if not isinstance(values[0], str):
        return [], _numbers(table, column)
    names, client = np.unique(np.array(values), return_inverse=True)
    with within("column"):
        check_spelling(names.tolist(), "client")
    if not names[0].strip():
        row = int(np.flatnonzero(client == 0)[0])
        raise BadInput(f"{table.path}: {column!r} is empty in row {row}", "column")
    return names.tolist(), client.astype(np.int64)


def _samples(
    table: OwnTable, count: int, names: Callable[[], ImageNames | None], facts: Dataset
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of training samples, int64 [n], and the sample of each, int64 [n]; and which sample
    each of the samples is that the file counts, -1 for those that are held out for validation.
    """
    known = names() if facts.own is not None else None
    kept = np.arange(facts.train_size)
    if known is not None and table.dataset != facts.own:
        kept = known.rows
    with within("path"):
        of_file = None if known is None else known.of_file(table.path, count)
    if of_file is not None:
        return np.flatnonzero(of_file >= 0), of_file[of_file >= 0], kept
    images = table.texts(COLUMN)
    if known is not None and images is not None and SAMPLE not in table.names:
        with within("path"):
            found = known.samples(images, str(table.path))
        return np.flatnonzero(found >= 0), found[found >= 0], kept
    sample = _numbers(table, SAMPLE)
    if known is not None and images is not None:
        for row, (number, image) in enumerate(zip(sample, images, strict=True)):
            if 0 <= number < len(kept) and not known.fits(number, image):
                raise BadInput(
                    f"{table.path}, row {row}: sample {number} is {known.name(number)}, and "
                    f"{COLUMN!r} has {image!r}",
                    "path",
                )
    return np.arange(len(sample)), sample, kept


def _numbers(table: OwnTable, name: str) -> np.ndarray:
    values = np.array(table.labels(name))
    if values.dtype.kind != "i":
        kind = "names" if values.dtype.kind in "US" else "numbers that are too large"
        raise BadInput(f"{table.path}: {name!r} has {kind}, expected whole numbers", "path")
    return values
