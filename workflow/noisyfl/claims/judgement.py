"""The judgement of a claim, and the file of all judgements that other pages are made from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from noisyfl.claims.catalogue import all_claims
from noisyfl.claims.declaration import Claim
from noisyfl.claims.findings import Finding
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
    return [Judgement(claim, **by_claim[name]) for name, claim in all_claims().items()]


_FILE = TypeAdapter(dict[str, dict[str, Finding]])


def _to_json(finding: Finding) -> dict[str, Any]:
    fields = dataclasses.asdict(finding)
    for check in fields["checks"]:
        for case in check["cases"]:
            known = {key: None if math.isnan(case[key]) else case[key] for key in ("margin", "gap")}
            case |= known
    return {"verdict": finding.verdict, **fields}
