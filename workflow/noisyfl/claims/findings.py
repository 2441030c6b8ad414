"""Findings about a claim: its cases, its checks, and the verdict that they come to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisyfl.claims.labels import Place

HOLDS, IN_PART, DOES_NOT, CANNOT_TELL = OUTCOMES = (
    "holds",
    "holds in part",
    "does not hold",
    "cannot tell",
)

PAPER, OURS = "paper", "ours"
"""Who has set a bound: it is ours where the paper gives none ("clearly", "nearly")."""

ALL = 1.0
MOST = math.nextafter(0.5, 1)
"""The share of cases to require if more than half of them must hold."""


@dataclass(frozen=True)
class Case:
    """One comparison of a claim.

    Attributes:
        label: what tells the case from the others.
        numbers: its two sides and the sign between them, as text.
        margin: the difference by which it holds; negative where it fails; NaN if unknown.
        held: None where a number is missing, or the spread over trials leaves it open.
        cells: the cells that it rests on.
    """

    label: str
    numbers: str
    margin: float
    held: bool | None
    cells: tuple[Place, ...] = ()

    @property
    def known(self) -> bool:
        """Whether all of its numbers are there."""
        return not math.isnan(self.margin)


@dataclass(frozen=True)
class Check:
    """One condition of a claim and its cases.

    Attributes:
        says: the condition in words.
        cases: the settings in which it is checked.
        bound: who has set its bounds, :data:`PAPER` or :data:`OURS`.
        share: the share of the cases that must hold.
        known: whether numbers of this kind can be had at all.
    """

    says: str
    cases: tuple[Case, ...]
    bound: str = PAPER
    share: float = ALL
    known: bool = True

    def count(self, held: bool | None) -> int:
        """How many cases hold (True), fail (False), or are undecided (None)."""
        return sum(case.held is held for case in self.cases)

    @property
    def verdict(self) -> str:
        """One of :data:`OUTCOMES`; without a case it is :data:`CANNOT_TELL`."""
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


@dataclass(frozen=True)
class Finding:
    """What numbers say of a claim.

    Attributes:
        checks: its conditions, in order; none where there are no such numbers.
        complete: whether the conditions cover all that the claim says.
    """

    checks: tuple[Check, ...]
    complete: bool = True

    def telling(self, count: int) -> list[Case]:
        """The cases that decide each check, up to ``count`` per check."""
        return [case for check in self.checks for case in check.telling(count)]

    @property
    def verdict(self) -> str:
        """A claim holds if all conditions do, and in part if one fails though some cases hold."""
        found = {check.verdict for check in self.checks}
        if found & {IN_PART, DOES_NOT}:
            return IN_PART if any(check.count(True) for check in self.checks) else DOES_NOT
        return CANNOT_TELL if CANNOT_TELL in found or not found or not self.complete else HOLDS
