"""What the papers claim, held against their own numbers and against ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noisyfl.core.artifacts import RunFiles, replacing
from noisyfl.reporting.claims.kept import write_judged
from noisyfl.reporting.claims.lines import Artifacts
from noisyfl.reporting.claims.page import html_page, markdown_page
from noisyfl.reporting.claims.sources import Side, our_cells, ours, published
from noisyfl.reporting.claims.verdicts import Finding, Judged
from noisyfl.reporting.claims.wanted import Claim, all_claims
from noisyfl.reporting.descriptions import Description, TableDescription
from noisyfl.reporting.published import KEY


def write_claims(
    printed: Path,
    cells: Path,
    parts: Mapping[str, Description],
    runs: Mapping[str, RunFiles],
    partitions: Mapping[str, Path],
    scale: str,
    tables: Mapping[str, str],
    *,
    markdown: Path,
    html: Path,
    kept: Path,
) -> None:
    """Judge every claim twice, and write it on one page and as JSON.

    Args:
        printed: the file of the papers' own numbers.
        cells: the file of our numbers beside them, see :mod:`noisyfl.reporting.tables.tidy`.
        parts: descriptions of the tables and figures that
            :func:`noisyfl.reporting.claims.wanted.parts_of` names, by ``<experiment>/<name>``, as
            far as the scale has them.
        runs: the artifact of every run of these tables and figures, by id.
        partitions: the noisy partitions of these runs, by id.
        scale: the scale's name.
        tables: the page of each table that the scale has, by the table's name: a path from the page
            of claims, without the file's ending.
        markdown: gets the page.
        html: gets the same page, in one file that needs nothing else.
        kept: gets the same as JSON, see :mod:`noisyfl.reporting.claims.kept`.

    Raises:
        BadInput: there are several numbers where a claim expects one.
        DamagedArtifact: a run's files are damaged, or another run's.
    """
    judged = judge(printed, cells, Artifacts(parts, runs, partitions))
    for path, page in ((markdown, markdown_page), (html, html_page)):
        beside = {name: f"{place}{path.suffix}" for name, place in tables.items()}
        with replacing(path) as draft:
            draft.write_text(page(judged, cells, scale, beside), encoding="utf-8")
    write_judged(kept, judged)


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
