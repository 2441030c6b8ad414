"""The arrays in files of labels. No file can run code, or make an array of Python objects.

A pickled dtype has a state that can declare that a dtype of objects holds none, so that bytes of
the file become pointers. So this state is never given to NumPy: what a pickle names is replaced by
the classes of this module, which build arrays of whole numbers only.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from pyarrow import csv

from noisyfl.core.artifacts import why_not_loaded
from noisyfl.core.options import BadInput

KINDS = "iuU"
"""The kinds of dtypes that labels may have: whole numbers and names."""

LONGEST_NAME = 400
"""Bytes of the longest name of a class in an array: a hundred characters."""

LONGEST_HEADER = 2**16
"""Bytes that are enough for the header of an ``.npy`` file."""


class LabelArrays(Mapping[str, Any]):
    """The arrays or columns of a file by name; a file that is one array has it under ``""``.

    An array of an ``.npz`` file is read when it is asked for.

    Args:
        path: an .npz, .npy, .csv or .pt file.
        samples: how many labels an array has.

    Raises:
        BadInput: the file cannot be read. The path is ``file``, as it is if an array that is asked
            for is not one of ``samples`` whole numbers.
    """

    def __init__(self, path: Path, samples: int) -> None:
        self.path, self.samples = path, samples
        readers = {".npz": self._npz, ".npy": self._npy, ".csv": self._csv, ".pt": self._pt}
        with self._naming():
            self.content: Mapping[str, Any] = readers[path.suffix]()

    def __getitem__(self, name: str) -> np.ndarray:
        with self._naming(name):
            value = self.content[name]
            if isinstance(value, zipfile.ZipInfo):
                with zipfile.ZipFile(self.path) as file, file.open(value) as member:
                    return self._array(member)
            return self._checked(value)

    def __contains__(self, name: object) -> bool:
        return name in self.content

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    @contextmanager
    def _naming(self, name: str = "") -> Iterator[None]:
        """Context manager: an error names the file, and the array."""
        where = f"{self.path}: {name!r}" if name else f"{self.path}"
        try:
            yield
        except _NotLabels as error:
            raise BadInput(f"{where} {error}", "file") from error
        # Of a broken file, libraries raise almost any exception; MemoryError too, for a header.
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise BadInput(f"cannot read {where}: {why}", "file") from error

    def _npz(self) -> Mapping[str, Any]:
        with zipfile.ZipFile(self.path) as file:
            return {info.filename.removesuffix(".npy"): info for info in file.infolist()}

    def _csv(self) -> Mapping[str, Any]:
        table = csv.read_csv(self.path)
        twice = [name for name, count in Counter(table.column_names).items() if count > 1]
        if twice:
            raise ValueError(f"it has the column {twice[0]!r} more than once")
        if not table.num_rows:
            raise ValueError("it has no row, expected one for each training sample")
        # A list of names becomes an array of text, not of objects.
        return {name: table[name].to_pylist() for name in table.column_names}

    def _npy(self) -> Mapping[str, Any]:
        """One array; or a pickled mapping of several, as CIFAR-N's authors distribute them."""
        content = io.BytesIO(self.path.read_bytes())
        shape, dtype = _header(content)
        if dtype.kind != "O":
            content.seek(0)
            return {"": self._array(content)}
        found = _Unpickler(content).load()
        if shape != () or not isinstance(found, _Array):
            raise ValueError(f"it holds Python objects of shape {shape}, expected a mapping")
        (mapping,) = found.state[-1]
        return _mapping(mapping)

    def _pt(self) -> Mapping[str, Any]:
        import torch

        if zipfile.is_zipfile(self.path):
            with zipfile.ZipFile(self.path) as file:
                if any(info.compress_type != zipfile.ZIP_STORED for info in file.infolist()):
                    raise ValueError("it is compressed, which torch.save never does")
        with torch.serialization.safe_globals([(made, name) for name, made in _NAMES.items()]):
            try:
                content = torch.load(self.path, map_location="cpu", weights_only=True)
            except Exception as error:
                raise ValueError(why_not_loaded(error)) from error
        return _mapping(content)

    def _array(self, file: IO[bytes]) -> np.ndarray:
        """The array of an ``.npy`` file, whose header is checked before memory is allocated."""
        content = io.BytesIO(file.read(LONGEST_HEADER + LONGEST_NAME * self.samples))
        shape, dtype = _header(content)
        self._check(shape, dtype)
        return np.frombuffer(content.read(self.samples * dtype.itemsize), dtype).reshape(shape)

    def _checked(self, value: Any) -> np.ndarray:
        import torch

        if isinstance(value, _Array):
            value = value.array()
        elif isinstance(value, torch.Tensor) and (
            value.layout != torch.strided or value.is_nested or value.device.type != "cpu"
        ):
            raise _NotLabels(
                f"is a tensor of layout {value.layout} on device {value.device}, expected a dense "
                "one on the CPU"
            )
        elif isinstance(value, torch.Tensor):
            if value.dtype.is_floating_point or value.dtype.is_complex:
                self._fail(tuple(value.shape), value.dtype)
            value = value.resolve_neg().numpy()
        elif not isinstance(value, np.ndarray | list):
            raise _NotLabels(f"is a {type(value).__name__}, expected an array, a tensor or a list")
        found = np.asarray(value)
        self._check(found.shape, found.dtype)
        return found

    def _check(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        fits = dtype.kind in KINDS and dtype.itemsize <= LONGEST_NAME
        if shape != (self.samples,) or not fits:
            self._fail(shape, dtype)

    def _fail(self, shape: tuple[int, ...], dtype: Any) -> NoReturn:
        raise _NotLabels(
            f"holds {dtype} {shape}, expected whole numbers or names, one for each of the "
            f"{self.samples} training samples"
        )


class _NotLabels(ValueError):
    """An array is none of labels."""


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and the dtype in the header of an ``.npy`` file."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it has version {version} of the format, expected (1, 0) or (2, 0)")
    one, two = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    shape, _, dtype = (one if version == (1, 0) else two)(file)
    return shape, dtype


def _mapping(content: Any) -> Mapping[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"it holds a {type(content).__name__}, expected a mapping of arrays")
    return content


class _Dtype:
    """In the place of ``numpy.dtype``: one of whole numbers, of which the state is not used."""

    def __init__(self, name: str, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype:
        order = getattr(self, "order", "|")
        if not re.fullmatch(r"[iu][1248]", self.name) or order not in ("<", ">", "|", "="):
            raise _NotLabels(f"is an array of dtype {order}{self.name}, expected whole numbers")
        return np.dtype(order + self.name)


class _Array:
    """In the place of ``numpy.ndarray`` and of what builds one."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        _, shape, kind, fortran, content = self.state
        if not isinstance(kind, _Dtype) or not isinstance(content, bytes):
            raise _NotLabels("is an array of Python objects, expected one of whole numbers")
        return np.frombuffer(content, kind.dtype()).reshape(shape, order="F" if fortran else "C")


def _encode(text: str, encoding: str) -> bytes:
    """In the place of ``_codecs.encode``, by which older pickles hold bytes."""
    return text.encode({"latin1": "latin1"}[encoding])


_NAMES: Mapping[str, Any] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": _Array,
    "numpy._core.multiarray._reconstruct": _Array,
    "_codecs.encode": _encode,
}
"""The only names that a pickle of arrays may refer to, and what replaces each."""


class _Unpickler(pickle._Unpickler):
    """Reads pickles of arrays and plain Python values, and rejects all that could do more.

    It is Python's own: C's allocates as many places as a file says that it needs.
    """

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _NAMES:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not an array's")
        return _NAMES[f"{module}.{name}"]
