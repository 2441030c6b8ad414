"""The formats that a dataset of one's own may come in: what a file or folder lists, by part.

Images stay what they are, a path, encoded bytes or an array, until somebody decodes them.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.data.datasets.folders import Tree, both_parts, hub_part, image_folders, noted, walk
from noisyfl.data.datasets.images import Source, reason
from noisyfl.data.datasets.listing import Columns, Listing

SUFFIXES = (".csv", ".npz", ".parquet")

MOST_GB = 16
"""Gigabytes of all pixels, at most; a run has them in memory."""

MOST_IMAGES = 20_000_000
"""Images in an ``.npz`` or a Parquet file, at most."""


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
        tree = walk(place)
        if any(file.suffix == ".parquet" for file in tree.files):
            return _parquet_folder(place, columns, tree)
        return image_folders(place, columns, tree)
    readers = {".csv": _csv, ".npz": _npz, ".parquet": _parquet_file}
    if place.suffix not in readers or not place.is_file():
        raise BadInput(
            f"got {place.name!r}, expected a folder or a {', '.join(SUFFIXES)} file", "path"
        )
    try:
        return readers[place.suffix](place, columns)
    except BadInput:
        raise
    except Exception as error:  # libraries raise almost any of a broken file
        raise BadInput(f"cannot read {place}: {reason(error)}", "path") from error


def _csv(place: Path, columns: Columns) -> dict[str, Listing]:
    # Names of files such as 0001 are no numbers.
    texts = csv.ConvertOptions(column_types={columns.image: pa.string()})
    table = csv.read_csv(place, convert_options=texts)
    if not table.num_rows:
        raise BadInput(f"{place} has no row, expected one for each image", "path")
    image, label, given = _columns(place, table.column_names, columns)
    paths = [place.parent / str(path) for path in _values(place, image, table[image], "image")]
    labels = _values(place, label, table[label], "label")
    others = None if given is None else _values(place, given, table[given], "given")
    return {"all": Listing(place, paths, labels, others)}


def _npz(place: Path, columns: Columns) -> dict[str, Listing]:
    with zipfile.ZipFile(place) as file:
        there = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
        if columns.image in there:
            return {"all": _arrays(place, file, there, columns)}
        train = _of_part("train", columns, there)
        test = _of_part("test", columns._replace(given=None), there)
        for option, name in (*train._asdict().items(), *test._asdict().items()):
            if name is not None and name not in there:
                either = " and ".join(repr(name) for name in columns if name)
                names = ", ".join(repr(name) for name in (*train, *test) if name)
                raise BadInput(
                    f"{place} has {', '.join(there)}; expected {either}, or {names}", option
                )
        parts = {
            "train": _arrays(place, file, there, train),
            "test": _arrays(place, file, there, test),
        }
    unread = [name for name in there if not name.startswith(("train_", "test_"))]
    notes = [f"of {place.name}, {', '.join(unread)} not read"] if unread else []
    return {**parts, "train": replace(parts["train"], notes=notes)}


def _of_part(part: str, columns: Columns, there: Collection[str]) -> Columns:
    """The arrays of a part: ``train_image``, or ``train_images`` as MedMNIST has it."""

    def name(of: str | None) -> str | None:
        if of is None:
            return None
        plural = f"{part}_{of}s"
        return plural if plural in there else f"{part}_{of}"

    image, label, given = map(name, columns)
    return Columns(str(image), str(label), given)


def _arrays(
    place: Path, file: zipfile.ZipFile, there: dict[str, zipfile.ZipInfo], columns: Columns
) -> Listing:
    """The arrays of a part; what their headers say is checked before they are read."""
    image, label, given = _columns(place, list(there), columns)
    shape, dtype = _header(file, there[image])
    if dtype != np.uint8 or len(shape) not in (3, 4) or shape[3:] not in _CHANNELS or 0 in shape:
        raise BadInput(
            f"{place}: {image!r} is {dtype} {shape}, expected uint8 [n, height, width] or with 1 "
            "or 3 channels behind",
            "image",
        )
    for option, name in (("label", label), ("given", given)):
        if name is not None:
            _check_labels(place, name, _header(file, there[name]), shape[0], option)
    arrays = {}
    for name in (image, label, given):
        if name is None:
            continue
        shape, dtype = _header(file, there[name])
        size = math.prod(shape) * dtype.itemsize
        if size > MOST_GB * 1e9 or shape[0] > MOST_IMAGES:
            raise BadInput(
                f"{place}: {name!r} is {dtype} {shape}, {size / 1e9:.3g} GB, expected at most "
                f"{MOST_GB} GB and {MOST_IMAGES:,} images",
                "path",
            )
        with file.open(there[name]) as member:
            arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    others = given and arrays[given].ravel().tolist()
    return Listing(place, list(arrays[image]), arrays[label].ravel().tolist(), others)


_CHANNELS = ((), (1,), (3,))


def _header(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array, by its header, which may not claim more than there is."""
    with file.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        least = member.tell() + math.prod(shape) * dtype.itemsize
    if info.file_size < least and not dtype.hasobject:
        raise ValueError(
            f"{info.filename} has {info.file_size:,} bytes, and its header says {dtype} {shape}"
        )
    return shape, dtype


def _check_labels(
    place: Path, name: str, header: tuple[tuple[int, ...], np.dtype[Any]], count: int, option: str
) -> None:
    shape, dtype = header
    if shape not in ((count,), (count, 1)) or dtype.kind not in "iuU":
        raise BadInput(
            f"{place}: {name!r} is {dtype} {shape}, expected one name or number of a class for "
            f"each of {count} images",
            option,
        )


def _parquet_folder(place: Path, columns: Columns, tree: Tree) -> dict[str, Listing]:
    """The parts of a folder, by the names that the hub's library looks for in paths: in a file's
    name, or else in those of the folders above it.
    """
    named: dict[str, list[Path]] = defaultdict(list)
    configurations: dict[str, set[str]] = defaultdict(set)
    files = sorted(file for file in tree.files if file.suffix == ".parquet")
    for file in files:
        part, configuration = hub_part(file.relative_to(place))
        named[part].append(file)
        configurations[part].add(configuration)
    others = named.pop("", [])
    both = both_parts(place, named, "Parquet files")
    if both is None and named and others:
        raise BadInput(
            f"{place} has Parquet files for {next(iter(named))} and others, such as {others[0]}, "
            "expected train and test (or validation) in their paths",
            "path",
        )
    for part in both or named:
        if len(several := sorted(configurations[part])) > 1:
            raise BadInput(
                f"{place} has the configurations {', '.join(several)}, expected one: name its "
                "folder in path, or files in path and test",
                "path",
            )
    if both is None:
        parts = {"all": list_parquet(files, columns)}
    else:
        train, test = both
        without = columns._replace(given=None)
        parts = {
            "train": list_parquet(named[train], columns),
            "test": list_parquet(named[test], without),
        }
    left = [part for part in named if both and part not in both]
    unread = [file for file in tree.files if file.suffix != ".parquet"]
    return noted(parts, place, tree, left, unread + (others if both else []))


def _parquet_file(place: Path, columns: Columns) -> dict[str, Listing]:
    return {"all": list_parquet([place], columns)}


def list_parquet(files: list[Path], columns: Columns) -> Listing:
    """The rows of Parquet files, as the hub has them."""
    images: list[Source] = []
    labels: list[int | str] = []
    others: list[int | str] = []
    names: Sequence[str] | None = None
    for path in files:
        try:
            with pq.ParquetFile(path) as file:
                image, label, given = _columns(path, file.schema_arrow.names, columns)
                if file.metadata.num_rows > MOST_IMAGES:
                    raise BadInput(
                        f"{path} has {file.metadata.num_rows:,} rows, expected at most "
                        f"{MOST_IMAGES:,} images",
                        "path",
                    )
                names = _hub_classes(path, file.schema_arrow, label) or names
                names_of_given = given and _hub_classes(path, file.schema_arrow, given)
                wanted = [name for name in (image, label, given) if name is not None]
                table = file.read(wanted)
        except BadInput:
            raise
        except Exception as error:  # pyarrow raises almost any of a broken file
            why = reason(error)
            raise BadInput(f"{path}: not a whole Parquet file ({why})", "path") from error
        for row, value in enumerate(table[image].to_pylist()):
            content = value.get("bytes") if isinstance(value, dict) else value
            if not isinstance(content, bytes):
                raise BadInput(f"{path}: row {row} of {image!r} has no bytes of an image", "image")
            images.append(content)
        labels += _named(path, label, table[label], names, "label")
        if given is not None:
            others += _named(path, given, table[given], names_of_given, "given")
    place = files[0] if len(files) == 1 else files[0].parent
    return Listing(place, images, labels, others if columns.given else None, names)


def _hub_classes(path: Path, schema: pa.Schema, label: str) -> list[str] | None:
    """The names of the classes that the hub's library writes beside the columns."""
    said: Any = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        said = json.loads(said)
        for key in ("info", "features", label, "names"):
            said = said.get(key, {})
        if not all(isinstance(name, str) for name in said):
            raise ValueError(f"they are {said}")
    except Exception as error:
        raise BadInput(
            f"{path}: the metadata `huggingface` do not have the classes of {label!r} as the hub "
            f"writes them ({reason(error)})",
            "path",
        ) from error
    return list(said) or None


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
        if there.count(name) > 1:
            raise BadInput(f"{place} has {name!r} twice, expected it once", option)
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
