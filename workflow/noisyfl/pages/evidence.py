"""The pages of evidence: what our runs say of each method, and of the papers' claims.

The first screen is ``evidence.md``; in ``evidence/`` are a page a paper, one of every claim and one
of every method. Every number is computed from artifacts. People's explanations are in files of
their own, by the table or the method that they explain.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path

import jinja2
import pandas as pd
from pydantic import Field, model_validator

from noisyfl.analysis.measurements import ROUNDS, Against, Measurements
from noisyfl.analysis.names import DATASETS
from noisyfl.analysis.own_size import OwnSize
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import LEVEL, ORACLE, UNDECIDED
from noisyfl.analysis.summaries import number
from noisyfl.claims.judgement import Judgement
from noisyfl.claims.leads import Lead
from noisyfl.claims.leads import leads as leads_of
from noisyfl.claims.sources import read_rows
from noisyfl.core.artifacts import replacing
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.places import ROOT
from noisyfl.pages.claims import claim_in_short, tally
from noisyfl.pages.evidence_paths import CLAIMS, METHODS
from noisyfl.pages.paper_tables import PaperTable, paper_tables
from noisyfl.pages.reasons import Strict
from noisyfl.specs.descriptions import Heading, TableDescription
from noisyfl.specs.published import PAPERS

TEMPLATES = ROOT / "workflow" / "report" / "evidence"

COLUMNS = (
    *("Setting", "Trials", "Accuracy", "FedAvg", "Best, after rounds"),
    *("Precision (of candidates)", "Recall", "Right pseudo-labels", "Work"),
)
"""The columns of a method's table; those of which it has nothing are left out."""


class Why(Strict):
    """A paragraph on why numbers are what they are; it has one of the two.

    Attributes:
        tested: an explanation that is supported by an experiment, which the paragraph describes.
        guess: one that fits the numbers, and that nothing was done to test.
    """

    tested: str = ""
    guess: str = ""

    @model_validator(mode="after")
    def _one(self) -> Why:
        if bool(self.tested) == bool(self.guess):
            raise ValueError("expected either tested or guess, with a paragraph")
        return self


class PaperReasons(Strict):
    """Why our numbers next to a paper's are what they are, in people's paragraphs.

    Attributes:
        claims: on its claims.
        tables: on its tables, by ``<experiment>_<table>``.
    """

    claims: tuple[Why, ...] = ()
    tables: dict[str, list[Why]] = Field(default_factory=dict)


class MethodsReasons(Strict):
    """Why methods have their numbers, in people's paragraphs, by the method's name."""

    methods: dict[str, list[Why]] = Field(default_factory=dict)


def read_reasons(folder: Path) -> tuple[dict[str, PaperReasons], dict[str, list[Why]]]:
    """Read people's paragraphs: by paper, and by method.

    Args:
        folder: with a file for each paper, and one for the methods; one that is missing has none.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    path = files.pop(METHODS, None)
    given = {"methods": read_yaml(path)} if path else {}
    methods = MethodsReasons.read(given, f"{path}: ").methods
    papers = {name: PaperReasons.read(read_yaml(path), f"{path}: ") for name, path in files.items()}
    return papers, methods


def evidence_pages(
    table: TableDescription,
    runs: Mapping[str, Run],
    judgements: Sequence[Judgement],
    tables: Sequence[PaperTable],
    leads: Sequence[Lead],
    own: Sequence[OwnSize],
    papers: Mapping[str, PaperReasons],
    methods: Mapping[str, Sequence[Why]],
) -> dict[str, str]:
    """The pages as Markdown, by their paths: all of :data:`~noisyfl.pages.evidence_paths.PAGES`.

    Args:
        table: of every method in common settings, with a row of the baseline.
        runs: by id, all of the table's.
        tables: the papers' tables with our numbers next to theirs.
        leads: of each paper's own method over FedAvg.
        own: the paper-scale cells.
        papers: people's paragraphs, see :func:`read_reasons`.
        methods: paragraphs on methods, by name.

    Raises:
        ValueError: no row is the baseline's.
    """
    environment = _templates()
    measurements = Measurements(table, runs)
    claims = {paper: [one for one in judgements if one.claim.paper == paper] for paper in PAPERS}
    pages = {
        "evidence.md": environment.get_template("first.md.jinja").render(
            table=table,
            papers=PAPERS,
            claims=claims,
            begun=[
                one.claim.name
                for one in judgements
                if not _is_decided(one)
                and any(case.known for check in one.ours.checks for case in check.cases)
            ],
            measurements=measurements,
            significant=_significantly_better(table, measurements),
            settings=_settings(table, measurements),
            leads=[_lead(one) for one in leads],
            own=[_own_size(one) for one in own],
            own_leads=partial(_own_leads, leads),
            correlations=sorted(
                (one.correlation, part.paper, part.table, one.column, one.rows)
                for part in tables
                for one in part.correlations
            ),
        ),
        f"evidence/{CLAIMS}.md": environment.get_template("claims.md.jinja").render(
            scale=table.scale, papers=PAPERS, claims=claims
        ),
        f"evidence/{METHODS}.md": environment.get_template("methods.md.jinja").render(
            table=table,
            glance=_at_a_glance(table, measurements),
            methods=list(_methods(table, measurements, methods)),
            missing=[row.name for r, row in enumerate(table.rows) if not measurements.row(r)],
        ),
    }
    for paper, name in PAPERS.items():
        pages[f"evidence/{paper}.md"] = environment.get_template("paper.md.jinja").render(
            name=name,
            scale=table.scale,
            decided=[one for one in claims[paper] if _is_decided(one)],
            tables=[part for part in tables if part.paper == paper],
            reasons=papers.get(paper, PaperReasons()),
        )
    return pages


@functools.cache  # it keeps each template that it has compiled
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"in_short": claim_in_short, "tally": tally, "why": _why}
    environment.globals |= {"LEVEL": LEVEL, "ROUNDS": ROUNDS}
    environment.filters |= {"number": number, "cell": lambda text: text.replace("|", "\\|")}
    return environment


def _why(reason: Why) -> str:
    return f"Why (tested): {reason.tested}" if reason.tested else f"Why (guess): {reason.guess}"


def _lead(lead: Lead) -> list[str]:
    """A paper's lead and ours, as the texts of seven columns."""
    dataset = DATASETS.get(lead.dataset, lead.dataset)
    setting = lead.column if dataset in lead.column else f"{dataset}, {lead.column}"
    seeds = " and ".join(map(str, sorted(set(lead.trials))))
    error = "" if math.isnan(lead.error) else f" ± {number(lead.error)}"
    return [
        PAPERS[lead.paper],
        setting,
        f"{lead.published:+.1f}" + ("\\*" if lead.starred else ""),
        f"{lead.ours:+.1f}{error} ({seeds} {'seed' if seeds == '1' else 'seeds'})",
        f"{lead.headroom.points:+.1f}" if lead.headroom else "",
        "the paper's" if lead.as_published else "reduced",
        lead.verdict,
    ]


def _own_size(found: OwnSize) -> list[str]:
    """A paper-scale cell, as the texts of ten columns."""
    cell, numbers = found.cell, found.cell.summaries
    paper: str = cell.facts["paper"]
    rounds = " and ".join(map(str, found.best_rounds))
    return [
        PAPERS.get(paper, paper),
        f"`{found.table.experiment}_{found.table.name}`, {found.column}",
        found.row,
        number(cell.facts["published"]) + ("\\*" if cell.facts["published_starred"] else ""),
        number(numbers[cell.statistic].mean) + ("\\*" if numbers[cell.statistic].starred else ""),
        f"{cell.difference:+.1f}",
        cell.verdict,
        f"{number(numbers['best'].mean)} ({rounds}), {number(numbers['mean_last_10'].mean)}",
        " and ".join(map(str, found.seeds)),
        f"{number(found.hours)}, {'; '.join(found.machines)}",
    ]


def _own_leads(leads: Sequence[Lead]) -> str:
    """How many leads are at paper scale, in a sentence."""
    count = sum(lead.as_published for lead in leads)
    are = "is" if count == 1 else "are"
    some = f"{count} of these {len(leads)} {are}" if count else "None of these is"
    return f"{some} at paper scale."


def _is_decided(judgement: Judgement) -> bool:
    return judgement.ours.verdict != UNDECIDED


def _settings(table: TableDescription, measurements: Measurements) -> list[list[str]]:
    """How far a difference from the baseline varies in each setting in which that is known, as the
    texts of six columns.
    """
    oracles = [r for r, row in enumerate(table.rows) if row.method_name == ORACLE]
    lines = []
    for c, deviation in measurements.differences.deviations.items():
        baseline = measurements.cells[measurements.baseline, c]["accuracy"]
        spread = f" ± {number(baseline.std())}" if len(baseline) > 1 else ""
        found = measurements.differences
        gains = {r: found.mean((r, at)) for r, at in found.points if at == c}
        headroom = [gains[r] for r in oracles if r in gains]
        significant = [gain for r, gain in gains.items() if (r, c) in found.significant]
        lines.append(
            [
                table.columns[c].name,
                f"{number(baseline.mean())}{spread}",
                f"{headroom[0]:+.1f}" if headroom else "",
                number(deviation),
                str(sum(gain > 0 for gain in significant)),
                str(sum(gain < 0 for gain in significant)),
            ]
        )
    return lines


def _significantly_better(table: TableDescription, measurements: Measurements) -> dict[str, int]:
    """In how many settings with several seeds each ranked method is significantly better; without
    methods that are run in none of these.
    """
    deviations = measurements.differences.deviations
    return {
        row.name: against.significantly_better
        for r, row in enumerate(table.rows)
        if row.ranked and r != measurements.baseline
        for against in [measurements.against(r)]
        if against.gains.keys() & deviations.keys()
    }


def _at_a_glance(table: TableDescription, measurements: Measurements) -> list[list[str]]:
    """The table of accuracies by row and column, without columns of which most cells are missing;
    its header first.

    In a column without missing cells the best of the rows that are ranked is in bold. A cell of
    which a trial diverged says so.
    """
    cells, trained = measurements.cells, measurements.seeds
    rows, columns = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    columns = [c for c in columns if 2 * sum((r, c) in trained for r in rows) >= len(rows)]
    lines = {r: [table.rows[r].name] for r in rows}
    for c in columns:
        there = [r for r in rows if (r, c) in trained]
        seeds = sorted(set.intersection(*(trained[r, c] for r in there)))
        accuracies = {r: cells[r, c]["accuracy"] for r in there if (r, c) in cells}
        means = {r: one.reindex(seeds).mean(skipna=False) for r, one in accuracies.items()}
        numbers = {r: number(mean) for r, mean in means.items() if mean >= 0}
        rivals = [r for r in numbers if table.rows[r].ranked]
        if len(there) == len(rows) and rivals:
            highest = number(max(means[r] for r in rivals))
            numbers |= {r: f"**{highest}**" for r in rivals if numbers[r] == highest}
        without = "diverged" if seeds else ""
        for r in rows:
            lines[r].append(numbers.get(r, without if r in there else "–"))
    return [["Method", *(table.columns[c].name for c in columns)], *lines.values()]


@dataclass(frozen=True)
class Method:
    """What the page of every method has of one.

    Attributes:
        against: how it compares with the baseline; None for itself.
        columns: of the table of every method.
        lines: of the table of its settings, the header first.
        reasons: people's paragraphs.
    """

    name: str
    against: Against | None
    columns: Sequence[Heading]
    lines: Sequence[Sequence[str]]
    reasons: Sequence[Why]


def _methods(
    table: TableDescription, measurements: Measurements, reasons: Mapping[str, Sequence[Why]]
) -> Iterator[Method]:
    """Every method that is run, in the order of the table."""
    for r, row in enumerate(table.rows):
        if not measurements.row(r):
            continue
        against = measurements.against(r) if r != measurements.baseline else None
        gains = against.gains if against else {}
        lines = [
            [table.columns[c].name, *_setting(measurements, c, trials, c in gains)]
            for c, trials in measurements.row(r).items()
        ]
        has_text = [any(texts) for texts in zip(*lines, strict=True)]
        yield Method(
            row.name,
            against if gains else None,
            table.columns,
            [list(compress(line, has_text)) for line in (COLUMNS, *lines)],
            reasons.get(row.name, ()),
        )


def _setting(
    measurements: Measurements, column: int, trials: pd.DataFrame, compared: bool
) -> list[str]:
    """What a method reached in a setting, as the texts of eight columns; where it is compared, over
    the seeds that the baseline has, too.
    """
    level = work = ""
    if compared:
        baseline = measurements.cells[measurements.baseline, column]
        trials = trials.loc[trials.index.isin(baseline.index)]
        level = number(baseline["accuracy"].reindex(trials.index).mean())
        work = f"{(trials['backward'] / baseline['backward']).mean():.2f}"
    cell = trials.mean()
    return [str(len(trials)), number(cell.accuracy), level, *describe(cell), work]


def describe(cell: pd.Series) -> list[str]:
    """What a cell reached besides its accuracy, as the texts of four columns.

    Args:
        cell: a row of :func:`noisyfl.analysis.measurements.measure`, or the mean of several.

    Returns:
        its best evaluation and after how many rounds that was; its label precision, and in
        parentheses what that is compared with; its recall; its right pseudo-labels. Empty
        texts for what it does not have.
    """
    return [
        f"{number(cell.best)}, {cell.best_round:.0f}",
        f"{number(cell.precision)} ({number(cell.base)})" if cell.precision >= 0 else "",
        number(cell.recall),
        number(cell.pseudo),
    ]


def write_evidence(
    folder: Path,
    table: TableDescription,
    runs: Mapping[str, Run],
    judgements: Sequence[Judgement],
    cells: Path,
    own: Sequence[OwnSize],
    own_cells: Sequence[Mapping[str, str]],
    reasons: Path,
) -> None:
    """Write the pages.

    Args:
        folder: gets :data:`~noisyfl.pages.evidence_paths.PAGES`.
        cells: the file of every published number with ours.
        own_cells: the published numbers with those at paper scale.
        reasons: the folder of people's paragraphs.
    """
    papers, methods = read_reasons(reasons)
    smaller = read_rows(cells)
    leads = leads_of([row for row in own_cells if row["ours_as_published"] == "True"], smaller)
    leads += leads_of(smaller)
    pages = evidence_pages(
        table, runs, judgements, paper_tables(cells), leads, own, papers, methods
    )
    for name, text in pages.items():
        with replacing(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
