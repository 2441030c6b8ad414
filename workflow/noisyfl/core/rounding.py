"""Whole numbers of shares: in floating point, 0.29 * 100 is 28.999999999999996, and means 29."""

from __future__ import annotations

import math

SLACK = 1e-9
"""How far beside a whole number a product may be that means it."""


def round_down(number: float) -> int:
    """The largest whole number up to ``number``."""
    return math.floor(number + SLACK)


def round_up(number: float) -> int:
    """The smallest whole number from ``number`` on."""
    return math.ceil(number - SLACK)


def round_half_up(number: float) -> int:
    """The nearest whole number; of two that are equally near, the larger one."""
    return round_down(number + 0.5)
