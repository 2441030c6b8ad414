"""Judge the papers' claims by the papers' own numbers and by ours, and store the judgements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from noisyfl.claims.catalogue import CLAIMS
from noisyfl.claims.declaration import Claim
from noisyfl.claims.findings import Finding
from noisyfl.claims.sources import ClaimSide
from noisyfl.core.artifacts import read_json, write_json


@dataclass(frozen=True)
class Judgement:
    """A claim, and what numbers say of it.

    Attributes:
        published: what the paper's own numbers say.
        ours: what our numbers say.
    """

    claim: Claim
    published: Finding
    ours: Finding


def judge(printed: ClaimSide, ours: ClaimSide) -> list[Judgement]:
    """Judge every claim by the papers' own numbers and by ours."""
    return [
        Judgement(claim, examine(claim, printed), examine(claim, ours)) for claim in CLAIMS.values()
    ]


def examine(claim: Claim, side: ClaimSide) -> Finding:
    """What the numbers of one side say of a claim.

    A check is left out if this side cannot have the numbers that it takes. A case is undecided if
    no setting that it compares has enough headroom.
    """
    numbers = {
        name: side.numbers(query, f"{claim.name}: {name}") for name, query in claim.queries.items()
    }
    checks = []
    for check in claim.checks(**numbers):
        if check.known:
            cases = tuple(
                case
                if side.has_headroom(case.cells)
                else replace(case, holds=None, has_headroom=False)
                for case in check.cases
            )
            checks.append(replace(check, cases=cases))
    return Finding(tuple(checks), not claim.untested)


def write_judgements(path: Path, judgements: Sequence[Judgement]) -> None:
    """Write what the numbers say of each claim as JSON, by its name; an unknown margin is null."""
    sides = ("published", "ours")
    by_claim = {
        one.claim.name: {side: _to_json(getattr(one, side)) for side in sides} for one in judgements
    }
    write_json(path, by_claim)


def read_judgements(path: Path) -> list[Judgement]:
    """Read what :func:`write_judgements` wrote, in the order of the claims."""
    by_claim = _FILE.validate_python(read_json(path))
    return [Judgement(claim, **by_claim[name]) for name, claim in CLAIMS.items()]


_FILE = TypeAdapter(dict[str, dict[str, Finding]])


def _to_json(finding: Finding) -> dict[str, Any]:
    fields = dataclasses.asdict(finding)
    for check in fields["checks"]:
        for case in check["cases"]:
            case["margin"] = None if math.isnan(case["margin"]) else case["margin"]
    return {"verdict": finding.verdict, **fields}
