"""How much better each paper's own method is than FedAvg: in the paper, and here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from noisyfl.analysis.metrics import ACCURACY
from noisyfl.analysis.names import BASELINE
from noisyfl.analysis.statistics import Headroom, verdict_on_lead
from noisyfl.analysis.summaries import summary
from noisyfl.claims.our_cells import (
    headroom_of,
    spreads_of,
    trials_of,
)
from noisyfl.claims.trials import PooledSpreads
from noisyfl.specs.published import PAPERS


@dataclass(frozen=True)
class Lead:
    """A paper's own method compared with FedAvg in a column of its tables, on the seeds that both
    have; in points.

    Attributes:
        paper: a key of :data:`noisyfl.specs.published.PAPERS`.
        table: ``<experiment>_<table>``, in which our numbers are.
        dataset: its name.
        column: the name of the column.
        row: the name of the method's row.
        runs: the ids of the method's first run and of FedAvg's.
        published: the printed lead.
        starred: a number in it is a maximum, as one of the two methods did not converge.
        ours: our lead.
        ours_starred: the same of ours.
        statistic: how an accuracy of ours summarizes a run.
        error: half the width of its interval of 95 %; NaN if that is unknown.
        seeds: how many both have.
        headroom: None if it is unknown.
        as_published: whether ours is of the paper's own setting.
    """

    paper: str
    table: str
    dataset: str
    column: str
    row: str
    runs: tuple[str, str]
    published: float
    starred: bool
    ours: float
    ours_starred: bool
    statistic: str
    error: float
    seeds: int
    headroom: Headroom | None
    as_published: bool

    @property
    def verdict(self) -> str:
        """Whether our runs support that the method is better."""
        return verdict_on_lead(self.ours, self.error, self.headroom)


def leads(
    rows: Sequence[Mapping[str, str]], others: Sequence[Mapping[str, str]] = ()
) -> list[Lead]:
    """Every paper's lead where it prints both numbers, and both are run here with the same seed;
    of the papers in :data:`noisyfl.specs.published.PAPERS`, and none of a user's own.

    Of several variants of its own method the one counts for which the paper prints most. If two
    tables show the same runs, the lead is in the first.

    Args:
        rows: of published numbers with ours, see :mod:`noisyfl.claims.our_cells`.
        others: of another scale, whose trials count for how far trials lie apart.
    """
    spreads = spreads_of([*rows, *others])
    order = list(PAPERS)
    run = [
        row for row in rows if row["ours"] and row["metric"] == ACCURACY and row["paper"] in order
    ]

    def place(row: Mapping[str, str]) -> tuple[str, ...]:
        return row["paper"], row["shown_in"], row["column"], row["dataset"], row["setting_scope"]

    columns = groupby(sorted(run, key=place), key=place)
    found = [lead for _, column in columns for lead in _of_column(list(column), spreads)]
    found.sort(key=lambda lead: (order.index(lead.paper), lead.table, lead.column))
    # Another table may have fewer seeds of them.
    first = {lead.runs: lead for lead in reversed(found)}
    return [lead for lead in found if first[lead.runs] is lead]


def in_statistic(rows: Sequence[Mapping[str, str]], name: str) -> list[dict[str, str]]:
    """The rows, with another statistic of each trial's accuracies as our numbers.

    Args:
        rows: see :func:`leads`.
        name: one of :data:`noisyfl.analysis.summaries.OF_ACCURACY`.
    """
    new = {"ours_statistic": name, "ours_starred": "False"}
    return [{**row, **new, "ours_values": row[f"ours_{name}"]} for row in rows]


def _of_column(rows: Sequence[Mapping[str, str]], spreads: PooledSpreads) -> Iterator[Lead]:
    """The lead in a column, if it has both methods with the same seed."""
    variants = [row for row in rows if row["method"].partition("_")[0] == row["paper"]]
    levels = [row for row in rows if row["method"] == BASELINE]
    if not variants or len(levels) != 1:
        return
    pair = max(variants, key=lambda row: float(row["value"])), levels[0]
    published = float(pair[0]["value"]) - float(pair[1]["value"])
    own, level = map(trials_of, pair)
    leads = [own.values[seed] - level.values[seed] for seed in own.values.keys() & level.values]
    if not leads:
        return
    ours, own_spread = summary(leads), spreads.at(own).own
    # The methods' own parts are independent. A few seeds may agree by chance.
    deviation = max(math.sqrt(2) * own_spread.std, ours.std or 0.0)
    yield Lead(
        paper=pair[0]["paper"],
        table=pair[0]["shown_in"].replace("/", "_"),
        dataset=pair[0]["dataset"],
        column=pair[0]["column"],
        row=pair[0]["row"],
        runs=(pair[0]["runs"].split()[0], pair[1]["runs"].split()[0]),
        published=published,
        starred=any(row["converged"] == "false" for row in pair),
        ours=ours.mean,
        ours_starred=any(row["ours_starred"] == "True" for row in pair),
        statistic=pair[0]["ours_statistic"],
        error=own_spread.half_width(deviation / math.sqrt(ours.trials)),
        seeds=ours.trials,
        headroom=headroom_of(pair[1], spreads),
        as_published=all(row["ours_as_published"] == "True" for row in pair),
    )
