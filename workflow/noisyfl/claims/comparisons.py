"""Comparisons of two numbers, and whether the draws of these numbers decide them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from noisyfl.analysis.statistics import LEVEL
from noisyfl.claims.labels import Label

Operation = Callable[[np.ndarray, np.ndarray], np.ndarray]

SIGNS: dict[str, Operation] = {
    ">": operator.gt,
    "≥": operator.ge,
    "<": operator.lt,
    "≤": operator.le,
}


class Comparison(NamedTuple):
    """Two sides, each float64 [cases, 1 + draws] or [cases, 1], and the sign between them."""

    left: np.ndarray
    sign: str
    right: np.ndarray

    @property
    def truth(self) -> np.ndarray:
        """float64 [cases, 1 + draws]: 1 where a case holds, 0 where it fails, NaN where unknown."""
        holds = SIGNS[self.sign](self.left, self.right).astype(float)
        return np.where(np.isnan(self.left) | np.isnan(self.right), np.nan, holds)

    def decide(self) -> list[bool | None]:
        """Whether each case holds with the numbers as they are.

        It is decided if all its values are known and nearly all draws agree, as in a two-sided
        test: the numbers might have decided either way. Otherwise None.
        """
        truth = self.truth
        agree = (truth == truth[:, :1]).mean(axis=1) >= 1 - LEVEL / 2
        decided = agree & ~np.isnan(truth).any(axis=1)
        return [bool(one[0]) if sure else None for one, sure in zip(truth, decided, strict=True)]

    def margin(self, case: int) -> float:
        """The difference by which a case holds; negative where it fails. A curve that never reaches
        a level is off by the largest float, as JSON has no infinity.
        """
        left, right = float(self.left[case, 0]), float(self.right[case, 0])
        apart = left - right if left != right else 0.0  # two curves that never reach a level
        apart = float(np.nan_to_num(apart, nan=np.nan))
        return apart if self.sign in ">≥" else -apart

    def words(self, case: int) -> str:
        """A case in words: its two sides and the sign."""
        return f"{text(self.left[case, 0])} {self.sign} {text(self.right[case, 0])}"


def all_true(truths: np.ndarray, axis: int) -> np.ndarray:
    """1 where all are 1, 0 where one is 0, else NaN."""
    return np.where((truths == 0).any(axis), 0.0, truths.min(axis))


def text(label: Label) -> str:
    """A label or a number as it is printed."""
    return f"{label:.4g}" if isinstance(label, float) else str(label)
