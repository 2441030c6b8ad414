"""The page of the claims: one HTML file, with its style and without scripts."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from noisyfl.analysis.published_cells import read_cells
from noisyfl.analysis.statistics import UNDECIDED, VERDICTS
from noisyfl.claims.findings import OURS, Case, Check, Finding
from noisyfl.claims.judgement import Judgement, write_judgements
from noisyfl.claims.leads import Lead
from noisyfl.core.artifacts import write_text
from noisyfl.pages.html import render
from noisyfl.specs.published import PAPERS

SHOWN_CASES = 3
"""How many cases of a condition are on the page: the ones that decide it."""

NOTES = (
    "A claim is supported if each of its conditions holds in all of its decided cases (in most, or "
    "in a share, where the claim says so). Where one fails, the claim is mostly supported if 80 % "
    "of the decided cases of its conditions hold, partly from 20 %, and hardly below. A condition "
    "of which less than half of the cases are decided is undecided.",
    "Ours are means over trials. A case is open if other seeds could change its outcome, and "
    "without headroom if the oracle is hardly ahead of FedAvg in its settings. docs/claims.md says "
    "how this is computed.",
    "† The bound is ours, since the paper gives none.",
)


def write_claims(
    judgements: Sequence[Judgement],
    cells: Path,
    scale: str,
    tables: Mapping[str, str],
    *,
    html: Path,
    json: Path,
) -> None:
    """Write every claim on one page and as JSON.

    Args:
        cells: the file of our numbers beside them, see :mod:`noisyfl.analysis.published_cells`.
        tables: the page of each table that the scale has, as a link from the page of claims, by the
            table's name.
        html: gets the page, in one file that needs nothing else.
        json: gets the same as JSON, see :mod:`noisyfl.claims.judgement`.
    """
    page = render(
        "claims.html.jinja",
        scale=scale,
        papers=by_paper(judgements),
        warnings=warnings(cells),
        notes=NOTES,
        tally=tally,
        in_short=claim_in_short,
        condition_text=condition_text,
        count_cases=count_cases,
        case_text=case_text,
        source=source,
        places_text=places_text,
        links_of=functools.partial(links_of, pages=tables),
        shown_cases=SHOWN_CASES,
    )
    write_text(html, page)
    write_judgements(json, judgements)


def source(claim: Judgement) -> str:
    """The source code of the function that judges a claim."""
    return inspect.getsource(claim.claim.checks)


def links_of(claim: Judgement, pages: Mapping[str, str]) -> dict[str, str]:
    """The pages of the tables whose cells decided a claim, by the table's name."""
    cases = [
        case for finding in (claim.published, claim.ours) for case in finding.decisive(SHOWN_CASES)
    ]
    tables = dict.fromkeys(cell.table for case in cases for cell in case.cells)
    return {name: pages[name] for name in tables if name in pages}


def by_paper(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The claims of each paper, by the paper's name."""
    groups = itertools.groupby(judgements, key=lambda claim: claim.claim.paper)
    return {PAPERS.get(paper, paper): list(claims) for paper, claims in groups}


def warnings(cells: Path) -> list[str]:
    """Warnings of what keeps our numbers from speaking of the papers' settings."""
    rows = [row for row in read_cells(cells) if row["ours"]]
    if not rows:
        return ["None of our numbers is there yet."]
    others = sum(row["ours_as_published"] != "True" for row in rows)
    single = sum(int(row["ours_trials"]) == 1 for row in rows)
    found = []
    if others:
        found.append(
            f"{others} of our {len(rows)} numbers were not made in the papers' settings: what "
            "they support or contradict, they do in the settings of this scale."
        )
    if single:
        found.append(f"{single} of our {len(rows)} numbers are of a single trial.")
    return found


def tally(judged: Sequence[Finding | Lead]) -> str:
    """How many claims or leads have each verdict, in words."""
    counts = Counter(one.verdict for one in judged)
    return ", ".join(f"{counts[one]} {one}" for one in VERDICTS if counts[one])


def claim_in_short(finding: Finding) -> str:
    """The verdict, and the counts of each condition's cases."""
    if not any(case.known for check in finding.checks for case in check.cases):
        return f"{UNDECIDED}: {'not run' if finding.checks else 'no numbers'}"
    counts = [count_cases(check.cases) for check in finding.checks]
    untested = [] if finding.complete else ["not all of it is tested"]
    return f"{finding.verdict}: {'; '.join([*counts, *untested])}"


def count_cases(cases: Sequence[Case]) -> str:
    """In how many of its decided cases a condition holds, and why the others are not decided."""
    if not cases:
        return "not run"
    held = sum(case.holds is True for case in cases)
    missing = sum(not case.known for case in cases)
    tight = sum(case.known and not case.has_headroom for case in cases)
    unsure = sum(case.holds is None and case.known for case in cases) - tight
    reasons = ((unsure, "open"), (tight, "without headroom"), (missing, "not run"))
    more = [f"{count} {word}" for count, word in reasons if count]
    decided = len(cases) - missing - unsure - tight
    if not decided:
        return ", ".join(more)
    return f"{held} of {decided}" + (f" ({', '.join(more)})" if more else "")


def condition_text(check: Check) -> str:
    """A condition in words, with a dagger if the bound is ours."""
    return check.says + ("†" if check.bound == OURS else "")


def case_text(case: Case) -> str:
    """A case with its numbers and a mark: whether it holds, fails, or is undecided."""
    mark = {True: "✓", False: "✗", None: "?"}[case.holds]
    label = f"{case.label}: " if case.label else ""
    return f"{label}{case.numbers} {mark}"


def places_text(case: Case) -> str:
    """The cells that a case rests on, each with its table, row and column."""
    return "; ".join(f"{cell.table}: {cell.row}, {cell.column}" for cell in case.cells)
