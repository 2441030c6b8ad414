"""The formats that a dataset of one's own may come in: what a file or folder lists, by part.

Images stay what they are, a path, encoded bytes or an array, until somebody decodes them.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.data.datasets.images import Source

TEST_FOLDERS = ("test", "val", "valid", "validation")
"""Names that the folder of the test part may have beside ``train``; the first one is taken."""

SUFFIXES = (".csv", ".npz", ".parquet")


class Columns(NamedTuple):
    """What the columns or arrays are called; ``given`` is None if there are no given labels."""

    image: str
    label: str
    given: str | None


@dataclass(frozen=True)
class Listing:
    """Images and their labels, as a file or folder lists them.

    Attributes:
        place: the file or folder.
        images: in order.
        labels: the number or the name of each one's class.
        given: its given label, likewise; None if there are none.
        classes: names of the classes by number; None if the format does not say them.
        numbers: where each stands in the file or folder, from 0, if some of it are left out.
    """

    place: Path
    images: Sequence[Source]
    labels: Sequence[int | str]
    given: Sequence[int | str] | None = None
    classes: Sequence[str] | None = None
    numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, rows: np.ndarray) -> Listing:
        """Some of the images, by their numbers."""
        return replace(
            self,
            images=[self.images[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            given=None if self.given is None else [self.given[row] for row in rows],
            numbers=rows.tolist(),
        )

    def name(self, row: int) -> str:
        """What an error message calls an image."""
        image = self.images[row]
        number = row if self.numbers is None else self.numbers[row]
        return str(image) if isinstance(image, Path) else f"{self.place}, row {number}"


def list_images(place: Path, columns: Columns) -> dict[str, Listing]:
    """What a file or folder lists, by part: ``train`` and ``test``, or all under ``all``.

    Args:
        place: a folder of images or of Parquet files, a .csv, .npz or .parquet.
        columns: what is to be read.

    Raises:
        BadInput: it cannot be read, or lacks a column or array; the path of the error is the option
            that names what is wrong.
    """
    if place.is_dir():
        if any(place.rglob("*.parquet")):
            return _parquet_folder(place, columns)
        return _image_folders(place, columns)
    readers = {".csv": _csv, ".npz": _npz, ".parquet": _parquet_file}
    if place.suffix not in readers:
        raise BadInput(
            f"got {place.name!r}, expected a folder or a {', '.join(SUFFIXES)} file", "path"
        )
    try:
        return readers[place.suffix](place, columns)
    except BadInput:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise BadInput(f"cannot read {place}: {' '.join(str(error).split())}", "path") from error


def _image_folders(place: Path, columns: Columns) -> dict[str, Listing]:
    if columns.given is not None:
        raise BadInput(
            f"got {columns.given!r}, and a folder of images has no given labels (a .csv can)",
            "given",
        )
    names = {path.name for path in place.iterdir() if path.is_dir()}
    tests = [name for name in TEST_FOLDERS if name in names]
    if tests and "train" in names and names <= {"train", *TEST_FOLDERS}:
        return {
            "train": _image_folder(place / "train"),
            "test": _image_folder(place / tests[0]),
        }
    return {"all": _image_folder(place)}


def _image_folder(place: Path) -> Listing:
    from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, make_dataset

    try:
        classes, numbers = find_classes(str(place))
        found = make_dataset(str(place), numbers, IMG_EXTENSIONS)
    except FileNotFoundError as error:
        reason = str(error).split(" Supported")[0].rstrip(".")
        raise BadInput(
            f"{place}: expected a subfolder of images for each class ({reason})", "path"
        ) from error
    images, labels = [Path(path) for path, _ in found], [classes[label] for _, label in found]
    return Listing(place, images, labels, classes=classes)


def _csv(place: Path, columns: Columns) -> dict[str, Listing]:
    table = csv.read_csv(place)
    if not table.num_rows:
        raise BadInput(f"{place} has no row, expected one for each image", "path")
    image, label, given = _columns(place, table.column_names, columns)
    paths = [place.parent / str(path) for path in _values(place, image, table[image], "image")]
    labels = _values(place, label, table[label], "label")
    others = None if given is None else _values(place, given, table[given], "given")
    return {"all": Listing(place, paths, labels, others)}


def _npz(place: Path, columns: Columns) -> dict[str, Listing]:
    with np.load(place, allow_pickle=False) as file:
        there = dict(file)
    if columns.image in there:
        return {"all": _arrays(place, there, columns)}
    given = columns.given and f"train_{columns.given}"
    train = Columns(f"train_{columns.image}", f"train_{columns.label}", given)
    test = Columns(f"test_{columns.image}", f"test_{columns.label}", None)
    for option, name in (*train._asdict().items(), *test._asdict().items()):
        if name is not None and name not in there:
            either = " and ".join(repr(name) for name in columns if name)
            names = ", ".join(repr(name) for name in (*train, *test) if name)
            raise BadInput(f"{place} has {', '.join(there)}; expected {either}, or {names}", option)
    return {"train": _arrays(place, there, train), "test": _arrays(place, there, test)}


def _arrays(place: Path, there: Mapping[str, np.ndarray], columns: Columns) -> Listing:
    image, label, given = _columns(place, list(there), columns)
    images = there[image]
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[3:] not in _CHANNELS:
        raise BadInput(
            f"{place}: {image!r} is {images.dtype} {images.shape}, expected uint8 [n, height, "
            "width] or with 1 or 3 channels behind",
            "image",
        )
    labels = _label_array(place, label, there[label], len(images), "label")
    others = given and _label_array(place, given, there[given], len(images), "given")
    return Listing(place, list(images), labels, others)


_CHANNELS = ((), (1,), (3,))


def _label_array(
    place: Path, name: str, values: np.ndarray, count: int, option: str
) -> list[int | str]:
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if flat.shape != (count,) or flat.dtype.kind not in "iuU":
        raise BadInput(
            f"{place}: {name!r} is {values.dtype} {values.shape}, expected one name or number of a "
            f"class for each of {count} images",
            option,
        )
    found: list[int | str] = flat.tolist()
    return found


def _parquet_folder(place: Path, columns: Columns) -> dict[str, Listing]:
    files = sorted(place.rglob("*.parquet"))
    within = {path: path.relative_to(place).as_posix() for path in files}
    train = [path for path in files if "train" in within[path]]
    for word in ("test", "valid"):
        test = [path for path in files if word in within[path] and path not in train]
        if train and test:
            without = columns._replace(given=None)
            return {"train": _parquet(train, columns), "test": _parquet(test, without)}
    return {"all": _parquet(files, columns)}


def _parquet_file(place: Path, columns: Columns) -> dict[str, Listing]:
    return {"all": _parquet([place], columns)}


def _parquet(files: list[Path], columns: Columns) -> Listing:
    images: list[Source] = []
    labels: list[int | str] = []
    others: list[int | str] = []
    names: Sequence[str] | None = None
    for path in files:
        try:
            with pq.ParquetFile(path) as file:
                image, label, given = _columns(path, file.schema_arrow.names, columns)
                names = _hub_classes(file.schema_arrow, label) or names
                wanted = [name for name in (image, label, given) if name is not None]
                table = file.read(wanted)
        except (pa.ArrowInvalid, pa.ArrowIOError) as error:
            why = str(error).splitlines()[0]
            raise BadInput(f"{path}: not a whole Parquet file ({why})", "path") from error
        for row, value in enumerate(table[image].to_pylist()):
            content = value.get("bytes") if isinstance(value, dict) else value
            if not isinstance(content, bytes):
                raise BadInput(f"{path}: row {row} of {image!r} has no bytes of an image", "image")
            images.append(content)
        labels += _named(path, label, table[label], names, "label")
        others += [] if given is None else _named(path, given, table[given], names, "given")
    place = files[0] if len(files) == 1 else files[0].parent
    return Listing(place, images, labels, others if columns.given else None, names)


def _hub_classes(schema: pa.Schema, label: str) -> list[str] | None:
    """The names of the classes that the hub's library writes beside the columns."""
    said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    names = said.get("info", {}).get("features", {}).get(label, {}).get("names")
    return names if isinstance(names, list) else None


def _named(
    place: Path, name: str, column: pa.ChunkedArray, names: Sequence[str] | None, option: str
) -> list[int | str]:
    """Labels; numbers as the names that a file says they have."""
    values = _values(place, name, column, option)
    if not names or not all(isinstance(value, int) for value in values):
        return values
    for row, value in enumerate(values):
        if not 0 <= int(value) < len(names):
            raise BadInput(
                f"{place}: row {row} of {name!r} is {value!r}, expected 0 to {len(names) - 1}",
                option,
            )
    return [names[int(value)] for value in values]


def _columns(place: Path, there: Sequence[str], columns: Columns) -> Columns:
    """The columns that are wanted, if the file has them."""
    for option, name in columns._asdict().items():
        if there.count(name) > 1:
            raise BadInput(f"got {name!r}, which {place} has more than once", option)
        if name is not None and name not in there:
            raise BadInput(
                f"got {name!r}{did_you_mean(name, there)} ({place} has {', '.join(there)})", option
            )
    return columns


def _values(place: Path, name: str, column: pa.ChunkedArray, option: str) -> list[int | str]:
    """A column of texts or whole numbers."""
    kind = column.type
    if not (
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ):
        raise BadInput(
            f"{place}: column {name!r} is {kind}, expected text or whole numbers", option
        )
    values: list[Any] = column.to_pylist()
    if None in values:
        raise BadInput(f"{place}: row {values.index(None)} of {name!r} is empty", option)
    return values
