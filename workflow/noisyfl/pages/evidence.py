"""The page of evidence: what our runs say of each method, and of the papers' claims.

Every number on it is computed from artifacts. People's explanations are in a file of their own,
each under the heading that it stands under on the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from noisyfl.analysis.against_fedavg import (
    BASELINE,
    ROUNDS,
    Cells,
    bars_of,
    outcomes,
)
from noisyfl.analysis.frame import tidy
from noisyfl.analysis.metrics import RANK
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import number
from noisyfl.claims.findings import CANNOT_TELL
from noisyfl.claims.judgement import Judgement
from noisyfl.core.artifacts import replacing
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput
from noisyfl.pages.against_fedavg import clear_differences, method_lines
from noisyfl.pages.beside_papers import tables_beside
from noisyfl.pages.claims import by_paper, in_short, tally
from noisyfl.specs.descriptions import TableDescription

RANKED = (
    " Average ranks (1 is the best) are over the largest part of the table without missing runs."
)
"""What the page says of average ranks."""

CLAIMS = "The papers' claims"
"""The heading over what our numbers say of them."""

REASON = "Why:"
"""How a paragraph of people's begins on the page."""


def evidence_page(
    table: TableDescription,
    runs: Mapping[str, Run],
    judged: Sequence[Judgement],
    papers: Mapping[str, Sequence[str]],
    reasons: Mapping[str, Sequence[str]],
) -> str:
    """The page as Markdown.

    Args:
        table: of every method in common settings, with a row of the baseline.
        runs: by id, all of the table's.
        judged: every claim.
        papers: the papers' tables with ours beside them, lines by heading.
        reasons: people's paragraphs, see :func:`read_reasons`.

    Raises:
        ValueError: no row is the baseline's.
    """
    there = len(table.run_ids())
    names = [row.method_name for row in table.rows]
    baseline = names.index(BASELINE)
    found = {
        (r, c): outcomes([runs[run] for run in cell])
        for r, row in enumerate(table.runs)
        for c, cell in enumerate(row)
    }
    cells = {place: cell for place, cell in found.items() if len(cell)}
    trained = {
        (r, c): {runs[run].spec["seed"] for run in cell}
        for r, row in enumerate(table.runs)
        for c, cell in enumerate(row)
        if cell
    }
    bars = bars_of({c: cell for (r, c), cell in cells.items() if r == baseline})
    ranks = _average_ranks(table, runs)
    lines = [
        "# Evidence",
        "",
        f"What the runs of the scale “{table.scale}” say of the papers' claims and of every method."
        " This page is made of their artifacts (`snakemake evidence --cores all "
        f"--configfile=config/{table.scale}.yaml`), but for the paragraphs that begin with "
        f"“{REASON}”. Of the {there + table.missing} runs of its table, “{table.title}”, {there} "
        "are there.",
        "",
        f"## {CLAIMS}",
        "",
        *_claims(judged),
        "",
        *_paragraphs(reasons, CLAIMS),
        "## Beside the papers' numbers",
        "",
        *_beside(papers, reasons),
        "## The methods",
        "",
        *_at_a_glance(table, cells, trained, ranks),
        "",
        "Test accuracy is the mean of the last ten evaluations, in percent, over the seeds that "
        "all methods of a setting have; *diverged* is a method of which one of these ended with "
        "a model that is not finite; – is not run, and a setting of which most is not run "
        f"stands below alone.{RANKED if len(ranks) else ''}",
        *clear_differences(table, cells, baseline, bars),
        "",
        "Below, a method and FedAvg are compared over the seeds that both have. *Right among the "
        "clean* is the label precision of what a method learns as clean in its last "
        f"{ROUNDS} rounds that leave samples out, beside the share of the labels given to their "
        "clients that is right; *found* is its recall. *Work* is samples through the network "
        "backwards, over FedAvg's.",
    ]
    for r, row in enumerate(table.rows):
        own = {c: cell for (at, c), cell in cells.items() if at == r}
        if own:
            against = {
                c: cells[baseline, c]
                for c in own
                if (baseline, c) in cells
                and len(own[c].index.intersection(cells[baseline, c].index))
            }
            lines += ["", f"### {row.name}", ""]
            lines += method_lines(row, own, against if r != baseline else {}, table.columns, bars)
            for reason in reasons.get(row.name, ()):
                lines += ["", f"{REASON} {reason}"]
    missing = [row.name for r, row in enumerate(table.rows) if not any(at == r for at, _ in cells)]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return "\n".join([*lines, ""])


def _claims(judged: Sequence[Judgement]) -> Iterator[str]:
    """The table of the claims that our numbers decide, and a count of all verdicts by paper."""
    papers = by_paper(judged)
    decided = [claim for claim in judged if claim.ours.verdict != CANNOT_TELL]
    if decided:
        yield "| | Claim | The paper's own numbers | Ours |"
        yield "|---|---|---|---|"
        for claim in decided:
            sides = in_short(claim.published), in_short(claim.ours)
            sentence = claim.claim.sentence.replace("|", "\\|")
            yield f"| {claim.claim.name} | {sentence} | {sides[0]} | {sides[1]} |"
        yield ""
    told = (f"{name}: {tally([one.ours for one in some])}" for name, some in papers.items())
    begun = [claim.claim.name for claim in judged if claim not in decided and _some_known(claim)]
    yield (
        f"Of all claims, ours: {'; '.join(told)}. Of those that cannot tell, some comparisons have "
        f"their numbers in {', '.join(begun) or 'no claim'}, and none in the others; `python -m "
        "noisyfl plan --claims` says which of them this scale can decide. Numbers of a single "
        "trial, which those of ablations and figures are, are compared as they are."
    )


def _some_known(judged: Judgement) -> bool:
    return any(case.known for check in judged.ours.checks for case in check.cases)


def _beside(
    papers: Mapping[str, Sequence[str]], reasons: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Each paper's table under its heading, with people's paragraphs on it."""
    yield (
        "Columns of which most is run, in percent, of smaller federations and networks than the "
        "papers': what can be held against theirs is the order of the rows. Ours are means over "
        "the seeds that are run, which may be more for one row than for another. \\*: the maximum, "
        "since most runs did not converge."
    )
    yield ""
    for heading, lines in papers.items():
        yield from (f"### {heading}", "", *lines, "")
        yield from _paragraphs(reasons, heading)


def _paragraphs(reasons: Mapping[str, Sequence[str]], heading: str) -> Iterator[str]:
    """People's paragraphs under a heading, each with an empty line after it."""
    for reason in reasons.get(heading, ()):
        yield from (f"{REASON} {reason}", "")


def _average_ranks(table: TableDescription, runs: Mapping[str, Run]) -> pd.Series:
    """The average rank by the number of the row, as the table has it; empty if it has none."""
    frame = tidy(table, runs)
    ranks = frame[frame["metric"] == RANK].dropna(subset="value")
    return ranks.set_index("row_number")["value"]


def _at_a_glance(
    table: TableDescription,
    cells: Cells,
    trained: Mapping[tuple[int, int], set[int]],
    ranks: pd.Series,
) -> Iterator[str]:
    """The table of accuracies by row and column, without columns of which most cells are missing,
    and of average ranks, if there are any.

    In a column without missing cells the best is in bold. A cell of which a trial diverged says so.

    Args:
        table: see :func:`evidence_page`.
        cells: what the trials that did not diverge show.
        trained: the seeds of all trials, by row and column.
        ranks: average ranks by the number of the row.
    """
    rows, columns = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [c for c in columns if 2 * sum((r, c) in trained for r in rows) >= len(rows)]
    texts: dict[tuple[int, int], str] = {}
    for c in columns:
        there = [r for r in rows if (r, c) in trained]
        seeds = sorted(set.intersection(*(trained[r, c] for r in there)))
        accuracies = {r: cells[r, c]["accuracy"] for r in there if (r, c) in cells}
        means = {r: one.reindex(seeds).mean(skipna=False) for r, one in accuracies.items()}
        numbers = {r: number(mean) for r, mean in means.items() if mean >= 0}
        if len(there) == len(rows) and numbers:
            highest = number(max(means[r] for r in numbers))
            numbers = {r: f"**{one}**" if one == highest else one for r, one in numbers.items()}
        without = "diverged" if seeds else ""
        for r in rows:
            texts[r, c] = numbers.get(r, without if r in there else "–")
    titles = [table.columns[c].name for c in columns]
    lines = {r: [texts[r, c] for c in columns] for r in rows}
    if len(ranks):
        titles.append("average rank")
        lowest = number(ranks.min())
        for r in rows:
            text = number(ranks.get(r, np.nan))
            lines[r].append(f"**{text}**" if text == lowest else text)
    yield " | ".join(["| Method", *titles]) + " |"
    yield "|---" * (1 + len(titles)) + "|"
    for r, line in lines.items():
        yield " | ".join([f"| {table.rows[r].name}", *line]) + " |"


def read_reasons(path: Path) -> dict[str, list[str]]:
    """Read people's paragraphs: by the name of a row, the heading of a paper's table, or that of
    the claims.

    Raises:
        BadInput: naming the file, the heading and what was expected.
    """
    found = read_yaml(path)
    for heading, paragraphs in found.items():
        if not isinstance(paragraphs, list) or not all(isinstance(p, str) for p in paragraphs):
            raise BadInput(f"{path}: {heading}: got {paragraphs!r}, expected a list of paragraphs")
    return dict(found)


def write_evidence(
    path: Path,
    table: TableDescription,
    runs: Mapping[str, Run],
    judged: Sequence[Judgement],
    cells: Path,
    reasons: Path,
) -> None:
    """Write the page.

    Args:
        path: of the page.
        table: see :func:`evidence_page`.
        runs: likewise.
        judged: likewise.
        cells: the file of every published number with ours.
        reasons: the file of people's paragraphs.
    """
    paragraphs = read_reasons(reasons)
    with replacing(path) as draft:
        page = evidence_page(table, runs, judged, tables_beside(cells), paragraphs)
        draft.write_text(page, encoding="utf-8")
