"""Comparisons of two numbers, in every setting and for every draw of our numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from noisyfl.claims.labels import Label

SURE = 0.95
"""A case is decided only if it holds, or fails, in at least this share of our numbers' draws."""

Operation = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Comparison(NamedTuple):
    """Two sides, each float64 [cases, 1 + draws] or [cases, 1], and the sign between them; the
    right one may be a bound that the claim names.
    """

    left: np.ndarray
    sign: str
    right: np.ndarray
    bound: bool = False

    @property
    def truth(self) -> np.ndarray:
        """float64 [cases, 1 + draws]: 1 where a case holds, 0 where it fails, NaN where unknown."""
        holds = SIGNS[self.sign](self.left, self.right).astype(float)
        return np.where(np.isnan(self.left) | np.isnan(self.right), np.nan, holds)

    def margin(self, case: int) -> float:
        """The difference by which a case holds; negative where it fails. A curve that never reaches
        a level is off by the largest float, as JSON has no infinity.
        """
        left, right = float(self.left[case, 0]), float(self.right[case, 0])
        apart = left - right if left != right else 0.0  # two curves that never reach a level
        apart = float(np.nan_to_num(apart, nan=np.nan))
        return apart if self.sign in ">≥" else -apart

    def gap(self, case: int) -> float:
        """How far apart a claim says that numbers are: the two sides, or as far as a lead that is
        held against a bound; 0 where a bound only says how far they are at most.
        """
        if not self.bound:
            return self.margin(case)
        return float(self.left[case, 0]) if self.sign in ">≥" else 0.0

    def words(self, case: int) -> str:
        """A case in words: its two sides and the sign."""
        return f"{text(self.left[case, 0])} {self.sign} {text(self.right[case, 0])}"


SIGNS: dict[str, Operation] = {
    ">": operator.gt,
    "≥": operator.ge,
    "<": operator.lt,
    "≤": operator.le,
}


def text(label: Label) -> str:
    """A label or a number as it is printed."""
    return f"{label:.4g}" if isinstance(label, float) else str(label)


def decide(truths: Sequence[np.ndarray]) -> bool | None:
    """Whether several comparisons all hold with the numbers as they are; None if that is not
    decided.

    A comparison is decided if all its values are known, and nearly all draws agree with the numbers
    as they are. Each is decided by itself: of two bounds that are nearer to each other than the
    draws lie apart, most draws miss one or the other, though neither is missed for sure.

    Args:
        truths: of each comparison in one case, as :attr:`Comparison.truth` has them.
    """
    found = [_decide(values) for values in truths]
    if False in found:
        return False
    return None if None in found else True


def _decide(values: np.ndarray) -> bool | None:
    if np.isnan(values).any():
        return None
    holds = bool(values[0])
    return holds if float((values == values[0]).mean()) >= SURE else None
