"""The paper scale's plan of an experiment, and its cells by the names of rows and columns."""

from collections.abc import Iterator
from functools import cache

from checked_plan import checked_plan
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import PUBLISHED, load_config
from noisyfl.specs.descriptions import Heading
from noisyfl.specs.published import KEY, Published, read_published


@cache
def plan_of(experiment):
    paper = load_config([ROOT / "config" / "paper.yaml"])
    config = paper.model_copy(update={"experiments": [experiment]})
    return checked_plan(config, "config/paper.yaml")


@cache
def numbers():
    """Every published number."""
    return read_published(PUBLISHED)


@cache
def by_labels():
    """Every published number by its labels."""
    return {tuple(number.fields[key] for key in KEY): number for number in numbers()}


def cells_of(table) -> Iterator[tuple[Heading, Heading, tuple[str, ...]]]:
    """Row, column and run ids of each cell."""
    for row, line in zip(table.rows, table.runs, strict=True):
        for column, runs in zip(table.columns, line, strict=True):
            yield row, column, runs


def number_of(table, row, column) -> Published | None:
    """The published number of a cell."""
    labels = table.cells[table.rows.index(row)][table.columns.index(column)].labels
    return by_labels().get(tuple(labels.get(key) for key in KEY))


def printed_at(plan, table, row, column):
    """What the paper prints in a cell, by the names of its table, row and column."""
    part, one, other, _ = _at(plan, table, row, column)
    return number_of(part, one, other).fields["value"]


def runs_at(plan, table, row, column):
    """The run ids of a cell, by the names of its table, row and column."""
    return _at(plan, table, row, column)[3]


def _at(plan, table, row, column):
    found = [
        (part, one, other, runs)
        for part in plan.tables.values()
        for one, other, runs in cells_of(part)
        if (part.name, one.name, other.name) == (table, row, column)
    ]
    assert len(found) == 1, (table, row, column)
    return found[0]


def spec_at(plan, table, row, column):
    """The spec of a cell's first trial."""
    return plan.runs[runs_at(plan, table, row, column)[0]]
