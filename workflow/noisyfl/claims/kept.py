"""Claims as they were judged, in a file that other pages are made from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.claims.numbers import Cell
from noisyfl.claims.verdicts import Case, Check, Finding, Judged
from noisyfl.claims.wanted import all_claims
from noisyfl.core.artifacts import read_json, write_json


def write_judged(path: Path, judged: Sequence[Judged]) -> None:
    """Write what the numbers say of each claim as JSON, by its name; an unknown margin is null."""
    sides = ("published", "ours")
    told = {one.claim.name: {side: _told(getattr(one, side)) for side in sides} for one in judged}
    write_json(path, told)


def _told(finding: Finding) -> dict[str, Any]:
    told = dataclasses.asdict(finding)
    for check in told["checks"]:
        for case in check["cases"]:
            case["margin"] = None if math.isnan(case["margin"]) else case["margin"]
    return {"verdict": finding.verdict, **told}


def read_judged(path: Path) -> list[Judged]:
    """Read what :func:`write_judged` wrote, in the order of the claims."""
    told = read_json(path)
    return [
        Judged(claim, _finding(told[name]["published"]), _finding(told[name]["ours"]))
        for name, claim in all_claims().items()
    ]


def _finding(told: Mapping[str, Any]) -> Finding:
    checks = (
        Check(**{**check, "cases": tuple(map(_case, check["cases"]))}) for check in told["checks"]
    )
    return Finding(tuple(checks), told["complete"])


def _case(told: Mapping[str, Any]) -> Case:
    margin = math.nan if told["margin"] is None else told["margin"]
    return Case(**{**told, "margin": margin, "cells": tuple(Cell(*cell) for cell in told["cells"])})
