"""Arrays of whole numbers from pickles and from torch's files, of which none can run code.

A pickled dtype has a state that can declare that a dtype of objects holds none, so that bytes of
the file become pointers. So this state is never given to NumPy: what a pickle names is replaced by
the classes of this module, which build arrays of whole numbers only.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.core.artifacts import why_not_loaded


def load_pt(path: Path) -> Mapping[str, Any]:
    """The mapping of arrays, tensors and lists in a ``.pt`` file."""
    import torch

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            if any(info.compress_type != zipfile.ZIP_STORED for info in file.infolist()):
                raise ValueError("it is compressed, which torch.save never does")
    with torch.serialization.safe_globals([(made, name) for name, made in _NAMES.items()]):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ValueError(why_not_loaded(error)) from error
    return _mapping(content)


def unpickled(content: bytes) -> Mapping[str, Any]:
    """The mapping that the pickle of an array of one object holds."""
    found = _Unpickler(io.BytesIO(content)).load()
    if not isinstance(found, PickledArray):
        raise ValueError(f"it holds a {type(found).__name__}, expected a mapping of arrays")
    (mapping,) = found.state[-1]
    return _mapping(mapping)


def array_of(value: Any) -> np.ndarray:
    """An array, tensor or list of such a mapping as an array; else almost any error."""
    return value.array() if isinstance(value, PickledArray) else np.asarray(value)


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
            raise ValueError(f"is an array of dtype {order}{self.name}, expected whole numbers")
        return np.dtype(order + self.name)


class PickledArray:
    """In the place of ``numpy.ndarray`` and of what builds one."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> np.ndarray:
        """The array, if it is one of whole numbers; else ValueError or another error."""
        _, shape, kind, fortran, content = self.state
        if not isinstance(kind, _Dtype) or not isinstance(content, bytes):
            raise ValueError("is an array of Python objects, expected one of whole numbers")
        return np.frombuffer(content, kind.dtype()).reshape(shape, order="F" if fortran else "C")


def _encode(text: str, encoding: str) -> bytes:
    """In the place of ``_codecs.encode``, by which older pickles hold bytes."""
    return text.encode({"latin1": "latin1"}[encoding])


_NAMES: Mapping[str, Any] = {
    "numpy.ndarray": PickledArray,
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": PickledArray,
    "numpy._core.multiarray._reconstruct": PickledArray,
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
