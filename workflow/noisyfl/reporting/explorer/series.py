"""Numbers as short texts, which a browser reads when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

POINTS = 200
"""Of a curve; a longer one is thinned evenly, its first and last value kept."""

Packed = list[str]
"""The steps from value to value of x, and of y, each as whole numbers separated by commas."""


def packed(x: np.ndarray, y: np.ndarray) -> Packed:
    """A curve in hundredths.

    Args:
        x: float64 [values].
        y: likewise, without NaN.
    """
    if len(x) > POINTS:
        kept = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
        x, y = x[kept], y[kept]
    return [steps(x), steps(y)]


def steps(values: np.ndarray) -> str:
    """The differences of values in hundredths, the first from 0."""
    whole = np.rint(100 * np.asarray(values, dtype=float)).astype(int)
    return ",".join(map(str, np.diff(whole, prepend=0).tolist()))


def whole(values: Sequence[int] | np.ndarray) -> str:
    """Whole numbers; empty where there are zeros."""
    return ",".join("" if value == 0 else str(value) for value in np.ravel(values).tolist())
