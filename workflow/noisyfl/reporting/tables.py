"""Print a table: the numbers as CSV, and two pages that say how they were made.

The CSV file has one line a row of the table. Of each column of the table, say ``C``, it has

- ``C mean``, ``C std``, ``C trials``: the table's statistic in percent, over the trials that did
  not diverge; ``C diverged``: how many did; ``C starred``: the mean is one of maxima;
- ``C published``, ``C published std``, ``C published starred``: the paper's number;
- ``C as published``: ours was made in exactly the paper's setting; ``C difference``: ours minus the
  paper's, only where that is so;
- ``C best``, ``C last``, ``C mean_last_10``, ``C final_or_max``: the mean of every statistic;
- ``C runs``, and by run, in that order and separated by spaces, ``C status by run``,
  ``C best by run`` and so on; ``nan`` where a run diverged before its first evaluation.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyfl.artifacts import RunFiles, replacing
from noisyfl.reporting.cells import Cell, Content, collect
from noisyfl.reporting.page import html_page, markdown_page
from noisyfl.reporting.published import read_published
from noisyfl.reporting.runs import read_runs
from noisyfl.reporting.statistics import STATISTICS


def print_table(
    description: Mapping[str, Any],
    runs: Mapping[str, RunFiles],
    published: Path,
    *,
    csv: Path,
    markdown: Path,
    html: Path,
) -> None:
    """Print a table as CSV, Markdown and HTML.

    Args:
        description: see :class:`noisyfl.experiments.Table`.
        runs: the artifact of every run of the table, by id.
        published: the file of the papers' own numbers.
        csv: gets the numbers, see the module.
        markdown: gets a page in the paper's layout.
        html: gets the same page, in one file that needs nothing else.

    Raises:
        BadInput: the published number of a cell is ambiguous.
        DamagedArtifact: a run's files are damaged, or another run's.
    """
    content = collect(description, read_runs(runs), read_published(published))
    for path, text in (
        (csv, csv_text(content)),
        (markdown, markdown_page(content)),
        (html, html_page(content)),
    ):
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")


def csv_text(content: Content) -> str:
    """The table as CSV."""
    lines: list[dict[str, Any]] = []
    for row in content.rows:
        line: dict[str, Any] = {"row": row.name, "method": row.method, "trained": row.trained}
        for column, cell in zip(content.columns, row.cells, strict=True):
            facts = _facts(cell, content.statistic)
            line |= {f"{column} {name}": value for name, value in facts.items()}
        lines.append(line)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _facts(cell: Cell, statistic: str) -> dict[str, Any]:
    ours, paper = cell.summaries.get(statistic), cell.published
    difference = None
    if ours is not None and paper is not None and cell.as_published:
        difference = round(100 * ours.mean - paper.value, 6)
    facts: dict[str, Any] = {
        "mean": _percent(ours.mean if ours else None),
        "std": _percent(ours.std if ours else None),
        "trials": ours.trials if ours else 0,
        "diverged": cell.diverged,
        "starred": bool(ours and ours.starred),
        "published": paper and paper.value,
        "published std": paper and paper.std,
        "published starred": bool(paper and paper.starred),
        "difference": difference,
        "as published": cell.as_published,
    }
    for name in STATISTICS:
        facts[name] = _percent(cell.summaries[name].mean if cell.summaries else None)
    facts["runs"] = " ".join(run.id for run in cell.runs)
    facts["status by run"] = " ".join(run.provenance["status"] for run in cell.runs)
    for name, function in STATISTICS.items():
        values = [
            _percent(function(run.accuracies).value) if run.accuracies else "nan"
            for run in cell.runs
        ]
        facts[f"{name} by run"] = " ".join(map(str, values))
    return facts


def _percent(share: float | None) -> float | None:
    """In percent, without the noise of floating point."""
    return None if share is None else round(100 * share, 6)
