"""The papers' tables with our numbers beside the printed ones, and how alike they rank the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from noisyfl.core.spreadsheet import from_text
from noisyfl.specs.published import PAPERS, SCALES

RANKED = 4
"""The fewest rows for which a correlation of ranks is printed."""


def tables_beside(cells: Path) -> dict[str, list[str]]:
    """The papers' tables with our numbers beside the printed ones: Markdown lines by heading.

    Only columns of which at least half is run are shown, and only tables that have such columns.

    Args:
        cells: the CSV file of published numbers with ours, see
            :mod:`noisyfl.analysis.published_cells`.
    """
    numbers = pd.read_csv(cells, dtype={"converged": str, "ours_starred": str})
    numbers = numbers.map(lambda cell: from_text(cell) if isinstance(cell, str) else cell)
    numbers["value"] *= numbers["unit"].map(SCALES)
    found = {}
    for (paper, shown), table in numbers.groupby(["paper", "shown_in"], sort=False):
        if lines := list(_table(table)):
            target = str(shown).replace("/", "_")
            found[f"{PAPERS.get(str(paper), paper)}, `{target}`"] = lines
    return found


def _table(numbers: pd.DataFrame) -> Iterator[str]:
    """The lines of a table, with the columns of which at least half is run; none without such."""
    share = numbers.groupby("column")["ours"].transform(lambda ours: ours.notna().mean())
    shown = numbers[share >= 0.5]
    columns = list(shown["column"].unique())
    if not columns:
        return
    texts = shown.assign(
        paper=_texts(shown["value"], shown["converged"] == "false"),
        ours=_texts(shown["ours"], shown["ours_starred"] == "True"),
    )
    yield " | ".join(["| Method", *(f"{name}: paper | ours" for name in columns)]) + " |"
    yield "|---" * (1 + 2 * len(columns)) + "|"
    for row, line in texts.groupby("row", sort=False):
        by_column = line.set_index("column").reindex(columns).fillna("")
        pairs = (
            " | ".join(pair) for pair in zip(by_column["paper"], by_column["ours"], strict=True)
        )
        yield " | ".join([f"| {row}", *pairs]) + " |"
    alike = [_alike(name, shown[shown["column"] == name]) for name in columns]
    if any(alike):
        yield from ("", " ".join(filter(None, alike)))


def _texts(numbers: pd.Series, starred: pd.Series) -> pd.Series:
    """Numbers as they are printed; a dash for each that is missing."""
    printed = numbers.map("{:.1f}".format) + starred.map({True: "\\*", False: ""})
    return printed.where(numbers.notna(), "–")


def _alike(column: str, numbers: pd.DataFrame) -> str:
    """A sentence on how alike a column ranks the rows (Spearman); empty if it has too few rows, or
    rows that are not to be ranked with each other.
    """
    known = numbers[numbers["ours"].notna()]
    if len(known) < RANKED or len(known[["dataset", "metric"]].drop_duplicates()) > 1:
        return ""
    ranks = known[["value", "ours"]].rank()
    correlation = ranks["value"].corr(ranks["ours"])
    return f"{column}: ranks correlate by {correlation:.2f} (Spearman) over {len(known)} rows."
