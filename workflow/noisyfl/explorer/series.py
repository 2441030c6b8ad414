"""Series of numbers as short texts, which the browser reads only when they are needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

POINTS = 200
"""The most points of a curve; a longer one is thinned evenly, and keeps its first and last."""

Packed = list[str]
"""A curve as two texts, for x and for y: the :func:`steps` between consecutive values."""


def pack(x: np.ndarray, y: np.ndarray) -> Packed:
    """Pack a curve into texts, rounded to hundredths.

    Args:
        x: float64 [values].
        y: float64 [values], without NaN.
    """
    if len(x) > POINTS:
        kept = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
        x, y = x[kept], y[kept]
    return [steps(x), steps(y)]


def steps(values: np.ndarray) -> str:
    """The differences of consecutive values in whole hundredths, the first from 0, as text."""
    whole = np.rint(100 * np.asarray(values, dtype=float)).astype(int)
    return ",".join(map(str, np.diff(whole, prepend=0).tolist()))


def whole(values: Sequence[int] | np.ndarray) -> str:
    """Whole numbers separated by commas; zeros are written as empty texts."""
    return ",".join("" if value == 0 else str(value) for value in np.ravel(values).tolist())
