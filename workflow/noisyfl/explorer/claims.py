"""The claims as the page shows them, with the cells that decided each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noisyfl.claims.findings import Check, Finding
from noisyfl.claims.judgement import Judgement
from noisyfl.claims.labels import Place
from noisyfl.pages.claims import SHOWN_CASES, case_text, claim_in_short, condition_text, count_cases
from noisyfl.specs.published import PAPERS

Places = Mapping[Place, int]
"""The page's numbers of cells by (table, row, column), each under the names that our tables use and
under those of the published numbers."""


def claims_to_json(judgements: Sequence[Judgement], places: Places) -> list[dict[str, Any]]:
    """Every claim as plain data, with the numbers of the cells that decided it."""
    return [
        {
            "name": one.claim.name,
            "paper": PAPERS.get(one.claim.paper, one.claim.paper),
            "place": one.claim.place,
            "sentence": one.claim.sentence,
            "notes": [text for text in (one.claim.note, one.claim.untested) if text],
            "published": _finding(one.published, places),
            "ours": _finding(one.ours, places),
        }
        for one in judgements
    ]


def _finding(finding: Finding, places: Places) -> dict[str, Any]:
    cells = [cell for case in finding.decisive(SHOWN_CASES) for cell in case.cells]
    return {
        "verdict": finding.verdict,
        "short": claim_in_short(finding),
        "checks": [_check(check, places) for check in finding.checks],
        "elsewhere": sorted({cell.table for cell in cells if cell not in places}),
    }


def _check(check: Check, places: Places) -> dict[str, Any]:
    shown = check.decisive(SHOWN_CASES)
    return {
        "says": condition_text(check),
        "count": count_cases(check.cases),
        "cases": [{"text": case_text(case), "cells": _cells(case.cells, places)} for case in shown],
        "more": sum(case.known for case in check.cases) - len(shown),
    }


def _cells(cells: Sequence[Place], places: Places) -> list[int]:
    return sorted({places[cell] for cell in cells if cell in places})
