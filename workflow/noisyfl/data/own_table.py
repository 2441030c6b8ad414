"""A user's file as a table: columns or arrays by name, which are checked before they are read.

One reader serves the lists of images, of labels and of clients, in every format.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.data.datasets.images import RawImage, reason
from noisyfl.data.pickled_arrays import PickledArray, load_pt, unpickled

MOST_GB = 16
"""Gigabytes of all pixels, at most; a run has them in memory."""

MOST_ROWS = 20_000_000
"""Rows of a table, at most, unless its reader expects fewer."""

LONGEST_NAME = 400
"""Bytes of the longest name of a class in an array: a hundred characters."""

LONGEST_HEADER = 2**16
"""Bytes that are enough for the header of an ``.npy`` file."""

CHANNELS = ((), (1,), (3,))


class OwnTable:
    """The columns or arrays of a file; a file that is one array has it under ``""``.

    Args:
        path: a .csv, .parquet, .npz, .npy or .pt file.
        option: that names the file, which errors name unless a column's own option is wrong.
        texts: columns of a .csv that are text even if all of it is digits.
        most: rows that it may have.

    Attributes:
        names: of the columns or arrays, in order; one that is there twice makes no difference
            unless it is read.

    Raises:
        BadInput: the file cannot be read, or has no row.
    """

    def __init__(
        self, path: Path, option: str = "path", texts: Sequence[str] = (), most: int = MOST_ROWS
    ) -> None:
        self.path, self.option, self.texts, self.most = path, option, texts, most
        readers = {".npz": self._npz, ".npy": self._npy, ".pt": lambda: load_pt(path)}
        with self._naming(f"cannot read {path}: "):
            content: Mapping[str, Any] = {}
            if path.suffix in readers:
                content = readers[path.suffix]()
                self.names = list(content)
            else:
                content = self._columns()
        self._content = content

    def check(self, name: str, option: str) -> None:
        """Raise :class:`BadInput` unless there is one column of a name.

        Args:
            option: that gives the name.
        """
        if self.names.count(name) != 1:
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
            values = self._values(name, count)
            names = self.class_names(name)
            if not names or not all(isinstance(value, int) for value in values):
                return values
            for row, value in enumerate(values):
                if not 0 <= int(value) < len(names):
                    raise ValueError(f"is {value} in row {row}, expected 0 to {len(names) - 1}")
            return [names[int(value)] for value in values]

    def images(self, name: str) -> list[RawImage]:
        """A column of images: paths relative to a .csv, arrays of an .npz, or encoded bytes."""
        self.check(name, "image")
        if self.path.suffix == ".csv":
            return [self.path.parent / str(value) for value in self.labels(name, "image")]
        with self._naming(f"{self.path}: {name!r} ", "image"):
            value = self._content[name]
            if isinstance(value, _StoredArray):
                shape, dtype = value.header()
                fits = len(shape) in (3, 4) and shape[3:] in CHANNELS and 0 not in shape
                if dtype != np.uint8 or not fits:
                    raise ValueError(
                        f"is {dtype} {shape}, expected uint8 [n, height, width] or with 1 or 3 "
                        "channels behind"
                    )
                if math.prod(shape) > MOST_GB * 1e9 or shape[0] > self.most:
                    raise ValueError(
                        f"is {dtype} {shape}, expected at most {MOST_GB} GB and {self.most:,} "
                        "images"
                    )
                return list(value.read())
            rows = self._column(name).to_pylist()
            found: list[RawImage] = []
            for row in rows:
                content = row.get("bytes") if isinstance(row, dict) else row
                if not isinstance(content, bytes):
                    raise ValueError(f"has no bytes of an image in row {len(found)}")
                found.append(content)
            return found

    def class_names(self, name: str) -> list[str] | None:
        """The names of the classes by number, as the hub's library writes them next to a column."""
        if self.path.suffix != ".parquet":
            return None
        try:
            said = json.loads(self._said or b"{}")
            for key in ("info", "features", name, "names"):
                said = said.get(key, {})
            if not all(isinstance(one, str) for one in said):
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

    def _columns(self) -> Mapping[str, Any]:
        if self.path.suffix == ".csv":
            texts = csv.ConvertOptions(column_types=dict.fromkeys(self.texts, pa.string()))
            table = csv.read_csv(self.path, convert_options=texts)
            self.names, rows = table.column_names, table.num_rows
            content = dict(zip(self.names, table.columns, strict=True))
        else:
            with pq.ParquetFile(self.path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
            self.names, content = schema.names, dict.fromkeys(schema.names)
            self._said = (schema.metadata or {}).get(b"huggingface")
        if not 0 < rows <= self.most:
            raise ValueError(f"it has {rows:,} rows, expected 1 to {self.most:,}")
        return content

    def _npz(self) -> Mapping[str, Any]:
        @contextmanager
        def stored(info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
            with zipfile.ZipFile(self.path) as file, file.open(info) as member:
                yield member

        with zipfile.ZipFile(self.path) as file:
            return {
                info.filename.removesuffix(".npy"): _StoredArray(
                    partial(stored, info), info.file_size
                )
                for info in file.infolist()
            }

    def _npy(self) -> Mapping[str, Any]:
        """One array; or a pickled mapping of several, as CIFAR-N's authors distribute them."""
        array = _StoredArray(lambda: self.path.open("rb"), self.path.stat().st_size)
        shape, dtype = array.header()
        if dtype.kind != "O":
            return {"": array}
        if shape != ():
            raise ValueError(f"it holds Python objects of shape {shape}, expected a mapping")
        return unpickled(self.path.read_bytes()[array.begin() :])

    def _column(self, name: str) -> pa.ChunkedArray:
        if self.path.suffix == ".csv":
            return self._content[name]
        with pq.ParquetFile(self.path) as file:
            return file.read([name])[name]

    def _values(self, name: str, count: int | None) -> list[int | str]:
        if self.path.suffix in (".csv", ".parquet"):
            column = self._column(name)
            kind = column.type
            texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            dtype = np.dtype("U1") if texts else np.dtype("O")
            dtype = np.dtype("i8") if pa.types.is_integer(kind) else dtype
            _check((len(column),), dtype, count or len(column), kind)
            values = column.to_pylist()
            if None in values:
                raise ValueError(f"is empty in row {values.index(None)}")
            return values
        value = self._content[name]
        if isinstance(value, _StoredArray):
            shape, dtype = value.header()
            _check(shape, dtype, self._rows(shape, count))
            return value.read().ravel().tolist()
        array = value.array() if isinstance(value, PickledArray) else _of_torch(value)
        _check(array.shape, array.dtype, self._rows(array.shape, count))
        return array.ravel().tolist()

    def _rows(self, shape: tuple[int, ...], count: int | None) -> int:
        return min(shape[0], self.most) if count is None and shape else count or 0


class _StoredArray(NamedTuple):
    """An array in a file, of which the header is checked before memory is allocated."""

    open: Callable[[], AbstractContextManager[IO[bytes]]]
    size: int

    def _head(self) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        with self.open() as file:
            content = io.BytesIO(file.read(LONGEST_HEADER))
        version = np.lib.format.read_magic(content)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"has version {version} of the format, expected (1, 0) or (2, 0)")
        one, two = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
        shape, _, dtype = (one if version == (1, 0) else two)(content)
        return shape, dtype, content.tell()

    def begin(self) -> int:
        """Where the content begins."""
        return self._head()[2]

    def header(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype, which may not claim more than there is."""
        shape, dtype, begin = self._head()
        if self.size < begin + math.prod(shape) * dtype.itemsize and not dtype.hasobject:
            raise ValueError(f"has {self.size:,} bytes, and its header says {dtype} {shape}")
        return shape, dtype

    def read(self) -> np.ndarray:
        with self.open() as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _check(shape: tuple[int, ...], dtype: np.dtype, count: int, kind: Any = None) -> None:
    """Raise ValueError unless an array has a whole number or a name for each of some rows."""
    fits = dtype.kind in "iuU" and dtype.itemsize <= LONGEST_NAME
    if shape not in ((count,), (count, 1)) or not fits:
        raise ValueError(
            f"holds {kind or dtype} {shape}, expected whole numbers or names of classes, "
            f"one for each of {count:,} rows"
        )


def _of_torch(value: Any) -> np.ndarray:
    """A tensor or a list, as an array."""
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_nested or value.device.type != "cpu":
            raise ValueError(
                f"is a tensor of layout {value.layout} on device {value.device}, expected a dense "
                "one on the CPU"
            )
        if value.dtype.is_floating_point or value.dtype.is_complex:
            raise ValueError(f"holds {value.dtype}, expected whole numbers or names")
        return value.resolve_neg().numpy()
    if not isinstance(value, np.ndarray | list):
        raise ValueError(f"is a {type(value).__name__}, expected an array, a tensor or a list")
    return np.asarray(value)
