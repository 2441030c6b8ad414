"""The tidy frame: one row per table, row, column and run. All that is printed is a view of it.

A cell without runs has rows, too: one for each column that it averages, or else a single one. So do
the cells of those lines of the paper's table that are not trained here. The columns, in this order:

===================  ==============================================================================
``experiment``       the name of our experiment, with that of our table in ``table``
``row``              the row's name, with ``row_group`` and ``row_label``; its number from 0 is
                     ``row_number``; ``trained`` is False for the paper's lines that are not ours
``our_method``       the names of the method's parts, joined by ``+``; for a line that is not
                     trained, the paper's name
``column``           the column's name, with ``column_group``, ``column_label`` and its number
                     ``column_number``; ``x``, where a figure draws it (NaN if nowhere)
label columns        ``paper``, ``paper_table``, ``dataset``, ``setting_scope``, ``partition``,
                     ``noise``, ``method``, ``variant``, ``metric``: the columns of that name
                     (``table`` for ``paper_table``) of ``config/published.csv``. For a cell without
                     a published number they hold what the experiment's file gives, or are empty
``metric``           what the cell shows: a name in :data:`noisyfl.analysis.metrics.MEASURES`
``statistic``        the statistic that summarizes a run: a name in
                     :data:`noisyfl.analysis.summaries.STATISTICS`
``unit``             the unit of all values and numbers: shares are in percent, bytes in MB
``as_published``     the setting and the method are the paper's in every option
``published``        the paper's number, NaN if there is none; with ``published_std`` (NaN if not
                     printed), ``published_starred`` (the paper prints a maximum),
                     ``published_trials`` (0 if unknown) and ``published_decimals``
``trial``            the number, from 1, of the run or of the averaged column in its cell; 0 in the
                     only row of a cell that has neither
``run``              the run's id; empty if there is none
``seed``             the run's seed; 0 if there is none
``setting``          names what the run's method is trained on, and for how long, see
                     :func:`~noisyfl.analysis.runs.setting_of`; empty if there is no run
``status``           how the run ended: ``finished`` or ``diverged``; empty if there is none
``value``            what the row contributes to the cell's mean: the statistic of the run, NaN if
                     the run diverged or does not have the metric
``starred``          the run did not converge (FedNoiL's rule)
statistics           ``best``, ``last``, ``mean_last_10``, ``final_or_max``, ``mean``: every
                     statistic of the run, even if that diverged; NaN where it has no value
===================  ==============================================================================

Our number for a cell is the mean of ``value`` over its rows. With ``final_or_max`` the paper stars
whole cells, so ``value`` is the maximum of every run if most of the cell's runs are starred, and
the last value of every run otherwise.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from noisyfl.analysis.metrics import MEASURES, RANK
from noisyfl.analysis.names import SETTING, printed_names
from noisyfl.analysis.runs import Run, setting_of, start_of
from noisyfl.analysis.summaries import STATISTICS, Summary, star_rule, summary
from noisyfl.core.artifacts import read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.specs.descriptions import Heading, Labels, TableDescription, complete_block
from noisyfl.specs.published import KEY, LINE, Number

LABELS = ["paper_table" if key == "table" else key for key in KEY]
"""The label columns of the published numbers, as the frame calls them."""

Rows = list[dict[Any, Any]]
"""Rows of the frame, each by column."""

NUMBER = [
    *("published", "published_std", "published_starred", "published_trials"),
    "published_decimals",
]
"""The columns that hold a published number and what is known of it."""

TRIAL = ["trial", "run", "seed", "start", "setting", "status", "value", "starred", *STATISTICS]
"""Columns that differ between the rows of a cell."""

CELL = ["experiment", "table", "row_number", "column_number"]
"""Columns that tell the cells of all tables apart."""

PLACE = ["row_number", "column_number"]
"""Columns that tell the cells of a table apart."""

COLUMNS = [
    *("experiment", "table", "row", "row_group", "row_label", "row_number", "trained"),
    "our_method",
    *("column", "column_group", "column_label", "column_number", "x"),
    *(*LABELS, "statistic", "unit", "as_published", *NUMBER, *TRIAL),
]

ABSENT: dict[str, Any] = {
    **dict.fromkeys((*LABELS, "run", "start", "setting", "status"), ""),
    **dict.fromkeys(("published_trials", "published_decimals", "trial", "seed"), 0),
    **dict.fromkeys(("published_starred", "starred"), False),
}
"""By column, what stands for a missing value; in other columns of numbers it is NaN."""


def tidy(table: TableDescription, runs: Mapping[str, Run]) -> pd.DataFrame:
    """The frame of a table.

    Raises:
        BadInput: two published numbers belong into one cell.
    """
    cells = pd.DataFrame(list(_cells(table)))
    trials = pd.DataFrame(list(_trials(table, runs)), columns=[*PLACE, *TRIAL])
    ours = _with_ranks(table, cells.merge(trials, on=PLACE, how="left", validate="one_to_many"))
    others = lines_not_run(table, f"{table.experiment}/{table.name}")
    frame = pd.concat([ours, *others], ignore_index=True)
    frame = frame.assign(experiment=table.experiment, table=table.name).reindex(columns=COLUMNS)
    kinds = {name: type(value) for name, value in ABSENT.items()}
    kinds |= dict.fromkeys(("x", "published", "published_std", "value", *STATISTICS), float)
    frame = frame.fillna(ABSENT).astype(kinds)
    return frame.sort_values([*PLACE, "trial"], ignore_index=True)


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as Parquet, with a checksum."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    # Pandas's texts may be Arrow's `large_string`.
    texts = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    write_table(path, table.cast(pa.schema(texts)), {})


def read_frame(path: Path) -> pd.DataFrame:
    """The frame that :func:`write_frame` has written.

    Raises:
        DamagedArtifact: the file is damaged.
    """
    return read_table(path)[0].to_pandas()


def read_frames(paths: Iterable[Path]) -> pd.DataFrame:
    """The rows of all files of frames, in order; raises as :func:`read_frame`."""
    return join_frames([read_frame(path) for path in paths])


def join_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames, in order."""
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)


def cells_of(frame: pd.DataFrame) -> list[list[Rows]]:
    """The lines of all tables in order, each with the frame's rows of each of its cells."""
    rows = frame.to_dict("records")
    lines = itertools.groupby(rows, key=operator.itemgetter(*CELL[:-1]))
    return [
        [list(cell) for _, cell in itertools.groupby(line, key=operator.itemgetter(CELL[-1]))]
        for _, line in lines
    ]


def summaries(cell: Rows) -> dict[str, Summary]:
    """Summaries of a cell by every statistic, over the rows that count; empty if none does."""
    counted = [row for row in cell if not math.isnan(row["value"])]
    if not counted:
        return {}
    trials = sum(row["trial"] > 0 for row in counted)
    stars = [row["starred"] for row in counted]
    found = {}
    for name in STATISTICS:
        column, starred = star_rule(name, stars) if counted[0]["run"] else (name, False)
        found[name] = replace(summary([row[column] for row in counted], starred), trials=trials)
    return found


def column_values(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean of each row in each column that has runs, signed so that larger is better.

    The result is [columns, rows], labelled by their numbers. The means of a column are over the
    seeds that all of its rows with runs have, or over all seeds if there is no such seed. A cell of
    which a trial diverged or has no value is NaN, which ranks last: a mean over its other trials
    would say nothing.
    """
    runs = frame[frame["run"].fillna("") != ""]
    rows = runs.groupby("column_number")["row_number"].transform("nunique")
    shared = runs.groupby(["column_number", "seed"])["row_number"].transform("nunique") == rows
    runs = runs[shared | ~shared.groupby(runs["column_number"]).transform("any")]
    less = runs["metric"].map(lambda metric: MEASURES[metric].less_is_better)
    worth = runs.assign(worth=runs["value"].where(~less, -runs["value"]))
    cells = worth.groupby(PLACE[::-1])["worth"]
    return cells.mean().where(cells.count() == cells.size()).unstack()


def _with_ranks(table: TableDescription, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with average ranks filled in, in the columns that show them.

    Rows are ranked, and their ranks averaged, in the block of rows and columns without a missing
    run, see :func:`noisyfl.specs.descriptions.complete_block`.
    """
    asking = [c for c, column in enumerate(table.columns) if column.average_rank]
    ranked = [r for r, row in enumerate(table.rows) if row.ranked]
    rows, columns = complete_block(tuple(table.runs[r] for r in ranked))
    ranked = [ranked[r] for r in rows]
    columns = [
        c
        for c in columns
        if all(MEASURES[table.metric_of(table.rows[r], table.columns[c])].is_ranked for r in ranked)
    ]
    if asking and len(ranked) > 1:
        values = column_values(frame[frame["row_number"].isin(ranked)]).loc[columns, ranked]
        ranks = values.rank(axis="columns", ascending=False, na_option="bottom")
        average = frame["row_number"].map(ranks.mean())
        for name in ("value", *STATISTICS):
            frame[name] = average.where(frame["column_number"].isin(asking), frame[name])
    return frame


def _cells(table: TableDescription) -> Iterator[dict[str, Any]]:
    """The cells of our rows, without their numbers: names, labels, metric and statistic."""
    names = [column.name for column in table.columns]
    for (r, row), (c, column) in _places(table):
        cell = table.cells[r][c]
        labels = {key: cell.labels.get(key, "") for key in KEY}
        metric = RANK if column.average_rank else table.metric_of(row, column)
        parts = [names.index(name) for name in column.mean_of if name in names]
        averaged = [table.cells[r][part].as_published for part in parts]
        yield {
            "row": row.name,
            "row_group": row.group,
            "row_label": row.label or row.name,
            "row_number": r,
            "trained": True,
            "our_method": row.method_name,
            **_column(c, column),
            **dict(zip(LABELS, labels.values(), strict=True)),
            "metric": metric,
            "statistic": table.statistic_of(row, column),
            "unit": MEASURES[metric].unit,
            "as_published": all(averaged) and len(averaged) == len(column.mean_of)
            if column.mean_of
            else cell.as_published,
            **_number(cell.number),
        }


def _number(fields: Labels) -> dict[str, Any]:
    """A published number, as the frame has it; NaN for none."""
    if not fields:
        absent = {name: ABSENT[name] for name in NUMBER if name in ABSENT}
        return {"published": math.nan, "published_std": math.nan, **absent}
    number = Number.of(fields)
    return {
        "published": number.value,
        "published_std": math.nan if number.std is None else number.std,
        "published_starred": number.starred,
        "published_trials": int(fields["trials"] or 0),
        "published_decimals": number.decimals,
    }


def _column(number: int, column: Heading) -> dict[str, Any]:
    return {
        "column": column.name,
        "column_group": column.group,
        "column_label": column.label or column.name,
        "column_number": number,
        "x": math.nan if column.x is None else float(column.x),
    }


def _places(table: TableDescription) -> Iterator[tuple[tuple[int, Heading], tuple[int, Heading]]]:
    """Rows and columns of all cells with their numbers."""
    return itertools.product(enumerate(table.rows), enumerate(table.columns))


def _trials(table: TableDescription, runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """The rows of each cell that has runs, or averages columns: the frame's columns by trial."""
    found: dict[tuple[int, int], Rows] = {}
    for (r, row), (c, column) in _places(table):
        metric, statistic = table.metric_of(row, column), table.statistic_of(row, column)
        found[r, c] = rows_by_trial([runs[run] for run in table.runs[r][c]], metric, statistic)
    numbers = {column.name: c for c, column in enumerate(table.columns)}
    for (r, row), (c, column) in _places(table):
        if column.mean_of and set(column.mean_of) <= set(numbers):
            parts = [found[r, numbers[name]] for name in column.mean_of]
            found[r, c] = average_of_cells(parts, table.statistic_of(row, column))
    for (r, c), rows in found.items():
        for row_of_cell in rows:
            yield {"row_number": r, "column_number": c, **row_of_cell}


def rows_by_trial(runs: Sequence[Run], metric: str, statistic: str) -> Rows:
    """The rows of a cell with these runs: of each run, the columns :data:`TRIAL`.

    Args:
        metric: a name in :data:`noisyfl.analysis.metrics.MEASURES`.
        statistic: a name in :data:`noisyfl.analysis.summaries.STATISTICS`.
    """
    factor = MEASURES[metric].factor
    found, counted = [], []
    for trial, run in enumerate(runs, 1):
        values = run.series(metric)[1].tolist()
        of_run = {name: function(values) for name, function in STATISTICS.items() if values}
        found.append(
            {
                "trial": trial,
                "run": run.id,
                "seed": run.spec["seed"],
                "start": start_of(run.spec),
                "setting": setting_of(run.spec),
                "status": run.provenance.status,
                "starred": bool(values) and of_run["final_or_max"].starred,
                "value": math.nan,
                **{name: factor * value.value for name, value in of_run.items()},
            }
        )
        if values and not run.diverged:
            counted.append(found[-1])
    column, _ = star_rule(statistic, [row["starred"] for row in counted])
    for row in counted:
        row["value"] = row[column]
    return found


def average_of_cells(parts: Sequence[Rows], statistic: str) -> Rows:
    """One row per averaged cell (FedRN, Table 8); none if any of these cells has no number."""
    known = [summaries(part) for part in parts]
    if not all(known):
        return []
    means = [{name: found.mean for name, found in one.items()} for one in known]
    diverged = [any(row["status"] == "diverged" for row in part) for part in parts]
    return [
        {"trial": n, "status": "diverged" * bad, "value": mean[statistic], **mean}
        for n, (bad, mean) in enumerate(zip(diverged, means, strict=True), 1)
    ]


def lines_not_run(table: TableDescription, where: str) -> list[pd.DataFrame]:
    """The lines of the paper's table that belong to none of our rows, as a frame; none if there are
    none.

    Its lines differ in :data:`LINE`, and in those columns of :data:`SETTING` by which neither our
    table nor any of its columns selects published numbers.

    Args:
        table: the table, for which no run is needed.
        where: what the error messages call it.

    Raises:
        BadInput: two published numbers belong into one cell.
    """
    if not (table.other_numbers and any(map(_is_compared, table.columns))):
        return []
    numbers = pd.DataFrame(
        {**{label: fields[key] for key, label in zip(KEY, LABELS, strict=True)}, **_number(fields)}
        for fields in table.other_numbers
    )
    chosen = {*(table.published or {}), *(key for c in table.columns for key in c.published or {})}
    telling = [*LINE, *(key for key in SETTING if key not in chosen)]
    found = pd.concat(
        numbers[_fits(numbers, table, column)].assign(column_number=c)
        for c, column in enumerate(table.columns)
        if _is_compared(column)
    )
    lines = found[telling].drop_duplicates(ignore_index=True)
    lines["row"] = lines["row_label"] = printed_names(lines.to_dict("records"), table)
    lines["row_number"] = len(table.rows) + lines.index
    found = found.merge(lines, on=telling, validate="many_to_one")
    for _, twice in found[found.duplicated(PLACE, keep=False)].groupby(PLACE):
        column = table.columns[twice["column_number"].iloc[0]].name
        differing = [k for k, label in zip(KEY, LABELS, strict=True) if twice[label].nunique() > 1]
        raise BadInput(
            f"{where}: row {twice['row'].iloc[0]!r}, column {column!r}: got {len(twice)} published "
            f"numbers, expected one; they differ in {', '.join(differing)}"
        )
    columns = pd.DataFrame(
        {
            **_column(c, column),
            "metric": table.metric_of(None, column),
            "statistic": table.statistic_of(None, column),
        }
        for c, column in enumerate(table.columns)
    )
    columns["unit"] = columns["metric"].map(lambda metric: MEASURES[metric].unit)
    known = found.drop(columns=["row", "row_label", "metric", *telling])
    grid = lines.merge(columns, how="cross").merge(known, on=PLACE, how="left")
    grid = grid.assign(row_group="", trained=False, our_method=grid["method"], as_published=False)
    return [grid]


def _is_compared(column: Heading) -> bool:
    """Whether a column shows published numbers."""
    return bool(column.published) or (column.has_runs and column.published is not None)


def _fits(numbers: pd.DataFrame, table: TableDescription, column: Heading) -> pd.Series:
    """For each published number, whether a column of ours would show it."""
    wanted = {
        "metric": table.metric_of(None, column),
        **(table.published or {}),
        **(column.published or {}),
    }
    keys = [key for key in wanted if key not in LINE]
    names = dict(zip(KEY, LABELS, strict=True))
    return pd.concat([numbers[names[key]] == wanted[key] for key in keys], axis="columns").all(
        axis="columns"
    )
