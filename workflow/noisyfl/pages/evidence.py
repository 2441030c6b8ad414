"""The pages of evidence: what our runs say of the papers' claims and tables.

The first page is ``evidence.md``; in ``evidence/`` are a page a paper, and one of every claim.
Every number is computed from artifacts; what people explain is in files of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np

from noisyfl.analysis.own_size import OwnSize
from noisyfl.analysis.statistics import NOT_SUPPORTED, SUPPORTED, UNDECIDED
from noisyfl.analysis.summaries import OF_ACCURACY, number
from noisyfl.claims.judgement import Judgement
from noisyfl.claims.leads import Lead, in_statistic
from noisyfl.claims.leads import leads as leads_of
from noisyfl.claims.our_cells import read_rows
from noisyfl.core.artifacts import write_text
from noisyfl.figures import style
from noisyfl.figures.leads import leads_by_published
from noisyfl.pages.claims import tally
from noisyfl.pages.evidence_paths import CLAIMS, LEADS
from noisyfl.pages.explanations import PaperReasons, read_reasons, template
from noisyfl.pages.paper_tables import PaperTable, lead_text, paper_tables
from noisyfl.specs.published import PAPERS


def evidence_pages(
    scale: str,
    judgements: Sequence[Judgement],
    tables: Sequence[PaperTable],
    leads: Sequence[Lead],
    own: Sequence[OwnSize],
    reasons: Mapping[str, PaperReasons],
    cells: Sequence[Mapping[str, str]] = (),
    by_statistic: Mapping[str, Sequence[Lead]] = MappingProxyType({}),
) -> dict[str, str]:
    """The pages as Markdown, by their paths: all of :data:`~noisyfl.pages.evidence_paths.PAGES`.

    Args:
        scale: its name.
        tables: the papers' tables with our numbers below theirs.
        leads: of each paper's own method over FedAvg.
        own: the paper-scale cells.
        reasons: people's paragraphs, by paper.
        cells: every published number once, with ours.
        by_statistic: the leads at this scale in other statistics of an accuracy.
    """
    claims = {paper: [one for one in judgements if one.claim.paper == paper] for paper in PAPERS}
    own_tables = {paper: [one for one in tables if one.paper == paper] for paper in PAPERS}
    pages = {
        "evidence.md": template("first.md.jinja").render(
            scale=scale,
            papers=PAPERS,
            claims=claims,
            failing=[one for one in judgements if _only_fails(one)],
            verdicts=Counter(one.verdict for one in leads if not one.as_published),
            coverage=_coverage(cells),
            results=_results(scale, leads, tables),
            measures=_measures(leads),
            statistics=[ACCURACIES[name] for name in by_statistic],
            by_statistic=_by_statistic(leads, by_statistic),
            figure=LEADS,
            own=[_own_size(one) for one in sorted(own, key=_setting)],
            own_leads=[_lead(one) for one in leads if one.as_published],
        ),
        f"evidence/{CLAIMS}.md": template("claims.md.jinja").render(
            scale=scale, papers=PAPERS, claims=claims
        ),
    }
    for paper, name in PAPERS.items():
        pages[f"evidence/{paper}.md"] = template("paper.md.jinja").render(
            name=name,
            scale=scale,
            in_short_of_all=_in_short(
                [one for one in leads if one.paper == paper], claims[paper], own_tables[paper]
            ),
            coverage=_coverage([one for one in cells if one["paper"] == paper]),
            shown=[one for one in claims[paper] if _has_decided_cases(one)],
            others=[one for one in claims[paper] if not _has_decided_cases(one)],
            tables=own_tables[paper],
            reasons=reasons.get(paper, PaperReasons()),
        )
    return pages


def _results(scale: str, leads: Sequence[Lead], tables: Sequence[PaperTable]) -> list[list[str]]:
    """What each paper's columns show, in its own setting and at the scale, as nine texts."""
    lines = []
    for (paper, name), as_published in product(PAPERS.items(), (True, False)):
        own = [one for one in leads if (one.paper, one.as_published) == (paper, as_published)]
        if not own:
            continue
        verdicts = Counter(one.verdict for one in own)
        ranks = [
            one.correlation
            for table in tables
            if table.paper == paper and not as_published
            for one in table.correlations
            if one.compares_methods
        ]
        lines.append(
            [
                name,
                "the paper's" if as_published else f"`{scale}`",
                str(len(own)),
                _median([one.published for one in own], "+z.1f", any(one.starred for one in own)),
                _median([one.ours for one in own], "+z.1f", any(one.ours_starred for one in own)),
                *(str(verdicts[one]) for one in (SUPPORTED, UNDECIDED, NOT_SUPPORTED)),
                _median(ranks, "z.2f"),
            ]
        )
    return lines


def _by_statistic(leads: Sequence[Lead], others: Mapping[str, Sequence[Lead]]) -> list[list[str]]:
    """Each paper's leads at this scale in its own statistic, and in others, as texts."""
    lines = []
    for paper, name in PAPERS.items():
        found = [
            [lead for lead in some if lead.paper == paper and not lead.as_published]
            for some in (leads, *others.values())
        ]
        if others and found[0]:
            lines.append([name, *map(_in_one_statistic, found)])
    return lines


def _in_one_statistic(leads: Sequence[Lead]) -> str:
    verdicts = Counter(one.verdict for one in leads)
    counts = "/".join(str(verdicts[one]) for one in (SUPPORTED, UNDECIDED, NOT_SUPPORTED))
    return f"{np.median([one.ours for one in leads]):+z.1f} ({counts})"


ACCURACIES = {
    "best": "the best evaluation",
    "last": "the last evaluation",
    "mean_last_10": "the mean of the last ten evaluations",
    "final_or_max": "the last one, or the maximum (\\*) of a method that did not converge",
}
"""The accuracy of a run, by the name of the statistic."""


def _measures(leads: Sequence[Lead]) -> str:
    """How the accuracies of leads summarize a run, and in which papers' tables."""
    papers: dict[str, list[str]] = {}
    for lead in leads:
        papers.setdefault(ACCURACIES[lead.statistic], []).append(PAPERS[lead.paper])
    return "; ".join(f"{how} ({', '.join(dict.fromkeys(some))})" for how, some in papers.items())


def _median(numbers: Sequence[float], form: str, starred: bool = False) -> str:
    """The median, and between what the numbers lie; empty without numbers."""
    if not numbers:
        return ""
    median, ends = f"{np.median(numbers):{form}}", _range(numbers, form)
    return median + ("\\*" if starred else "") + ("" if ends == median else f" ({ends})")


def _lead(lead: Lead) -> list[str]:
    """A lead at paper scale, as the texts of five columns."""
    return [
        PAPERS[lead.paper],
        f"`{lead.table}`, {lead.column}",
        lead_text(lead),
        f"{lead.headroom.points:+.1f}" if lead.headroom else "",
        {SUPPORTED: "yes", NOT_SUPPORTED: "no, worse"}.get(lead.verdict, lead.verdict),
    ]


def _coverage(cells: Sequence[Mapping[str, str]]) -> str:
    """How many published numbers have ours."""
    return f"{sum(bool(one['ours']) for one in cells)} of {len(cells):,}"


def _in_short(
    leads: Sequence[Lead], claims: Sequence[Judgement], tables: Sequence[PaperTable]
) -> str:
    """What the page of a paper says, in a few sentences."""
    sentences = []
    here = "At this scale, " if any(one.as_published for one in leads) else ""
    for where, as_published in ("In the paper's own setting, ", True), (here, False):
        own = [one for one in leads if one.as_published == as_published]
        if own:
            ours, printed = ([getattr(one, name) for one in own] for name in ("ours", "published"))
            verdicts = Counter(one.verdict for one in own)
            sentences.append(
                f"{where}{PAPERS[own[0].paper]} is significantly better than FedAvg in "
                f"{verdicts[SUPPORTED]} of {len(own)} column{'s' * (len(own) > 1)}, and "
                f"significantly worse in "
                f"{verdicts[NOT_SUPPORTED]}. The lead is {_range(ours, '+z.1f')} points, in the "
                f"paper {_range(printed, '+z.1f')}."
            )
    sentences.append(f"Its claims: {tally([one.ours for one in claims])}.")
    found = [
        one.correlation for table in tables for one in table.correlations if one.compares_methods
    ]
    if found:
        compare = "column that compares" if len(found) == 1 else "columns that compare"
        sentences.append(
            f"The rank correlation of our numbers with the paper's: {_range(found, 'z.2f')} in "
            f"{len(found)} {compare} methods, {np.median(found):z.2f} in the median."
        )
    return " ".join(sentences)


def _range(numbers: Sequence[float], form: str) -> str:
    """The smallest and the largest number."""
    ends = dict.fromkeys(f"{one:{form}}" for one in (min(numbers), max(numbers)))
    return " to ".join(ends)


def _own_size(found: OwnSize) -> list[str]:
    """A paper-scale cell, as the texts of its columns."""
    cell, numbers = found.cell, found.cell.summaries
    paper: str = cell.facts["paper"]
    rounds, seeds = (" and ".join(map(str, some)) for some in (found.best_rounds, found.seeds))
    return [
        PAPERS.get(paper, paper),
        f"`{found.table.experiment}_{found.table.name}`, {found.column}",
        found.row,
        number(cell.facts["published"]) + ("\\*" if cell.facts["published_starred"] else ""),
        number(numbers[cell.statistic].mean) + ("\\*" if numbers[cell.statistic].starred else ""),
        f"{cell.difference:+.1f}",
        cell.verdict,
        f"{number(numbers['best'].mean)} ({rounds}), {number(numbers['mean_last_10'].mean)}",
        ", ".join([seeds, f"{number(found.hours)} h", *found.devices]),
    ]


def _setting(found: OwnSize) -> tuple[str, str, str]:
    return found.table.experiment, found.table.name, found.column


def _has_decided_cases(judgement: Judgement) -> bool:
    """Whether our numbers decide a comparison of a claim, and so perhaps the claim."""
    return any(check.count(True) + check.count(False) for check in judgement.ours.checks)


def _only_fails(judgement: Judgement) -> bool:
    """Whether a claim is undecided, and each comparison that is decided fails."""
    hold = any(check.count(True) for check in judgement.ours.checks)
    undecided = judgement.ours.verdict == UNDECIDED
    return undecided and _has_decided_cases(judgement) and not hold


def write_evidence(
    folder: Path,
    scale: str,
    judgements: Sequence[Judgement],
    cells: Path,
    own: Sequence[OwnSize],
    own_cells: Sequence[Mapping[str, str]],
    reasons: Iterable[Path],
) -> None:
    """Write the pages, and the figure of the first one.

    Args:
        folder: gets :data:`~noisyfl.pages.evidence_paths.PAGES` and
            :data:`~noisyfl.pages.evidence_paths.LEADS`.
        scale: its name.
        cells: the file of every published number with ours.
        own_cells: the published numbers with those at paper scale.
        reasons: the files of people's paragraphs.
    """
    papers, _ = read_reasons(reasons)
    smaller = read_rows(cells)
    leads = leads_of(smaller)
    tables = paper_tables(cells, leads)
    published = [row for row in own_cells if row["ours_as_published"] == "True"]
    known = {lead.runs for lead in leads}
    leads += [lead for lead in leads_of(published, smaller) if lead.runs not in known]
    by_statistic = {name: leads_of(in_statistic(smaller, name)) for name in OF_ACCURACY}
    pages = evidence_pages(scale, judgements, tables, leads, own, papers, smaller, by_statistic)
    for name, text in pages.items():
        write_text(folder / name, text)
    with style.house_style():
        style.save(leads_by_published(leads), folder / LEADS)
