"""What the papers claim, held against their own numbers and against ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noisyfl.claims.lines import Artifacts
from noisyfl.claims.sources import Side, our_cells, ours, published
from noisyfl.claims.verdicts import Finding, Judged
from noisyfl.claims.wanted import Claim, all_claims
from noisyfl.specs.descriptions import Description, TableDescription
from noisyfl.specs.published import KEY


def judge(printed: Path, cells: Path, artifacts: Artifacts) -> list[Judged]:
    """Judge every claim by the papers' own numbers and by ours.

    Args:
        printed: the file of the published numbers.
        cells: the scale's ``cells.csv``.
        artifacts: the runs and partitions that claims are held against.
    """
    sides = published(printed), ours(our_cells(cells), artifacts.sources())
    return [
        Judged(claim, *(examine(claim, side) for side in sides)) for claim in all_claims().values()
    ]


def out_of_reach(printed: Path, parts: Mapping[str, Description]) -> list[str]:
    """The claims on which these tables could say nothing, whatever their numbers come out to be.

    Such a claim compares printed numbers, and for each comparison the tables lack one.

    Args:
        printed: the file of the papers' own numbers.
        parts: descriptions of tables and figures, by ``<experiment>/<name>``.
    """
    tables = [part for part in parts.values() if isinstance(part, TableDescription)]
    made = (labels for part in tables for row in part.labels for labels in row)
    keys = {tuple(labels[name] for name in KEY) for labels in made if set(labels) == set(KEY)}
    side = published(printed, keys)
    found = []
    for claim in all_claims().values():
        if {wanted.kind for wanted in claim.wanted.values()} <= set(side.sources):
            cases = (case for check in examine(claim, side).checks for case in check.cases)
            if not any(case.known for case in cases):
                found.append(claim.name)
    return found


def examine(claim: Claim, side: Side) -> Finding:
    """What the numbers of one side say of a claim.

    A check is left out if this side cannot have the numbers that it takes.
    """
    numbers = {
        name: side.numbers(wanted, f"{claim.name}: {name}") for name, wanted in claim.wanted.items()
    }
    checks = tuple(check for check in claim.checks(**numbers) if check.known)
    return Finding(checks, not claim.untested)
