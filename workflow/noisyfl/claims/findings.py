"""What numbers say of a claim: the cases of its checks, and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from noisyfl.analysis.statistics import SUPPORTED, UNDECIDED, verdict_on_cases
from noisyfl.claims.labels import Place

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
        has_headroom: whether a method can gain enough in its settings for it to count; if not, it
            is not decided.
    """

    label: str
    numbers: str
    margin: Known
    holds: bool | None
    cells: tuple[Place, ...] = ()
    has_headroom: bool = True

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
        """By the decided cases, if these are at least half."""
        hold, fail = self.count(True), self.count(False)
        if not hold + fail or hold + fail < ENOUGH * len(self.cases):
            return UNDECIDED
        return verdict_on_cases(hold, fail, self.share)

    def decisive(self, count: int) -> list[Case]:
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

    def decisive(self, count: int) -> list[Case]:
        """The cases that decide each check, up to ``count`` per check."""
        return [case for check in self.checks for case in check.decisive(count)]

    @property
    def verdict(self) -> str:
        """A claim is supported if all conditions are; where one is not, the decided cases of all
        conditions count.
        """
        decided = [check for check in self.checks if check.verdict != UNDECIDED]
        if any(check.verdict != SUPPORTED for check in decided):
            return verdict_on_cases(
                *(sum(c.count(holds) for c in decided) for holds in (True, False))
            )
        return (
            SUPPORTED
            if decided and len(decided) == len(self.checks) and self.complete
            else UNDECIDED
        )
