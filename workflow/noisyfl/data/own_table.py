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
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.artifacts import METADATA_KEY
from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.core.text import reason
from noisyfl.data.datasets.images import RawImage
from noisyfl.data.pickled_arrays import array_of, load_pt, unpickled

MOST_GB = 16
"""Gigabytes of all pixels, at most; a run has them in memory."""

MOST_ROWS = 20_000_000

LONGEST_NAME = 400
"""Bytes of the longest name of a class in an array: a hundred characters."""

CHANNELS = ((), (1,), (3,))

Column: TypeAlias = "np.ndarray | pa.ChunkedArray"
Check: TypeAlias = Callable[[tuple[int, ...], Any], None]
"""Raises ValueError unless a column of this shape and type can be used; called before it is read,
since a few bytes of a file can claim, or unpack to, more than fits into the memory."""

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
            if self.path.suffix == ".csv" and len(self.names) == 1:
                once += "; commas separate columns"
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
            values = self._values(name, partial(_check_labels, count))
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
        with suppress(_NoTexts), self._naming(f"{self.path}: {name!r} "):
            return self._values(name, _check_texts)
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
            column = self._read(name, _check_images)
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
                column = self._read(name, partial(_check_numbers, len(names) == 1))
                numbers = _numbers(column)
                _check_values(numbers)
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
        _check_rows(table.num_rows)
        self.count = table.num_rows

        def read(name: str, check: Check) -> Column:
            column = table.column(name)
            check((table.num_rows,), column.type)
            return column

        return table.column_names, read

    def _parquet(self) -> Columns:
        file = pq.ParquetFile(self.path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
        _check_rows(rows)
        self._metadata = schema.metadata or {}
        self.count = rows
        self.lists = [field.name for field in schema if _is_list(field.type)]

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


def _check_rows(rows: int) -> None:
    if not 0 < rows <= MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows, expected 1 to {MOST_ROWS:,}")


def _check_labels(count: int | None, shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of numbers or names: so many of them, or as many as there are."""
    if isinstance(kind, pa.DataType):
        if pa.types.is_binary(kind):
            raise ValueError("holds bytes that are not text in UTF-8")
        fits = _is_text(kind) or pa.types.is_integer(_of_values(kind))
    else:
        fits = kind.kind in "iuU" and kind.itemsize <= LONGEST_NAME
    rows = count or max(shape[:1], default=0)
    if shape not in ((rows,), (rows, 1)) or not fits or not rows:
        raise ValueError(
            f"holds {kind} {shape}, expected whole numbers or names, one for each of {rows:,} rows"
        )


class _NoTexts(BadInput):
    """A column does not hold texts."""


def _check_texts(shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of texts."""
    texts = _is_text(kind) if isinstance(kind, pa.DataType) else kind.kind == "U"
    if not texts or len(shape) != 1:
        raise _NoTexts(f"holds {kind} {shape}, expected texts")


def _is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(_of_values(kind)) for is_kind in kinds)


def _of_values(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, which categories (of pandas) name by number."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _check_images(shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of pixels; of a column of encoded images there is nothing to be checked."""
    fits = kind == np.uint8 and len(shape) >= 3 and shape[3:] in CHANNELS and 0 not in shape
    if not fits and not isinstance(kind, pa.DataType):
        raise ValueError(
            f"is {kind} {shape}, expected uint8 [n, height, width] or with 1 or 3 channels behind"
        )


def _check_numbers(alone: bool, shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of numbers; a column that is alone may have a vector in each row."""
    most = MOST_GB * 1e9 / 4
    if isinstance(kind, pa.DataType):
        inner = kind.value_type if alone and _is_list(kind) else kind
        fits = any(
            is_kind(inner)
            for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        )
        if _is_text(kind):
            return  # whose first value that is no number is shown
        if _is_list(kind) and not alone:
            raise ValueError("has lists, expected to be the only one of `features`")
    else:
        fits = kind.kind in "iufb" and len(shape) in (1, 1 + alone)
    if not fits or 0 in shape or math.prod(shape) > most:
        raise ValueError(
            f"holds {kind} {shape}, expected numbers, at most {MOST_GB} GB of them"
            + (", or a vector in each row" if alone else "")
        )


def _is_list(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def _numbers(column: Column) -> np.ndarray:
    """The numbers of a column, [rows], or of its vectors, [rows, features]; NaN where one lacks."""
    if isinstance(column, np.ndarray):
        return column
    if _is_text(column.type):
        values = column.to_pylist()
        row = next((n for n, value in enumerate(values) if not _is_number(value)), 0)
        raise ValueError(
            f"has the text {values[row]!r} in row {row}, expected a number: make a 0/1 column per "
            "value of a text, or leave it out with `without`"
        )
    if not _is_list(column.type):
        return np.asarray(column.to_numpy())
    if column.null_count:
        raise ValueError(f"is empty in row {column.is_null().to_pylist().index(True)}")
    lengths = np.unique(pc.list_value_length(column).to_numpy())
    if len(lengths) > 1 or not lengths[0]:
        raise ValueError(
            f"has vectors of {lengths[0]} to {lengths[-1]} numbers, expected one size, 1 or more"
        )
    return np.asarray(pc.list_flatten(column).to_pandas()).reshape(len(column), int(lengths[0]))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in value  # which Python allows between digits


def _check_values(numbers: np.ndarray) -> None:
    """Raise ValueError if a value is not finite as float32."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(numbers.astype(np.float32))
    if not finite.all():
        place = np.argwhere(~finite)[0]
        where = f"row {place[0]}" + (f", feature {place[1]}" if len(place) > 1 else "")
        value = numbers[tuple(place)]
        raise ValueError(f"has {value} in {where}, expected a number of float32")
