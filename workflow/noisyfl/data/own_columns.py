"""What a column of a user's file must hold: labels, texts, images or numbers.

Each :data:`Check` is made before the column is read, by its shape and type alone; values follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyfl.core.options import BadInput

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


def check_rows(rows: int) -> None:
    """Raise ValueError unless a file has a row, and no more than fit into the memory."""
    if not 0 < rows <= MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows, expected 1 to {MOST_ROWS:,}")


def check_labels(count: int | None, shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of numbers or names: so many of them, or as many as there are."""
    if isinstance(kind, pa.DataType):
        if pa.types.is_binary(kind):
            raise ValueError("holds bytes that are not text in UTF-8")
        fits = has_texts(kind) or pa.types.is_integer(_of_values(kind))
    else:
        fits = kind.kind in "iuU" and kind.itemsize <= LONGEST_NAME
    rows = count or max(shape[:1], default=0)
    if shape not in ((rows,), (rows, 1)) or not fits or not rows:
        raise ValueError(
            f"holds {kind} {shape}, expected whole numbers or names, one for each of {rows:,} rows"
        )


class NoTexts(BadInput):
    """A column does not hold texts."""


def check_texts(shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of texts."""
    texts = has_texts(kind) if isinstance(kind, pa.DataType) else kind.kind == "U"
    if not texts or len(shape) != 1:
        raise NoTexts(f"holds {kind} {shape}, expected texts")


def has_texts(kind: pa.DataType) -> bool:
    """Whether a column of this type has texts, or categories whose names are texts."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(_of_values(kind)) for is_kind in kinds)


def _of_values(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, which categories (of pandas) name by number."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def check_images(shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of pixels; of a column of encoded images there is nothing to be checked."""
    fits = kind == np.uint8 and len(shape) >= 3 and shape[3:] in CHANNELS and 0 not in shape
    if not fits and not isinstance(kind, pa.DataType):
        raise ValueError(
            f"is {kind} {shape}, expected uint8 [n, height, width] or with 1 or 3 channels behind"
        )


def check_numbers(alone: bool, shape: tuple[int, ...], kind: Any) -> None:
    """A :data:`Check` of numbers; a column that is alone may have a vector in each row."""
    most = MOST_GB * 1e9 / 4
    if isinstance(kind, pa.DataType):
        inner = kind.value_type if alone and has_lists(kind) else kind
        fits = any(
            is_kind(inner)
            for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        )
        if has_texts(kind):
            return  # whose first value that is no number is shown
        if has_lists(kind) and not alone:
            raise ValueError("has lists, expected to be the only one of `features`")
    else:
        fits = kind.kind in "iufb" and len(shape) in (1, 1 + alone)
    if not fits or 0 in shape or math.prod(shape) > most:
        raise ValueError(
            f"holds {kind} {shape}, expected numbers, at most {MOST_GB} GB of them"
            + (", or a vector in each row" if alone else "")
        )


def has_lists(kind: pa.DataType) -> bool:
    """Whether a column of this type has a list in each row."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def column_numbers(column: Column) -> np.ndarray:
    """The numbers of a column, [rows], or of its vectors, [rows, features]; NaN where one lacks."""
    if isinstance(column, np.ndarray):
        return column
    if has_texts(column.type):
        values = column.to_pylist()
        row = next((n for n, value in enumerate(values) if not _is_number(value)), 0)
        raise ValueError(
            f"has the text {values[row]!r} in row {row}, expected a number: make a 0/1 column per "
            "value of a text, or leave it out with `without`"
        )
    if not has_lists(column.type):
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


def check_finite(numbers: np.ndarray) -> None:
    """Raise ValueError if a value is not finite as float32."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(numbers.astype(np.float32))
    if not finite.all():
        place = np.argwhere(~finite)[0]
        where = f"row {place[0]}" + (f", feature {place[1]}" if len(place) > 1 else "")
        value = numbers[tuple(place)]
        raise ValueError(f"has {value} in {where}, expected a number of float32")
