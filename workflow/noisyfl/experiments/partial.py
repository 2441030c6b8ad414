"""The part of a plan that needs no training: what can be made of the runs that exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from noisyfl.experiments.plan import Plan
from noisyfl.specs.descriptions import (
    FigureDescription,
    TableDescription,
    complete_block,
)

Exists = Callable[[str], bool]
"""Whether the run, or the noisy partition, of an id exists."""


def partial_plan(plan: Plan, has_run: Exists, has_partition: Exists) -> Plan:
    """The plan with its tables and figures cut down to the runs that exist.

    Every table stays: cells without runs are empty, and the table says how many runs are missing
    and what they cost. A figure shows those rows and columns of its table in which every cell has
    a run, or those panels and lines whose runs exist; a figure of which too little is left to be
    drawn is dropped.

    Args:
        plan: of everything that the scale asks for; its runs and partitions are kept as they are.
        has_run: whether a run of a table or figure exists.
        has_partition: whether a noisy partition of a figure exists.
    """
    part = replace(plan, figures={})
    part.tables = {name: _table(table, plan, has_run) for name, table in plan.tables.items()}
    for name, figure in plan.figures.items():
        found = _figure(figure, has_run, has_partition)
        if found is not None:
            part.figures[name] = found
    return part


def _table(table: TableDescription, plan: Plan, exists: Exists) -> TableDescription:
    missing = [run for run in table.run_ids() if not exists(run)]
    seconds = sum(plan.estimate(run, "cpu").seconds for run in missing)
    return replace(
        _existing(table, exists), missing=len(missing), missing_hours=round(seconds / 3600, 1)
    )


def _existing(table: TableDescription, exists: Exists) -> TableDescription:
    """The table with those of its runs that exist."""
    return table.with_runs([[[*filter(exists, cell)] for cell in row] for row in table.runs])


def _figure(
    figure: FigureDescription, has_run: Exists, has_partition: Exists
) -> FigureDescription | None:
    """What is left of a figure; None if nothing is."""
    if figure.table is not None:
        figure_part = _of_a_table(figure, figure.table, has_run)
    else:
        figure_part = figure.without_runs(lambda run: not has_run(run))
    if figure_part is None or not all(map(has_partition, figure_part.partitions)):
        return None
    return figure_part


def _of_a_table(
    figure: FigureDescription, table: TableDescription, exists: Exists
) -> FigureDescription | None:
    existing = _existing(table, exists)
    rows, columns = complete_block(existing.runs)
    if not rows:
        return None
    sizes = [(len(rows), len(table.rows), "row"), (len(columns), len(table.columns), "column")]
    few = " and ".join(f"{n} of {whole} {word}s" for n, whole, word in sizes if n < whole)
    note = f" Of what is trained: {few}." if few else ""
    part = existing.part(rows, columns)
    runs = tuple(part.run_ids())
    return replace(figure, table=part, runs=runs, caption=figure.caption.rstrip() + note)
