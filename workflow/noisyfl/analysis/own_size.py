"""Cells that were run exactly in a paper's own setting: their numbers, and what they took."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from noisyfl.analysis.cells import Cell, collect
from noisyfl.analysis.runs import Run
from noisyfl.specs.descriptions import TableDescription


@dataclass(frozen=True)
class OwnSize:
    """A cell with a published number and runs, in the paper's own setting.

    Attributes:
        table: in which it is.
        column: its name.
        row: its name.
        cell: both numbers, and the verdict.
        seeds: of the trials.
        best_rounds: of each trial that counts and has a value, in which of its rounds, from 1, it
            was best; of pooled training, in which epoch.
        hours: that all trials were trained for, together.
        devices: on which, each once.
    """

    table: TableDescription
    column: str
    row: str
    cell: Cell
    seeds: tuple[int, ...]
    best_rounds: tuple[int, ...]
    hours: float
    devices: tuple[str, ...]


def own_size(table: TableDescription, runs: Mapping[str, Run]) -> Iterator[OwnSize]:
    """The cells of a table that were run exactly in a paper's own setting, in its order.

    Args:
        table: with published numbers or without.
    """
    content = collect(table, runs)
    for row in content.trained_rows:
        for column, cell in zip(content.columns, row.cells, strict=True):
            if not (cell.published and cell.as_published and cell.summary):
                continue
            found = content.runs_of(cell)
            values = [run.values(cell.metric) for run in found if not run.diverged]
            devices = itertools.chain(*(run.provenance.devices for run in found))
            yield OwnSize(
                table=table,
                column=column,
                row=row.name,
                cell=cell,
                seeds=tuple(run.spec["seed"] for run in found),
                best_rounds=tuple(int(np.nanargmax(v)) + 1 for v in values if np.isfinite(v).any()),
                hours=sum(run.provenance.training_seconds for run in found) / 3600,
                devices=tuple(dict.fromkeys(devices)),
            )
