"""Judge the papers' claims by the papers' own numbers and by ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from noisyfl.claims.catalogue import all_claims
from noisyfl.claims.declaration import Claim
from noisyfl.claims.findings import Case, Finding
from noisyfl.claims.judgement import Judgement
from noisyfl.claims.sources import Side, published
from noisyfl.specs.descriptions import Description, TableDescription
from noisyfl.specs.published import KEY, Published


def judge(printed: Side, ours: Side) -> list[Judgement]:
    """Judge every claim by the papers' own numbers and by ours."""
    found = []
    for claim in all_claims().values():
        published = examine(claim, printed)
        found.append(Judgement(claim, published, with_room(examine(claim, ours), published, ours)))
    return found


def with_room(finding: Finding, published: Finding, side: Side) -> Finding:
    """A finding in which no case is decided by settings without room.

    A setting has room if the oracle is ahead of FedAvg by more than two deviations of its trials,
    and by more than the smallest gap of a case of the claim that the paper's numbers bear out.

    Args:
        finding: what the numbers of a side say of a claim.
        published: what the paper's own say of it.
    """
    gaps = (case.gap for check in published.checks for case in check.cases if case.holds)
    least = min(gaps, default=0.0)

    def lacks(case: Case) -> bool:
        rooms = [side.rooms[cell] for cell in case.cells if cell in side.rooms]
        return bool(rooms) and all(room.points <= max(2 * room.deviation, least) for room in rooms)

    checks = (
        replace(
            check,
            cases=tuple(
                replace(case, holds=None, room=False) if lacks(case) else case
                for case in check.cases
            ),
        )
        for check in finding.checks
    )
    return replace(finding, checks=tuple(checks))


def out_of_reach(printed: Iterable[Published], parts: Mapping[str, Description]) -> list[str]:
    """The claims that these tables cannot decide, whatever numbers they get.

    Such a claim compares printed numbers, and for each comparison the tables lack one.
    """
    tables = [part for part in parts.values() if isinstance(part, TableDescription)]
    made = (cell.labels for part in tables for row in part.cells for cell in row)
    keys = {tuple(labels[name] for name in KEY) for labels in made if set(labels) == set(KEY)}
    side = published(printed, keys)
    found = []
    for claim in all_claims().values():
        if {query.kind for query in claim.queries.values()} <= set(side.sources):
            cases = (case for check in examine(claim, side).checks for case in check.cases)
            if not any(case.known for case in cases):
                found.append(claim.name)
    return found


def examine(claim: Claim, side: Side) -> Finding:
    """What the numbers of one side say of a claim.

    A check is left out if this side cannot have the numbers that it takes.
    """
    numbers = {
        name: side.numbers(query, f"{claim.name}: {name}") for name, query in claim.queries.items()
    }
    checks = tuple(check for check in claim.checks(**numbers) if check.known)
    return Finding(checks, not claim.untested)
