"""The papers' tables with our numbers next to the published ones, and how their ranks correlate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from noisyfl.analysis.metrics import ACCURACY
from noisyfl.specs.published import SCALES

HEADROOM_ROW = "*Headroom: oracle − FedAvg*"
"""The name of the row that says how much there is to gain in a column."""

LEAST_ROWS = 4
"""The fewest rows for which a correlation of ranks is printed."""


@dataclass(frozen=True)
class RankCorrelation:
    """How similarly a column's published numbers and ours rank so many rows (Spearman)."""

    column: str
    correlation: float
    rows: int


@dataclass(frozen=True)
class PaperTable:
    """A paper's table, with our numbers next to the published ones.

    Attributes:
        table: ``<experiment>_<table>``, in which our numbers are.
        rows: the texts of each row: its name, and for each column the paper's number and ours; last
            the headroom in each column, if it is known.
        correlations: of the columns that have enough rows.
    """

    paper: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    correlations: tuple[RankCorrelation, ...]


def paper_tables(cells: Path) -> list[PaperTable]:
    """The papers' tables with our numbers next to the published ones.

    Only columns of which at least half is run are shown, and only tables that have such columns.

    Args:
        cells: the CSV file of published numbers with ours, see
            :mod:`noisyfl.analysis.published_cells`.
    """
    numbers = pd.read_csv(cells, dtype={"converged": str, "ours_starred": str})
    numbers["value"] *= numbers["unit"].map(SCALES)
    return [
        part
        for (paper, table), some in numbers.groupby(["paper", "shown_in"], sort=False)
        for part in _paper_table(str(paper), str(table).replace("/", "_"), some)
    ]


def _paper_table(paper: str, table: str, numbers: pd.DataFrame) -> Iterator[PaperTable]:
    """A table with the columns of which at least half is run; none without such."""
    share = numbers.groupby("column")["ours"].transform(lambda ours: ours.notna().mean())
    run = numbers[share >= 0.5]
    columns = list(run["column"].unique())
    if not columns:
        return
    texts = run.assign(
        paper=_texts(run["value"], run["converged"] == "false"),
        ours=_texts(run["ours"], run["ours_starred"] == "True"),
    )
    rows = []
    for row, line in texts.groupby("row", sort=False):
        by_column = line.set_index("column")[["paper", "ours"]].reindex(columns).fillna("")
        pairs = zip(by_column["paper"], by_column["ours"], strict=True)
        rows.append((str(row), *(text for pair in pairs for text in pair)))
    # The mean of different datasets' headrooms would be that of none.
    alone = run.groupby("column")["dataset"].transform("nunique") == 1
    accurate = run[(run["metric"] == ACCURACY) & alone]
    headrooms = accurate.groupby("column")["headroom"].mean().reindex(columns)
    if headrooms.notna().any():
        shown = ("" if math.isnan(one) else f"{one:+.1f}" for one in headrooms)
        rows.append((HEADROOM_ROW, *(text for one in shown for text in ("", one))))
    correlations = [
        one for name in columns for one in _correlation(name, run[run["column"] == name])
    ]
    yield PaperTable(paper, table, tuple(columns), tuple(rows), tuple(correlations))


def _texts(numbers: pd.Series, starred: pd.Series) -> pd.Series:
    """Numbers as they are printed; a dash for each that is missing."""
    printed = numbers.map("{:.1f}".format) + starred.map({True: "\\*", False: ""})
    return printed.where(numbers.notna(), "–")


def _correlation(column: str, numbers: pd.DataFrame) -> Iterator[RankCorrelation]:
    """How similarly a column ranks the rows; nothing if it has too few rows, or rows that are not
    to be ranked with each other.
    """
    known = numbers[numbers["ours"].notna()]
    if len(known) < LEAST_ROWS or len(known[["dataset", "metric"]].drop_duplicates()) > 1:
        return
    ranks = known[["value", "ours"]].rank()
    yield RankCorrelation(column, ranks["value"].corr(ranks["ours"]), len(known))
