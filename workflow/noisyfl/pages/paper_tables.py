"""The papers' tables with our numbers below the published ones, and how their ranks correlate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from noisyfl.analysis.metrics import ACCURACY, METRICS
from noisyfl.analysis.published_cells import read_cells
from noisyfl.analysis.statistics import LEVEL, ORACLE, UNDECIDED
from noisyfl.analysis.summaries import WORDS, number
from noisyfl.claims.leads import Lead
from noisyfl.claims.our_cells import (
    draws_of_cell,
    on_common_seeds,
    read_rows,
    spreads_of,
)
from noisyfl.claims.trials import PooledSpreads
from noisyfl.specs.published import PAPERS

LEAD_ROW = "*Lead of {} over FedAvg*"
"""The name of the row that says how much better a paper's method is than FedAvg."""

HEADROOM_ROW = "*Headroom: oracle − FedAvg*"
"""The name of the row that says how much there is to gain in a column."""

CORRELATION_ROW = "*Rank correlation*"
"""The name of the row that says how similarly the paper and we rank a column."""

WIDEST = 6
"""A table with more columns is shown in parts."""

LEAST_ROWS = 4
"""The fewest rows for which a correlation of ranks is printed."""

NOT_RUN = "–"
"""What is printed for our number where there is none."""


@dataclass(frozen=True)
class RankCorrelation:
    """How similarly a column's published numbers and ours rank so many rows (Spearman).

    Attributes:
        moved: between what the correlation is for 95 % of the draws, if each of our means is moved
            by its error between seeds; NaN if that is unknown. No confidence interval, as the means
            have this error already, so that the draws have it twice.
        compares_methods: it is of so many methods, not of variants of a few, and in a table of the
            paper, not in one of ours that repeats its numbers.
    """

    column: str
    correlation: float
    moved: tuple[float, float]
    rows: int
    compares_methods: bool

    @property
    def text(self) -> str:
        """The correlation, and between what it moves."""
        if math.isnan(self.moved[0]):
            return f"{self.correlation:z.2f}"
        low, high = self.moved
        return f"{self.correlation:z.2f} ({low:z.2f} to {high:z.2f})"


@dataclass(frozen=True)
class PaperTable:
    """A paper's table, with our numbers below the published ones, which are in italics.

    Attributes:
        table: ``<experiment>_<table>``, in which our numbers are.
        measures: what our numbers are, in words.
        rows: the texts of each row: its name, and for each column the paper's number and ours; last
            the lead over FedAvg, the headroom and the correlation of ranks in each column, if any
            is known.
        correlations: of the columns that have enough rows.
    """

    paper: str
    table: str
    measures: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    correlations: tuple[RankCorrelation, ...]

    @property
    def parts(self) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        """What is shown below each other: a title, the names of columns, and the rows' texts.

        A wide table is split by what its columns' names have before the last comma, which is the
        title, as in ``symmetric, 0.4``. A part has the rows of which something is run in it.
        """
        if len(self.columns) <= WIDEST:
            return [("", self.columns, _run(self.rows))]
        groups: dict[str, list[tuple[int, str]]] = {}
        for place, name in enumerate(self.columns, start=1):
            group, _, label = name.rpartition(", ")
            groups.setdefault(group, []).append((place, label))
        parts = []
        for group, columns in groups.items():
            rows = [(row[0], *(row[place] for place, _ in columns)) for row in self.rows]
            labels = tuple(label for _, label in columns)
            parts.append((group, labels, _run(rows)))
        return parts


def _run(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows that have one of our numbers."""
    return [row for row in rows if any(text and not text.endswith(NOT_RUN) for text in row[1:])]


def paper_tables(cells: Path, leads: Sequence[Lead]) -> list[PaperTable]:
    """The papers' tables with our numbers below the published ones.

    Only columns of which at least half is run, or that have a lead, are shown, and only tables that
    have such columns.

    Args:
        cells: the file of published numbers with ours, see
            :mod:`noisyfl.analysis.published_cells`.
        leads: over FedAvg, of the scale of these numbers.
    """
    spreads = spreads_of(read_rows(cells))
    rows = on_common_seeds(read_cells(cells))
    numbers = pd.DataFrame(rows)
    numbers["cell"] = pd.Series(rows, dtype=object)
    for name in ("value", "ours", "headroom"):
        numbers[name] = pd.to_numeric(numbers[name])
    shown = numbers[numbers["shown_in"] != ""]
    found: list[PaperTable] = []
    for (paper, shown_in), some in shown.groupby(["paper", "shown_in"], sort=False):
        table = str(shown_in).replace("/", "_")
        own = [one for one in leads if (one.paper, one.table) == (paper, table)]
        found += _paper_table(str(paper), table, some, spreads, own)
    return found


def lead_text(lead: Lead) -> str:
    """The published lead and ours, which is bold if it is decided which method is better."""
    published = f"*{lead.published:+z.1f}" + ("\\**" if lead.starred else "*")
    error = "" if math.isnan(lead.error) else f" ± {number(lead.error)}"
    ours = f"{lead.ours:+z.1f}" + ("\\*" if lead.ours_starred else "") + error
    return f"{published}<br>" + (ours if lead.verdict == UNDECIDED else f"**{ours}**")


def _paper_table(
    paper: str,
    table: str,
    numbers: pd.DataFrame,
    spreads: PooledSpreads,
    leads: Sequence[Lead],
) -> Iterator[PaperTable]:
    """A table with the columns of which at least half is run, or that have a lead; none without
    such.
    """
    share = numbers.groupby("column")["ours"].agg(lambda ours: ours.notna().mean())
    half = set(share.index[share >= 0.5])
    lead_of = {one.column: one for one in leads}
    run = numbers[numbers["column"].isin(half | set(lead_of))]
    columns = list(run["column"].unique())
    if not columns:
        return
    published = "*" + _texts(run["value"], run["converged"] == "false") + "*"
    ours = _texts(run["ours"], run["ours_starred"] == "True")
    rows = [
        (str(row), *line.set_index("column")["text"].reindex(columns).fillna(""))
        for row, line in run.assign(text=published + "<br>" + ours).groupby("row", sort=False)
    ]
    # The mean of different datasets' headrooms would be that of none.
    alone = run.groupby("column")["dataset"].transform("nunique") == 1
    if known := lead_of.keys() & set(run["column"][alone]):
        seeds = run.set_index(["column", "row"])["ours_seeds"].str.count(" ") + 1
        several = len({one.row for one in leads}) > 1
        texts = []
        for name in columns:
            text = ""
            if name in known:
                lead = lead_of[name]
                text = lead_text(lead) + (f"<br>{lead.row}" if several else "")
                if lead.seeds != seeds[name, lead.row]:
                    text += f"<br>({lead.seeds} seeds)"
            texts.append(text)
        rows.append((LEAD_ROW.format(PAPERS[paper]), *texts))
    accurate = run[(run["metric"] == ACCURACY) & (run["noise"] != "none") & alone]
    # The cell with the fewest trials has the seeds that all of the column have, if there are such.
    fewest = accurate.assign(trials=accurate["runs"].str.count(" "))
    fewest = fewest.sort_values("trials", kind="stable")
    headrooms = fewest.groupby("column")["headroom"].first().reindex(columns)
    if headrooms.notna().any():
        shown = ("" if math.isnan(one) else f"{one:+.1f}" for one in headrooms)
        rows.append((HEADROOM_ROW, *shown))
    correlations = [
        one for name in columns for one in _correlation(name, run[run["column"] == name], spreads)
    ]
    if set(run["table"]) != {table.partition("_")[2]}:
        correlations = [replace(one, compares_methods=False) for one in correlations]
    if correlations:
        ranks = {one.column: one.text for one in correlations}
        rows.append((CORRELATION_ROW, *(ranks.get(name, "") for name in columns)))
    of_ours = run[run["ours"].notna()][["metric", "ours_statistic"]].drop_duplicates()
    measures = tuple(
        f"{METRICS[metric].label}, {WORDS[statistic]}"
        for metric, statistic in of_ours.itertuples(index=False)
    )
    yield PaperTable(paper, table, measures, tuple(columns), tuple(rows), tuple(correlations))


def _texts(numbers: pd.Series, starred: pd.Series) -> pd.Series:
    """Numbers as they are printed; a dash for each that is missing."""
    printed = numbers.map("{:.1f}".format) + starred.map({True: "\\*", False: ""})
    return printed.where(numbers.notna(), NOT_RUN)


def _correlation(
    column: str, numbers: pd.DataFrame, spreads: PooledSpreads
) -> Iterator[RankCorrelation]:
    """How similarly a column ranks the federated methods, without the oracle, which are rivals;
    nothing if it has too few, or rows that are not to be ranked with each other.
    """
    rivals = (numbers["setting_scope"] == "federated") & (numbers["method"] != ORACLE)
    known = numbers[rivals & numbers["ours"].notna()]
    if len(known) < LEAST_ROWS or len(known[["dataset", "metric"]].drop_duplicates()) > 1:
        return
    # A row is a cell; a column has our numbers, and then what they might be with other seeds.
    draws = pd.DataFrame([draws_of_cell(cell, spreads) for cell in known["cell"]])
    published = known["value"].reset_index(drop=True).rank()
    found = draws.rank().corrwith(published).to_numpy()
    known_error = draws.nunique(axis=1).max() > 1
    ends = [LEVEL / 2, 1 - LEVEL / 2]
    low, high = np.quantile(found[1:], ends) if known_error else (math.nan, math.nan)
    moved = float(low), float(high)
    compares = known["ours_method"].nunique() >= LEAST_ROWS
    yield RankCorrelation(column, float(found[0]), moved, len(known), compares)
