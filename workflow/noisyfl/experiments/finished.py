"""The part of a plan that needs no training: what can be made of the runs that exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from noisyfl.experiments.plan import Plan
from noisyfl.specs.descriptions import (
    FigureDescription,
    Panel,
    Runs,
    TableDescription,
    complete_block,
)

There = Callable[[str], bool]
"""Whether the run, or the noisy partition, of an id exists."""


def finished_part(plan: Plan, run_there: There, partition_there: There) -> Plan:
    """The plan with its tables and figures cut down to the runs that exist.

    Every table stays: cells without runs are empty, and the table says how many runs are missing
    and what they cost. A figure shows those rows and columns of its table in which every cell has
    a run, or those panels and lines whose runs exist; a figure with nothing left is dropped.

    Args:
        plan: of everything that the scale asks for; its runs and partitions are kept as they are.
        run_there: whether a run of a table or figure exists.
        partition_there: whether a noisy partition of a figure exists.
    """
    part = replace(plan, figures={})
    part.tables = {name: _table(table, plan, run_there) for name, table in plan.tables.items()}
    for name, figure in plan.figures.items():
        left = _figure(figure, run_there, partition_there)
        if left is not None:
            part.figures[name] = left
    return part


def _table(table: TableDescription, plan: Plan, there: There) -> TableDescription:
    missing = [run for run in table.run_ids() if not there(run)]
    seconds = sum(plan.estimate(run, "cpu").seconds for run in missing)
    return replace(
        table,
        runs=_left(table.runs, there),
        missing=len(missing),
        missing_hours=round(seconds / 3600, 1),
    )


def _left(runs: Runs, there: There) -> Runs:
    return tuple(tuple(tuple(filter(there, cell)) for cell in row) for row in runs)


def _figure(
    figure: FigureDescription, run_there: There, partition_there: There
) -> FigureDescription | None:
    """What is left of a figure; None if nothing is."""
    if figure.table is not None:
        drawn = _of_a_table(figure, figure.table, run_there)
    else:
        drawn = _of_panels(figure, run_there, partition_there)
    if drawn is None or not all(map(partition_there, drawn.partitions)):
        return None
    return drawn


def _of_a_table(
    figure: FigureDescription, table: TableDescription, there: There
) -> FigureDescription | None:
    left = replace(table, runs=_left(table.runs, there))
    rows, columns = complete_block(left.runs)
    if not rows:
        return None
    shown = [(len(rows), len(table.rows), "row"), (len(columns), len(table.columns), "column")]
    few = " and ".join(f"{n} of {whole} {word}s" for n, whole, word in shown if n < whole)
    note = f" Of what is trained: {few}." if few else ""
    part = left.part(rows, columns)
    runs = tuple(part.run_ids())
    return replace(figure, table=part, runs=runs, caption=figure.caption.rstrip() + note)


def _of_panels(
    figure: FigureDescription, run_there: There, partition_there: There
) -> FigureDescription | None:
    def left(panels: Iterable[Panel]) -> tuple[Panel, ...]:
        found = []
        for panel in panels:
            lines = left(panel.lines)
            if bool(lines) == bool(panel.lines) and (not panel.run or run_there(panel.run)):
                found.append(replace(panel, lines=lines))
        return tuple(found)

    panels = left(figure.panels)
    drawn = _drawn(panels)
    if not drawn:
        return None
    return replace(
        figure,
        panels=panels,
        runs=tuple(line.run for line in drawn if line.run),
        partitions=tuple(line.partition for line in drawn if line.partition),
    )


def _drawn(panels: Sequence[Panel]) -> list[Panel]:
    """The lines of panels, or the panels that have none."""
    return [line for panel in panels for line in panel.lines or (panel,)]
