"""What numbers say of a claim: case by case, and what that amounts to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noisyfl.reporting.claims.numbers import Cases, Cell
    from noisyfl.reporting.claims.wanted import Claim

HOLDS, IN_PART, DOES_NOT, CANNOT_TELL = VERDICTS = (
    "holds",
    "holds in part",
    "does not hold",
    "cannot tell",
)

PAPER, OURS = "paper", "ours"
"""Whose a bound is: ours where the paper has none ("clearly", "nearly")."""

ALL = 1.0
MOST = math.nextafter(0.5, 1)
"""More than half."""


@dataclass(frozen=True)
class Case:
    """One comparison of a claim.

    Attributes:
        label: what tells it from the others.
        numbers: its sides, in words.
        margin: how far it is from not holding any more; negative where it fails; NaN if unknown.
        held: None where a number is missing, or the spread over trials leaves it open.
        cells: those that it rests on.
    """

    label: str
    numbers: str
    margin: float
    held: bool | None
    cells: tuple[Cell, ...] = ()

    @property
    def known(self) -> bool:
        """All of its numbers are there."""
        return not math.isnan(self.margin)


@dataclass(frozen=True)
class Check:
    """One condition of a claim and its cases.

    Attributes:
        says: the condition in words.
        cases: the settings in which it is asked.
        bound: whose the bounds in it are.
        share: of the cases that must hold.
        known: numbers of this kind can be had.
    """

    says: str
    cases: tuple[Case, ...]
    bound: str = PAPER
    share: float = ALL
    known: bool = True

    def count(self, held: bool | None) -> int:
        """How many cases hold, fail, or are undecided."""
        return sum(case.held is held for case in self.cases)

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`; without a case nobody can tell."""
        enough = self.share * len(self.cases)
        if self.cases and self.count(True) >= enough:
            return HOLDS
        if not self.cases or self.count(True) + self.count(None) >= enough:
            return CANNOT_TELL
        return IN_PART if self.count(True) else DOES_NOT

    def telling(self, count: int) -> list[Case]:
        """The cases that decide: the worst failures, or else those that hold most narrowly."""
        known = [case for case in self.cases if case.known]
        return sorted(known, key=lambda case: case.margin)[:count]


Checks = Iterator[Check]
"""What the function of a claim gives."""


def check(says: str, *conditions: Cases, bound: str = PAPER, share: float = ALL) -> Checks:
    """The checks of one or more conditions that are said together; ``yield from`` them.

    Args:
        says: what is checked, in words.
        conditions: whether it holds, case by case.
        bound: whose the bound is, :data:`PAPER` or :data:`OURS`.
        share: of the cases in which it has to hold.
    """
    for cases in conditions:
        yield Check(says, cases.decided(), bound, share, cases.known)


@dataclass(frozen=True)
class Finding:
    """What numbers say of a claim.

    Attributes:
        checks: its conditions, in order; none where there are no such numbers.
        complete: all that the claim says is in its conditions.
    """

    checks: tuple[Check, ...]
    complete: bool = True

    def telling(self, count: int) -> list[Case]:
        """Of every check the cases that decide."""
        return [case for check in self.checks for case in check.telling(count)]

    @property
    def verdict(self) -> str:
        """It holds if all conditions do, in part if one fails though some cases hold."""
        found = {check.verdict for check in self.checks}
        if found & {IN_PART, DOES_NOT}:
            return IN_PART if any(check.count(True) for check in self.checks) else DOES_NOT
        return CANNOT_TELL if CANNOT_TELL in found or not found or not self.complete else HOLDS


@dataclass(frozen=True)
class Judged:
    """A claim, and what numbers say of it.

    Attributes:
        published: what the paper's own numbers say.
        ours: what our numbers say.
    """

    claim: Claim
    published: Finding
    ours: Finding
