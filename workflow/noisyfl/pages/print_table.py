"""Print a table: its frame, the numbers as CSV, two pages that say how they were made, and LaTeX.

The CSV file has one line per row of the table. For each column of the table, say ``C``, it has

- ``C mean``, ``C std``, ``C trials``: the cell's statistic over the trials that did not diverge, in
  the unit of its metric (shares in percent); ``C diverged``: how many trials diverged;
  ``C starred``: whether the mean is one of maxima; ``C metric`` and ``C statistic``: the names of
  the metric and the statistic;
- ``C published``, ``C published std``, ``C published starred``: the paper's number;
- ``C as published``: whether ours was made in exactly the paper's setting (empty in a table without
  published numbers); ``C difference``: ours minus the paper's number, only where that is so;
  ``C verdict``: how the two compare, in a word;
- ``C best``, ``C last``, ``C mean_last_10``, ``C final_or_max``, ``C mean of run``: the mean over
  the trials of every statistic;
- ``C runs``: the ids of the runs, separated by spaces; ``C status by run``, ``C best by run`` and
  so on: the values of these runs in the same order, ``nan`` where a run has none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyfl.analysis.cells import Cell, Content, collect, round_number
from noisyfl.analysis.frame import write_frame
from noisyfl.analysis.runs import read_runs
from noisyfl.analysis.summaries import STATISTICS
from noisyfl.core.artifacts import RunFiles, write_text
from noisyfl.pages.latex import latex_table
from noisyfl.pages.table import html_page, markdown_page
from noisyfl.specs.descriptions import TableDescription


def print_table(
    description: TableDescription,
    runs: Mapping[str, RunFiles],
    *,
    frame: Path,
    csv: Path,
    markdown: Path,
    html: Path,
    tex: Path,
) -> None:
    """Print a table as Parquet, CSV, Markdown, HTML and LaTeX.

    Args:
        runs: the artifact of every run of the table, by id.
        frame: gets the tidy frame, see :mod:`noisyfl.analysis.frame`.
        csv: gets the numbers, as the docstring of this module describes.
        markdown: gets a page in the paper's layout.
        html: gets the same page, in one file that needs nothing else.
        tex: gets the table alone, for a paper that loads booktabs.

    Raises:
        BadInput: two published numbers belong into one cell.
        DamagedArtifact: a run's files are damaged, or belong to another run.
    """
    content = collect(description, read_runs(runs))
    write_frame(frame, content.frame)
    for path, text in (
        (csv, csv_text(content)),
        (markdown, markdown_page(content)),
        (html, html_page(content)),
        (tex, latex_table(content)),
    ):
        write_text(path, text)


def csv_text(content: Content) -> str:
    """The table as CSV."""
    lines: list[dict[str, Any]] = []
    for row in content.rows:
        line: dict[str, Any] = {"row": row.name, "method": row.method, "trained": row.trained}
        for column, cell in zip(content.columns, row.cells, strict=True):
            facts = _facts(cell, content.description.published is not None)
            line |= {f"{column} {name}": value for name, value in facts.items()}
        lines.append(line)
    file = io.StringIO()
    writer = csv.DictWriter(file, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _facts(cell: Cell, with_published: bool) -> dict[str, Any]:
    """The columns of a cell; ``with_published`` is whether its table has published numbers."""
    row, paper = cell.row, cell.published
    facts: dict[str, Any] = {
        **{name: row[name] for name in ("mean", "std", "trials")},
        "diverged": cell.diverged,
        **{name: row[name] for name in ("starred", "metric", "statistic")},
        "published": paper and paper.value,
        "published std": paper and paper.std,
        "published starred": bool(paper and paper.starred),
        **{name: row[name] for name in ("difference", "verdict")},
        "as published": cell.as_published if with_published else None,
    }
    for name in STATISTICS:
        found = cell.summaries.get(name)
        facts["mean of run" if name == "mean" else name] = round_number(
            found.mean if found else None
        )
    of_runs = [one for one in cell.rows if one["run"]]
    facts["runs"] = row["runs"]
    facts["status by run"] = " ".join(one["status"] for one in of_runs)
    for name in STATISTICS:
        facts[f"{name} by run"] = " ".join(str(round_number(one[name])) for one in of_runs)
    return facts
