"""A user's file as a table: columns or arrays by name, which are checked before they are used.

One reader serves the lists of images, of labels and of clients, in every format.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.artifacts import METADATA_KEY
from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.core.text import reason
from noisyfl.data.datasets.images import RawImage
from noisyfl.data.own_columns import (
    MOST_GB,
    MOST_ROWS,
    Check,
    Column,
    NoTexts,
    check_finite,
    check_images,
    check_labels,
    check_numbers,
    check_rows,
    check_texts,
    column_numbers,
    has_lists,
)
from noisyfl.data.pickled_arrays import array_of, load_pt, unpickled

Columns: TypeAlias = tuple[Sequence[str], Callable[[str, Check], Column]]
"""The names of a file's columns or arrays, and what checks and reads one of them."""


class OwnTable:
    """The columns or arrays of a file; a file that is one array has it under ``""``.

    Args:
        path: a .csv, .parquet, .npz, .npy or .pt file.
        option: that names the file, which errors name unless a column's own option is wrong.
        texts: columns of a .csv that are text even if all of it is digits.

    Attributes:
        names: of the columns or arrays, in order; one that is there twice makes no difference
            unless it is read.
        count: of the rows; None if the file has arrays, which need not be columns.
        lists: the columns that have a list in each row.

    Raises:
        BadInput: the file cannot be read, or has no row.
    """

    def __init__(self, path: Path, option: str = "path", texts: Sequence[str] = ()) -> None:
        self.path, self.option = path, option
        self._metadata: Mapping[bytes, bytes] = {}
        self.count: int | None = None
        self.lists: list[str] = []
        openers: dict[str, Callable[[], Columns]] = {
            ".csv": lambda: self._csv(texts),
            ".parquet": self._parquet,
            ".npz": self._npz,
            ".npy": self._npy,
            ".pt": lambda: _of_mapping(load_pt(path)),
        }
        with self._naming(f"cannot read {path}: "):
            self.names, self._read = openers[path.suffix]()
        self._times = Counter(self.names)

    def check(self, name: str, option: str) -> None:
        """Raise :class:`BadInput` unless there is one column of a name."""
        if self._times[name] != 1:
            once = " once" if name in self.names else did_you_mean(name, self.names)
            raise BadInput(
                f"{self.path} has {', '.join(self.names)}, expected {name!r}{once}", option
            )

    def labels(
        self, name: str, option: str | None = None, count: int | None = None
    ) -> list[int | str]:
        """A column of whole numbers or names; numbers become names if the file names them.

        Args:
            option: that gives the column's name; by default the file's.
            count: how many there have to be.

        Raises:
            BadInput: there is no such column, or it holds something else.
        """
        self.check(name, option or self.option)
        with self._naming(f"{self.path}: {name!r} " if name else f"{self.path} ", option):
            values = self._values(name, partial(check_labels, count))
            names = self.class_names(name)
            if not names or isinstance(values[0], str):
                return values
            for row, value in enumerate(values):
                if not 0 <= int(value) < len(names):
                    raise ValueError(f"is {value} in row {row}, expected 0 to {len(names) - 1}")
            return [names[int(value)] for value in values]

    def texts(self, name: str) -> list[str] | None:
        """A column of texts; None if there is none of this name, or it holds something else, such
        as pixels.
        """
        if name not in self.names:
            return None
        with suppress(NoTexts), self._naming(f"{self.path}: {name!r} "):
            return self._values(name, check_texts)
        return None

    def _values(self, name: str, check: Check) -> list[Any]:
        column = self._read(name, check)
        values = column.ravel().tolist() if isinstance(column, np.ndarray) else column.to_pylist()
        if None in values:
            raise ValueError(f"is empty in row {values.index(None)}")
        return list(values)

    def images(self, name: str) -> list[RawImage]:
        """A column of images: paths relative to a .csv, arrays of an .npz, or encoded bytes."""
        if self.path.suffix == ".csv":
            paths = [str(value) for value in self.labels(name, "image")]
            if "" in paths:
                raise BadInput(f"{self.path}: {name!r} is empty in row {paths.index('')}", "image")
            return [self.path.parent / path for path in paths]
        self.check(name, "image")
        with self._naming(f"{self.path}: {name!r} ", "image"):
            column = self._read(name, check_images)
            if isinstance(column, np.ndarray):
                return list(column)
            found: list[RawImage] = []
            for row in column.to_pylist():
                content = row.get("bytes") if isinstance(row, dict) else row
                if not isinstance(content, bytes):
                    raise ValueError(f"has no bytes of an image in row {len(found)}")
                found.append(content)
            return found

    @property
    def index(self) -> list[str]:
        """The columns that pandas has written an index to, which is none of its columns."""
        said = json.loads(self._metadata.get(b"pandas", b"{}"))
        return [name for name in said.get("index_columns", ()) if isinstance(name, str)]

    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """A vector for each row: what the columns have in it, [rows, features].

        Args:
            names: of columns of numbers, or of one column or array of vectors; at least one.

        Raises:
            BadInput: a column is not there, has no numbers, or lacks a value.
        """
        for name in names:
            self.check(name, "features")
        parts: list[np.ndarray] = []
        for name in names:
            with self._naming(f"{self.path}: {name!r} ", "features"):
                column = self._read(name, partial(check_numbers, len(names) == 1))
                numbers = column_numbers(column)
                check_finite(numbers)
                if parts and len(numbers) != len(parts[0]):
                    raise ValueError(f"has {len(numbers):,} rows, {names[0]!r} {len(parts[0]):,}")
                parts.append(numbers)
        return np.column_stack(parts)

    @property
    def dataset(self) -> Any:
        """The dataset in the spec of a noisy partition that this project wrote; None for any other
        file.
        """
        with suppress(ValueError, TypeError, KeyError):
            said = json.loads(self._metadata.get(METADATA_KEY, b"null"))
            return said["spec"]["dataset"]
        return None

    def class_names(self, name: str) -> list[str] | None:
        """The names of the classes by number, as the hub's library writes them next to a column."""
        try:
            said = json.loads(self._metadata.get(b"huggingface", b"{}"))
            for key in ("info", "features", name, "names"):
                said = said.get(key, {})
            if isinstance(said, str) or not all(isinstance(one, str) for one in said):
                raise ValueError(f"they are {said}")
        except Exception as error:
            raise BadInput(
                f"{self.path}: the metadata `huggingface` do not have the classes of {name!r} as "
                f"the hub writes them ({reason(error)})",
                "path",
            ) from error
        return list(said) or None

    @contextmanager
    def _naming(self, where: str, option: str | None = None) -> Iterator[None]:
        """Context manager: an error names the file. Of a broken one, libraries raise almost any."""
        try:
            yield
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"{where}{reason(error)}", option or self.option) from error

    def _csv(self, texts: Sequence[str]) -> Columns:
        with self.path.open("rb") as file:
            if b"\0" in (header := file.readline())[:4]:
                raise ValueError("it is not text in UTF-8, but maybe in UTF-16")
        for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
            if separator in header and b"," not in header:
                raise ValueError(f"its columns are separated by {name}, expected commas")
        options = csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
        table = csv.read_csv(self.path, convert_options=options)
        if table.num_columns == 1:  # whose empty lines are rows without a value
            content = pa.BufferReader(self.path.read_bytes().strip(b"\r\n"))
            lines = csv.ParseOptions(ignore_empty_lines=False)
            # With threads, Arrow aborts a process that ends soon after it.
            alone = csv.ReadOptions(use_threads=False)
            table = csv.read_csv(content, alone, lines, options)
        check_rows(table.num_rows)
        self.count = table.num_rows

        def read(name: str, check: Check) -> Column:
            column = table.column(name)
            check((table.num_rows,), column.type)
            return column

        return table.column_names, read

    def _parquet(self) -> Columns:
        file = pq.ParquetFile(self.path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        check_rows(rows)
        self._metadata = schema.metadata or {}
        self.count = rows
        self.lists = [field.name for field in schema if has_lists(field.type)]

        def read(name: str, check: Check) -> Column:
            check((rows,), schema.field(name).type)
            return file.read([name])[name]

        return schema.names, read

    def _npz(self) -> Columns:
        file = zipfile.ZipFile(self.path)
        members = {name.removesuffix(".npy"): name for name in file.namelist()}

        def read(name: str, check: Check) -> Column:
            with file.open(members[name]) as member:
                return _stored(member, check)

        return list(members), read

    def _npy(self) -> Columns:
        """One array; or a pickled mapping of several, as CIFAR-N's authors distribute them."""
        with self.path.open("rb") as file:
            if _header(file) == ((), np.dtype("O")):
                return _of_mapping(unpickled(file.read()))

        def read(_: str, check: Check) -> Column:
            with self.path.open("rb") as file:
                return _stored(file, check)

        return [""], read


def _of_mapping(arrays: Mapping[str, Any]) -> Columns:
    def read(name: str, check: Check) -> Column:
        array = array_of(arrays[name])
        check(array.shape, array.dtype)
        return array

    return list(arrays), read


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array in a file, which is read up to its content."""
    file.seek(0)
    version = np.lib.format.read_magic(file)
    one, two = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    shape, _, dtype = (one if version == (1, 0) else two)(file)
    return shape, dtype


def _stored(file: IO[bytes], check: Check) -> np.ndarray:
    shape, dtype = _header(file)
    check(shape, dtype)
    if math.prod(shape) * dtype.itemsize > MOST_GB * 1e9 or max(shape, default=0) > MOST_ROWS:
        raise ValueError(f"is {dtype} {shape}, expected at most {MOST_GB} GB, {MOST_ROWS:,} rows")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
