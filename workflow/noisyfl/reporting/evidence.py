"""The page of evidence: what our runs say of each method, and of the papers' claims.

Every number on it is computed from artifacts. Explanations that people wrote are paragraphs that
begin with :data:`REASON`, each under the heading that it explains; they are kept when the page is
made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from noisyfl.core.artifacts import replacing
from noisyfl.reporting.beside_papers import tables_beside
from noisyfl.reporting.claims.page import by_paper, in_short, tally
from noisyfl.reporting.claims.verdicts import CANNOT_TELL, Judged
from noisyfl.reporting.descriptions import Heading, TableDescription
from noisyfl.reporting.metrics import RANK
from noisyfl.reporting.runs import Run
from noisyfl.reporting.statistics import best, mean_last_10
from noisyfl.reporting.tables.frame import tidy

BASELINE = "fedavg"
"""The method that all others are compared with."""

CLEAR = 2.0
"""Standard deviations of the baseline's trials that a clear difference has to exceed: those of the
setting or, if they are more, of all settings pooled, since a few trials may agree by chance.
"""

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""

RANKED = (
    " Average ranks (1 is the best) are over the largest part of the table without missing runs."
)
"""What the page says of average ranks."""

Cells = Mapping[tuple[int, int], pd.DataFrame]
"""What :func:`seen` finds, by row and column."""

CLAIMS = "The papers' claims"
"""The heading over what our numbers say of them."""

REASON = "Why:"
"""The beginning of a paragraph that people wrote."""


def seen(runs: Sequence[Run]) -> pd.DataFrame:
    """What the runs of a cell show, without those that diverged.

    Returns:
        a row for each run, by its seed; NaN where a run has no value:

        ==============  ==========================================================================
        ``accuracy``    the mean test accuracy of the last ten evaluations, in percent; the
                        table's statistic is the same
        ``best``        the highest test accuracy of an evaluation, in percent
        ``best_round``  after how many rounds that was
        ``precision``   the share of right labels among those that the method learns as clean, in
                        percent, in the last :data:`ROUNDS` rounds that have one
        ``base``        the share of right labels among all that the participants of these rounds
                        were given, in percent
        ``recall``      the share of the right labels that the method learns as clean, in percent
        ``pseudo``      the share of its pseudo-labels that is right, in percent
        ``backward``    samples through the network backwards, over the whole run
        ==============  ==========================================================================
    """
    rows = {}
    for run in runs:
        if run.diverged:
            continue
        rounds, accuracies = run.series("test_accuracy")
        rows[run.spec["seed"]] = {
            "accuracy": 100 * mean_last_10(accuracies.tolist()).value,
            "best": 100 * best(accuracies.tolist()).value,
            "best_round": rounds[accuracies.argmax()],
            "precision": 100 * _last(run, "label_precision"),
            "base": 100 * (1 - _last(run, "noise_ratio", "label_precision")),
            "recall": 100 * _last(run, "label_recall"),
            "pseudo": 100 * _last(run, "pseudo_label_accuracy"),
            "backward": run.rounds["samples_backward"].sum(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _last(run: Run, metric: str, known: str | None = None) -> float:
    """The mean of a metric over the last :data:`ROUNDS` rounds in which it has a value.

    If another metric ``known`` is given, the rounds are those in which that one has a value.
    """
    there = np.flatnonzero(~np.isnan(run.values(known or metric)))[-ROUNDS:]
    return float(run.values(metric)[there].mean()) if len(there) else float("nan")


def evidence_page(
    table: TableDescription,
    runs: Mapping[str, Run],
    judged: Sequence[Judged],
    papers: Mapping[str, Sequence[str]],
    reasons: Mapping[str, Sequence[str]],
) -> str:
    """The page as Markdown.

    Args:
        table: of every method in common settings, with a row of the baseline.
        runs: by id, all of the table's.
        judged: every claim.
        papers: the papers' tables with ours beside them, lines by heading.
        reasons: paragraphs that people wrote, by the name of a row, or the heading of a paper's
            table or of the claims.

    Raises:
        ValueError: no row is the baseline's.
    """
    there = len(table.run_ids())
    names = [row.method_name for row in table.rows]
    baseline = names.index(BASELINE)
    found = {
        (r, c): seen([runs[run] for run in cell])
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
    bars = _bars({c: cell for (r, c), cell in cells.items() if r == baseline})
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
        *_clear_differences(table, cells, baseline, bars),
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
            lines += _method(row, own, against if r != baseline else {}, table.columns, bars)
            for reason in reasons.get(row.name, ()):
                lines += ["", reason]
    missing = [row.name for r, row in enumerate(table.rows) if not any(at == r for at, _ in cells)]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return "\n".join([*lines, ""])


def _claims(judged: Sequence[Judged]) -> Iterator[str]:
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


def _some_known(judged: Judged) -> bool:
    return any(case.known for check in judged.ours.checks for case in check.cases)


def _beside(
    papers: Mapping[str, Sequence[str]], reasons: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Each paper's table under its heading, with the paragraphs that people wrote on it."""
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
    """The paragraphs that people wrote under a heading, each with an empty line after it."""
    for reason in reasons.get(heading, ()):
        yield from (reason, "")


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
        numbers = {r: _number(mean) for r, mean in means.items() if mean >= 0}
        if len(there) == len(rows) and numbers:
            highest = _number(max(means[r] for r in numbers))
            numbers = {r: f"**{one}**" if one == highest else one for r, one in numbers.items()}
        without = "diverged" if seeds else ""
        for r in rows:
            texts[r, c] = numbers.get(r, without if r in there else "–")
    titles = [table.columns[c].name for c in columns]
    lines = {r: [texts[r, c] for c in columns] for r in rows}
    if len(ranks):
        titles.append("average rank")
        lowest = _number(ranks.min())
        for r in rows:
            text = _number(ranks.get(r, np.nan))
            lines[r].append(f"**{text}**" if text == lowest else text)
    yield " | ".join(["| Method", *titles]) + " |"
    yield "|---" * (1 + len(titles)) + "|"
    for r, line in lines.items():
        yield " | ".join([f"| {table.rows[r].name}", *line]) + " |"


def _gain(cell: pd.DataFrame, baseline: pd.DataFrame) -> float:
    """Points ahead of the baseline, over the seeds that both have; NaN if there are none."""
    return float((cell["accuracy"] - baseline["accuracy"]).mean())


def _bars(baseline: Mapping[int, pd.DataFrame]) -> dict[int, float]:
    """The points that a difference from the baseline has to exceed to be clear, by the number of
    the column; infinitely many where the baseline has a single trial.
    """
    variances = pd.Series({c: cell["accuracy"].var() for c, cell in baseline.items()}, dtype=float)
    bars = CLEAR * variances.clip(lower=variances.mean()) ** 0.5
    return dict(bars.fillna(np.inf))


def _clear_differences(
    table: TableDescription, cells: Cells, baseline: int, bars: Mapping[int, float]
) -> Iterator[str]:
    """A paragraph on how much the baseline's trials differ, if there are several, and one that
    names the methods that are clearly ahead of it in the most of these settings, or in none.
    """
    several = {c: cell for (r, c), cell in cells.items() if r == baseline and len(cell) > 1}
    if not several:
        return
    told = (
        f"{cell['accuracy'].mean():.1f} ± {cell['accuracy'].std():.1f} on {table.columns[c].name}"
        for c, cell in several.items()
    )
    clear = {
        row.name: [
            (r, c) in cells and _gain(cells[r, c], cell) > bars[c] for c, cell in several.items()
        ]
        for r, row in enumerate(table.rows)
        if row.ranked and r != baseline and any(at == r for at, _ in cells)
    }
    yield ""
    yield (
        f"Over several seeds FedAvg has {'; '.join(told)}. A difference from it is *clear* if it "
        f"is more than {CLEAR:g} of these standard deviations, or of their pooled one if that is "
        "larger, as few trials may agree by chance; where FedAvg has a single trial, none is."
    )
    yield ""
    counts = {name: sum(where) for name, where in clear.items()}
    most = max(counts.values(), default=0)
    ahead = "; ".join(name for name, count in counts.items() if count == most > 0)
    others = "; ".join(name for name, count in counts.items() if not count)
    which = "this setting" if len(several) == 1 else "each of these settings"
    if 0 < most < len(several):
        which = f"{most} of these {len(several)} settings, and none in more"
    yield f"Clearly ahead of FedAvg in {which}: {ahead or 'none'}. In none: {others or 'none'}."


def _method(
    row: Heading,
    own: Mapping[int, pd.DataFrame],
    baseline: Mapping[int, pd.DataFrame],
    columns: Sequence[Heading],
    bars: Mapping[int, float],
) -> Iterator[str]:
    """A sentence that compares a method with the baseline, and a table with a line per setting."""
    if baseline:
        yield _against(row.name, own, baseline, columns, bars)
        yield ""
    yield (
        "| Setting | Trials | Accuracy | FedAvg | Best, after rounds "
        "| Right among the clean (of given) | Found | Right pseudo-labels | Work |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for c, trials in own.items():
        cell = trials.mean()
        clean = f"{cell.precision:.1f} ({cell.base:.1f})" if cell.precision >= 0 else ""
        level = work = ""
        if c in baseline:
            level = _number(baseline[c]["accuracy"].reindex(trials.index).mean())
            work = f"{(trials['backward'] / baseline[c]['backward']).mean():.2f}"
        yield (
            f"| {columns[c].name} | {len(trials)} | {cell.accuracy:.1f} | {level} "
            f"| {cell.best:.1f}, {cell.best_round:.0f} | {clean} | {_number(cell.recall)} "
            f"| {_number(cell.pseudo)} | {work} |"
        )


def _against(
    name: str,
    own: Mapping[int, pd.DataFrame],
    baseline: Mapping[int, pd.DataFrame],
    columns: Sequence[Heading],
    bars: Mapping[int, float],
) -> str:
    """A sentence that compares a method with the baseline, by the numbers of the columns."""
    gains = {c: _gain(own[c], cell) for c, cell in baseline.items()}
    if not any(gains.values()):
        return f"{name} equals FedAvg to the last digit, in each of {len(gains)} settings."
    ahead = sum(gain > bars[c] for c, gain in gains.items())
    behind = sum(-gain > bars[c] for c, gain in gains.items())
    first, *others = sorted(gains, key=gains.__getitem__, reverse=True)
    where = f"{gains[first]:+.1f} points on {columns[first].name}"
    if others:
        where += f", {gains[others[-1]]:+.1f} on {columns[others[-1]].name}"
    return (
        f"{name} is ahead of FedAvg in {sum(gain > 0 for gain in gains.values())} of {len(gains)} "
        f"settings (clearly ahead in {ahead}, clearly behind in {behind}): {where}."
    )


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}"


def reasons_in(page: str) -> dict[str, list[str]]:
    """The paragraphs that people wrote in a page, by the heading that they stand under."""
    found: dict[str, list[str]] = {}
    name = ""
    for paragraph in page.split("\n\n"):
        text = paragraph.strip()
        if text.startswith(("## ", "### ")):
            name = text.lstrip("# ").partition("\n")[0]
        elif text.startswith(REASON):
            found.setdefault(name, []).append(text)
    return found


def write_evidence(
    path: Path,
    table: TableDescription,
    runs: Mapping[str, Run],
    judged: Sequence[Judged],
    cells: Path,
    before: Path,
) -> None:
    """Write the page.

    Args:
        path: of the page.
        table: see :func:`evidence_page`.
        runs: likewise.
        judged: likewise.
        cells: the file of every published number with ours.
        before: the previous page, from which the paragraphs that people wrote are taken; it may be
            missing.
    """
    reasons = reasons_in(before.read_text(encoding="utf-8")) if before.exists() else {}
    with replacing(path) as draft:
        page = evidence_page(table, runs, judged, tables_beside(cells), reasons)
        draft.write_text(page, encoding="utf-8")
