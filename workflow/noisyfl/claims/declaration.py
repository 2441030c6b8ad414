"""How a claim is declared: ``@claim`` on a function that yields checks of the claim's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from noisyfl.claims.findings import ALL, PAPER, Check
from noisyfl.claims.numbers import Cases
from noisyfl.claims.query import Query
from noisyfl.core.options import BadInput

Checks = Iterator[Check]
"""What the function of a claim yields."""


def check(says: str, *conditions: Cases, bound: str = PAPER, share: float = ALL) -> Checks:
    """Make a check of all cases of one or more comparisons; to be used in ``yield from``.

    Args:
        says: what is checked, in words.
        conditions: the comparisons, case by case; of those that can be had, all cases count.
        bound: who has set the bound, :data:`PAPER` or
            :data:`~noisyfl.claims.findings.OURS`.
        share: the share of the cases that must hold.
    """
    known = [cases for cases in conditions if cases.known]
    cases = tuple(case for cases in known for case in cases.decide())
    yield Check(says, cases, bound, share, bool(known))


Conditions = Callable[..., Checks]
"""The function of a claim: it gets the claim's numbers by name and yields checks of them."""


@dataclass(frozen=True)
class Claim:
    """A statement that a paper makes about its numbers.

    Attributes:
        name: the paper, a dash and a number.
        place: where the paper makes the claim.
        sentence: the claim, in our words.
        note: what a reader of the verdict should know.
        untested: the part that no number can test, if any; such a claim can fail, but not hold.
        queries: the numbers that it is about, by the names of the function's parameters.
        checks: the conditions on these numbers.
    """

    name: str
    place: str
    sentence: str
    note: str
    untested: str
    queries: Mapping[str, Query]
    checks: Conditions

    @property
    def paper(self) -> str:
        """The paper that makes the claim."""
        return self.name.partition("-")[0]


CLAIMS: dict[str, Claim] = {}
"""The claims that were declared, by name. Import it from :mod:`noisyfl.claims.catalogue`, which
declares those of every paper first."""


def claim(
    name: str, *, place: str, note: str = "", untested: str = "", **queries: Query
) -> Callable[[Conditions], Conditions]:
    """Register a function that judges a claim; its docstring is the claim, in our words.

    Args:
        name: the paper, a dash and a number.
        place: where the paper makes the claim.
        note: what a reader of the verdict should know.
        untested: a part of the claim that no number can test.
        queries: the numbers that the function gets under these names; it yields checks of them.

    Raises:
        BadInput: a claim of that name is registered already, or the function has no docstring.
    """
    paper = name.partition("-")[0]

    def register(function: Conditions) -> Conditions:
        if name in CLAIMS:
            raise BadInput(f"claim {name!r} is there twice")
        if not function.__doc__:
            raise BadInput(f"claim {name!r} says nothing: expected it as a docstring")
        own = {
            key: replace(one, tables=tuple(f"{paper}/{table}" for table in one.tables))
            for key, one in queries.items()
        }
        sentence = " ".join(function.__doc__.split())
        CLAIMS[name] = Claim(name, place, sentence, note, untested, own, function)
        return function

    return register
