"""All published numbers in one file, with ours beside them: a view of the tables' frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

import pandas as pd

from noisyfl.analysis.cells import Cell
from noisyfl.analysis.frame import LABELS, cells_of
from noisyfl.analysis.metrics import ACCURACY
from noisyfl.analysis.names import BASELINE
from noisyfl.analysis.statistics import NOT_RUN, ORACLE
from noisyfl.analysis.summaries import OF_ACCURACY
from noisyfl.core.artifacts import replacing
from noisyfl.specs.published import KEY, Published

OURS = {
    **{name: name for name in ("shown_in", "row", "column")},
    **{"ours_method": "our_method", "ours_statistic": "statistic"},
    **{"ours": "mean", "ours_std": "std", "ours_trials": "trials", "ours_starred": "starred"},
    **{"ours_seeds": "seeds", "ours_values": "values", "ours_start": "start"},
    **{f"ours_{name}": f"values_{name}" for name in OF_ACCURACY},
    "ours_as_published": "as_published",
    "headroom": "headroom",
    **{name: name for name in ("difference", "verdict", "runs")},
}
"""The columns beside those of the published numbers, and what :attr:`Cell.row` calls them."""


def published_cells(frame: pd.DataFrame, published: Iterable[Published]) -> pd.DataFrame:
    """The published numbers with ours, in the order of the published ones.

    A published number that no cell of the tables shows has no number of ours, and the verdict
    ``not run``; one that several cells show has a row for each. Both are in the published unit,
    except that shares are always in percent; ``ours_method`` names our method's parts,
    ``ours_statistic`` is how a run is summarized,
    ``ours_values`` are the trials that it averages, ``ours_seeds`` their seeds and ``ours_start``
    what they start from; ``ours_best``, ``ours_last`` and ``ours_mean_last_10`` are other
    statistics of these trials.
    ``ours_as_published`` says whether it was made exactly in the paper's setting, and ``headroom``
    by how many points the oracle leads FedAvg there, in the same statistic, if both are trained.

    Args:
        frame: of all tables, see :mod:`noisyfl.analysis.frame`: one without published numbers may
            have the oracle.
    """
    numbers = _in_percent(pd.DataFrame([row.fields for row in published]))
    shown = frame[frame["trained"].astype(bool) & frame["published"].notna()]
    shown = shown.assign(shown_in=shown["experiment"] + "/" + shown["table"])
    known = {
        key: headrooms(frame, *key)
        for key in shown[["experiment", "table", "statistic"]].itertuples(index=False, name=None)
    }
    cells = [Cell(rows) for line in cells_of(shown) for rows in line]
    rows = [{**cell.row, "headroom": _headroom(cell, known)} for cell in cells]
    ours = pd.DataFrame(rows, dtype=object).reindex(columns=[*LABELS, *OURS.values()])
    ours.columns = pd.Index([*KEY, *OURS])
    both = numbers.merge(ours, on=list(KEY), how="left", validate="one_to_many")
    texts = dict.fromkeys(
        ("ours_seeds", "ours_values", *(f"ours_{one}" for one in OF_ACCURACY)), ""
    )
    return both.fillna({"ours_trials": 0, **texts, "verdict": NOT_RUN})


def _in_percent(numbers: pd.DataFrame) -> pd.DataFrame:
    """Published numbers, as texts, with shares in percent."""
    shares = numbers["unit"] == "fraction"
    for name in ("value", "std"):
        written = shares & (numbers[name] != "")
        numbers.loc[written, name] = [str(100 * Decimal(one)) for one in numbers.loc[written, name]]
    return numbers.assign(unit=numbers["unit"].mask(shares, "percent"))


def headrooms(frame: pd.DataFrame, experiment: str, table: str, statistic: str) -> pd.Series:
    """The headroom: the oracle's test accuracy minus FedAvg's, in points, by the setting.

    Of several runs of a method in a setting, one in the table itself counts, or else one in a table
    of the same statistic: those of a figure may be evaluated more often, which raises their best
    round.

    Args:
        frame: rows of tables, see :mod:`noisyfl.analysis.frame`; of its runs those of the two
            methods count.
        experiment: of the table.
        statistic: that the table shows, a name in :data:`noisyfl.analysis.summaries.STATISTICS`.
    """
    runs = frame[(frame["metric"] == ACCURACY) & (frame["status"] == "finished")]
    same = runs["statistic"] == statistic
    elsewhere = (runs["experiment"] != experiment) | (runs["table"] != table)
    # A value of the same statistic follows the rule by which its cell is starred.
    runs = runs.assign(rank=2 * elsewhere + ~same, found=runs["value"].where(same, runs[statistic]))
    runs = runs.sort_values("rank", kind="stable").drop_duplicates(["our_method", "setting"])
    by_setting = runs.set_index("setting")
    levels = {
        method: by_setting.loc[by_setting["our_method"] == method, "found"]
        for method in (BASELINE, ORACLE)
    }
    return (levels[ORACLE] - levels[BASELINE]).dropna()


def _headroom(cell: Cell, known: Mapping[tuple[str, str, str], pd.Series]) -> float | None:
    """The mean headroom of a cell's trials; None if none is known."""
    facts = cell.facts
    of_table = known[facts["experiment"], facts["table"], facts["statistic"]]
    found = of_table.reindex([one["setting"] for one in cell.rows])
    return None if found.isna().all() else round(float(found.mean()), 6)


def write_cells(numbers: pd.DataFrame, cells: Path) -> None:
    """Write what :func:`published_cells` returns as CSV."""
    with replacing(cells) as draft:
        numbers.to_csv(draft, index=False, lineterminator="\n")


def rows_as_text(numbers: pd.DataFrame) -> list[dict[str, str]]:
    """The rows that :func:`published_cells` returns, as :func:`read_cells` does."""
    return list(csv.DictReader(io.StringIO(numbers.to_csv(index=False))))


def read_cells(cells: Path) -> list[dict[str, str]]:
    """The rows that :func:`write_cells` wrote, as texts by column."""
    with cells.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
