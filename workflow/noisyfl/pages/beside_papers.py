"""The papers' tables with our numbers beside the printed ones, and how alike they rank the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from noisyfl.analysis.metrics import ACCURACY
from noisyfl.specs.published import SCALES

ROOM = "*Headroom: oracle − FedAvg*"
"""The name of the row that says how much there is to gain in a column."""

RANKED = 4
"""The fewest rows for which a correlation of ranks is printed."""


@dataclass(frozen=True)
class Alike:
    """How alike a column's published numbers and ours rank the rows.

    Attributes:
        column: its name.
        correlation: Spearman's, of ranks.
        rows: over how many.
    """

    column: str
    correlation: float
    rows: int


@dataclass(frozen=True)
class Beside:
    """A paper's table, with our numbers beside the printed ones.

    Attributes:
        paper: whose it is.
        table: ``<experiment>_<table>``, in which our numbers are.
        columns: their names.
        rows: the texts of each row: its name, and for each column the paper's number and ours; last
            the room in each column, if one is known.
        alike: of the columns that have enough rows.
    """

    paper: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    alike: tuple[Alike, ...]


def tables_beside(cells: Path) -> list[Beside]:
    """The papers' tables with our numbers beside the printed ones.

    Only columns of which at least half is run are shown, and only tables that have such columns.

    Args:
        cells: the CSV file of published numbers with ours, see
            :mod:`noisyfl.analysis.published_cells`.
    """
    numbers = pd.read_csv(cells, dtype={"converged": str, "ours_starred": str})
    numbers["value"] *= numbers["unit"].map(SCALES)
    return [
        beside
        for (paper, table), some in numbers.groupby(["paper", "shown_in"], sort=False)
        for beside in _beside(str(paper), str(table).replace("/", "_"), some)
    ]


def _beside(paper: str, table: str, numbers: pd.DataFrame) -> Iterator[Beside]:
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
    # The mean of different datasets' rooms would be that of none.
    alone = run.groupby("column")["dataset"].transform("nunique") == 1
    accurate = run[(run["metric"] == ACCURACY) & alone]
    rooms = accurate.groupby("column")["room"].mean().reindex(columns)
    if rooms.notna().any():
        texts_of_room = ("" if math.isnan(room) else f"{room:+.1f}" for room in rooms)
        rows.append((ROOM, *(text for room in texts_of_room for text in ("", room))))
    alike = [one for name in columns for one in _alike(name, run[run["column"] == name])]
    yield Beside(paper, table, tuple(columns), tuple(rows), tuple(alike))


def _texts(numbers: pd.Series, starred: pd.Series) -> pd.Series:
    """Numbers as they are printed; a dash for each that is missing."""
    printed = numbers.map("{:.1f}".format) + starred.map({True: "\\*", False: ""})
    return printed.where(numbers.notna(), "–")


def _alike(column: str, numbers: pd.DataFrame) -> Iterator[Alike]:
    """How alike a column ranks the rows; nothing if it has too few rows, or rows that are not to be
    ranked with each other.
    """
    known = numbers[numbers["ours"].notna()]
    if len(known) < RANKED or len(known[["dataset", "metric"]].drop_duplicates()) > 1:
        return
    ranks = known[["value", "ours"]].rank()
    yield Alike(column, ranks["value"].corr(ranks["ours"]), len(known))
