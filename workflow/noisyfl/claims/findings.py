"""Findings about a claim: its cases, its checks, and the verdict that they come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from noisyfl.claims.labels import Place

HOLDS, MOSTLY, IN_PART, HARDLY, DOES_NOT, CANNOT_TELL = OUTCOMES = (
    "holds",
    "mostly holds",
    "holds in part",
    "hardly holds",
    "does not hold",
    "cannot tell",
)

GRADES = ((0.8, MOSTLY), (0.2, IN_PART), (math.nextafter(0, 1), HARDLY), (0, DOES_NOT))
"""The verdict where not enough cases hold, by the least share of the decided ones that do."""

ENOUGH = 0.5
"""The share of the cases that have to be decided for a verdict."""

PAPER, OURS = "paper", "ours"
"""Who has set a bound: it is ours where the paper gives none ("clearly", "nearly")."""

ALL = 1.0
MOST = math.nextafter(0.5, 1)
"""The share of cases to require if more than half of them must hold."""


Known = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A number that is null in JSON, and NaN here, where it is not known."""


@dataclass(frozen=True)
class Case:
    """One comparison of a claim.

    Attributes:
        label: what tells the case from the others.
        numbers: its two sides and the sign between them, as text.
        margin: the difference by which it holds; negative where it fails; NaN if unknown.
        holds: None where a number is missing, or the spread over trials leaves it open.
        cells: the cells that it rests on.
        room: whether a method can gain enough in its settings for it to count; if not, it is not
            decided.
        gap: how far apart it says that numbers are, see
            :meth:`noisyfl.claims.comparison.Comparison.gap`; NaN if unknown.
    """

    label: str
    numbers: str
    margin: Known
    holds: bool | None
    cells: tuple[Place, ...] = ()
    room: bool = True
    gap: Known = 0.0

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

    def count(self, holds: bool | None) -> int:
        """How many cases hold (True), fail (False), or are undecided (None)."""
        return sum(case.holds is holds for case in self.cases)

    @property
    def verdict(self) -> str:
        """One of :data:`OUTCOMES`, by the decided cases if these are at least half."""
        decided = self.count(True) + self.count(False)
        if not decided or decided < ENOUGH * len(self.cases):
            return CANNOT_TELL
        return HOLDS if self.count(True) >= self.share * decided else grade([self])

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
        """A claim holds if all conditions do; where one fails, the cases of all that can be told
        say how far it does.
        """
        told = [check for check in self.checks if check.verdict != CANNOT_TELL]
        if any(check.verdict != HOLDS for check in told):
            return grade(told)
        return HOLDS if told and len(told) == len(self.checks) and self.complete else CANNOT_TELL


def grade(checks: Sequence[Check]) -> str:
    """One of :data:`GRADES`, by the decided cases of checks of which not enough hold."""
    holds, failed = (sum(check.count(outcome) for check in checks) for outcome in (True, False))
    share = holds / (holds + failed)
    return next(verdict for least, verdict in GRADES if share >= least)
