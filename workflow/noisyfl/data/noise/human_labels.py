"""Files of labels that people gave to a dataset's training images, such as CIFAR-10N's.

CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022) come as ``CIFAR-10_human.pt`` and
``CIFAR-100_human.pt``, and repacked as ``.npz`` or ``.npy``. All formats are read without running
code from the file, which reading a Python pickle could otherwise do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisyfl.core.options import BadInput, did_you_mean, within
from noisyfl.data.datasets.classes import numbers_of
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.validation import ENDING, divided
from noisyfl.data.image_names import COLUMN, SAMPLE, ImageNames
from noisyfl.data.own_table import OwnTable
from noisyfl.data.roots import Roots, each, places_of

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset

SUFFIXES = (".npz", ".npy", ".csv", ".parquet", ".pt")

OFFICIAL = {"cifar10": "CIFAR-10_human", "cifar100": "CIFAR-100_human"}
"""What the files are called, by dataset, as .pt, .npz or .npy."""

REPACKED = "cifar_n_labels.npz"
"""Both datasets' labels in one file."""

PREFIX = {"cifar10": "c10_", "cifar100": "c100_"}
"""The prefix of an array's name, by dataset, in a file with the labels of several datasets."""

FOLDERS = (".", "cifar-n", "cifar10n")
"""Subfolders of a data folder in which these files may lie."""

CLEAN = "clean_label"
"""The name of the array of true labels, by which the order of a file's labels is checked."""

ARRAYS = {
    "cifar10": (
        *(CLEAN, "aggre_label", "worse_label"),
        *("random_label1", "random_label2", "random_label3"),
    ),
    "cifar100": (CLEAN, "noisy_label"),
}
"""The arrays of labels of each dataset's classes; CIFAR-100's file has others of superclasses."""


def labelled(name: str) -> str:
    """The dataset that a dataset's human labels are of: of a validation dataset, the whole one."""
    return name.removesuffix(ENDING)


class LabelsMissing(BadInput):
    """No data folder has the file of human labels."""


def load_columns(
    file: str | None,
    key: str | None,
    dataset: Dataset,
    roots: Roots,
    names: Callable[[], ImageNames | None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels of a file, and the true labels in it, int64 [n]; None if it has none.

    Args:
        file: path within a data folder; None: any known file of the dataset's human labels.
        key: name of the array or column; None if the file is a single array.
        names: of the dataset's images, if they are known, for a file that names images.

    Raises:
        BadInput: there is no such file or key, or its labels are not as many as there are samples,
            or not among the dataset's classes. The path is ``file`` or ``key``.
    """
    if file is None and labelled(dataset.name) != dataset.name:
        whole = DATASETS[labelled(dataset.name)]
        left, _ = divided(whole.train_size)
        of_all, true = load_columns(None, key, whole, roots)
        return of_all[left], None if true is None else true[left]
    path = find_file(file, dataset.name, roots)
    table = OwnTable(path, "file", texts=[COLUMN])
    name = _name(table, key, dataset.with_classes)
    rows, count = _rows(table, names, dataset)
    labels = _numbers(table, name, dataset, rows, count)
    prefix = PREFIX.get(dataset.with_classes, "")
    clean = f"{prefix}{CLEAN}" if prefix and name.startswith(prefix) else CLEAN
    if key and clean in table.names and clean != name:
        return labels, _numbers(table, clean, dataset, rows, count)
    return labels, None


def _rows(
    table: OwnTable, names: Callable[[], ImageNames | None], dataset: Dataset
) -> tuple[np.ndarray | None, int | None]:
    """The row of each training sample, int64 [n], or None if it is the sample's number; and how
    many rows there have to be, or None if there may be more of images that the file names.
    """
    images = table.texts(COLUMN)
    known = names() if dataset.own is not None else None
    with within("file"):
        if known is not None and table.count:
            of_file = known.of_file(table.path, table.count)
            if of_file is not None:
                return known.rows_among(of_file, str(table.path)), None
        if known is not None and images is not None:
            return known.rows_of(images, str(table.path)), None
        size = dataset.task_size if known is None else len(known.rows)
        rows = _numbered(table, size) if SAMPLE in table.names else None
    if known is None:
        return rows, size
    kept = np.flatnonzero(known.rows >= 0)
    return kept if rows is None else rows[kept], size


def _numbered(table: OwnTable, size: int) -> np.ndarray:
    """The row of each sample, int64 [size], by a column of their numbers; :class:`BadInput` unless
    each is there once.
    """
    numbers = table.labels(SAMPLE, "file")
    rows = {number: row for row, number in enumerate(numbers)}
    if len(numbers) != size or rows.keys() != {*range(size)}:
        raise BadInput(
            f"{table.path}: {SAMPLE!r} does not have each number from 0 to {size - 1} once, of the "
            f"{size:,} training samples; an audit's labels.csv has"
        )
    return np.array([rows[number] for number in range(size)])


def check_order(clean: np.ndarray, true: np.ndarray, where: Path | str, dataset: str) -> None:
    """Raise :class:`BadInput` if the true labels of a file are not a dataset's, in its order."""
    if (clean != true).any():
        ordered = (
            " (of CIFAR-N, the files called 'ordered' have the order of TensorFlow Datasets; take "
            "the .pt file)"
        )
        raise BadInput(
            f"{where} has its labels in another order than {dataset}: its {CLEAN!r} differ in "
            f"{int((clean != true).sum()):,} places{ordered if dataset in OFFICIAL else ''}",
            "file",
        )


def find_file(file: str | None, dataset: str, roots: Roots) -> Path:
    """The file of human labels that :func:`load_columns` reads, in the first folder that has it.

    Raises:
        LabelsMissing: there is none. The path is ``file``, as is that of the next.
        BadInput: the file's suffix is not a known one.
    """
    if file is not None and Path(file).suffix not in SUFFIXES:
        raise BadInput(f"got {file!r}, expected a {', '.join(SUFFIXES)} file", "file")
    places = label_files(file, dataset, roots)
    for path in places:
        if path.is_file():
            return path
    if file is not None:
        listed = " or ".join(map(str, places))
        raise LabelsMissing(f"cannot read {listed} (No such file or directory)", "file")
    folders = " or ".join(map(str, each(roots)))
    raise LabelsMissing(
        f"there is none of {', '.join(_known_files(dataset))} in {folders}; the human labels of "
        f"{labelled(dataset)} are given by their authors (Wei et al., ICLR 2022; "
        "https://github.com/UCSC-REAL/cifar-10-100n; CC BY-NC 4.0): put that file there. Only "
        "tables with human labels need it (snakemake --keep-going makes all others)",
        "file",
    )


def label_files(file: str | None, dataset: str, roots: Roots) -> list[Path]:
    """Where :func:`find_file` looks, in this order."""
    if file is not None:
        return places_of(file, roots)
    names = _known_files(dataset)
    return [root / folder / name for root in each(roots) for folder in FOLDERS for name in names]


def _known_files(dataset: str) -> list[str]:
    stem = OFFICIAL[labelled(dataset)]
    return [*(f"{stem}{suffix}" for suffix in (".pt", ".npz", ".npy")), REPACKED]


def digest(labels: np.ndarray) -> str:
    """SHA-256 of labels as little-endian int64, the same for every layout of a file."""
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def _name(table: OwnTable, key: str | None, dataset: str) -> str:
    """The name that the array ``key`` has in a file, with or without the dataset's prefix."""
    official = table.path.stem in OFFICIAL.values() or table.path.name == REPACKED
    if official and dataset in ARRAYS:
        check_key(key, dataset)
    if key is None and table.names == [""]:
        return ""
    for name in (key, f"{PREFIX.get(dataset, '')}{key}"):
        if name in table.names:
            return str(name)
    known = ", ".join(table.names) if table.names != [""] else "only one array, so null"
    raise _no_key(key, table.names, f"in {table.path}: {known}")


def check_key(key: str | None, dataset: str) -> None:
    """Raise :class:`BadInput` unless a dataset's human labels have an array of that name."""
    if key not in ARRAYS[dataset]:
        raise _no_key(key, ARRAYS[dataset], f"{dataset} has {', '.join(ARRAYS[dataset])}")


def _no_key(key: str | None, known: Sequence[str], words: str) -> BadInput:
    nothing = "null, expected the name of an array or column"
    got = nothing if key is None else f"{key!r}{did_you_mean(key, known)}"
    return BadInput(f"got {got} ({words})", "key")


def _numbers(
    table: OwnTable, name: str, dataset: Dataset, rows: np.ndarray | None, count: int | None
) -> np.ndarray:
    """Labels as int64 [n]; :class:`BadInput` if one is no class of the dataset.

    Args:
        rows: see :func:`_rows`, as for ``count``.
    """
    where = f"{table.path}: {name!r}" if name else f"{table.path}"
    labels = table.labels(name, count=count)
    if rows is not None:
        labels = [labels[row] for row in rows]
    with within("file"):
        return numbers_of(
            labels,
            dataset.classes,
            dataset.numbered,
            lambda row: f"{where} gives sample {row} the label",
        )
