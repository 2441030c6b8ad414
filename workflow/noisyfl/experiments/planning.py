"""From configuration to plan: which runs make which tables and figures.

A paper's experiments are data (``config/papers/<paper>.yaml``); a scale (``config/<scale>.yaml``)
overrides some of their values. Everything a user can get wrong in either is found here, before any
job starts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from noisyfl.claims.needs import tables_of_claims
from noisyfl.core.options import find, reading
from noisyfl.core.registry import parts_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.remarks import remarks_on
from noisyfl.data.roots import NotRead
from noisyfl.data.titles import known_titles
from noisyfl.experiments.config import (
    Configuration,
    Overlay,
    experiment_files,
    published_files,
)
from noisyfl.experiments.expansion import Expansion
from noisyfl.experiments.headers import check_known
from noisyfl.experiments.plan import Plan, RunFacts
from noisyfl.experiments.targets import check_names
from noisyfl.specs.catalogue import edited_methods
from noisyfl.specs.cost import Work
from noisyfl.specs.descriptions import CellDescription
from noisyfl.specs.extent import remarks_of, work_of
from noisyfl.specs.identity import canonical_json, identity
from noisyfl.specs.published import Published, read_published
from noisyfl.specs.run_words import changed_options, describe_trials
from noisyfl.specs.spec import check_part


def make_plan(config: Configuration, where: str) -> Plan:
    """Expand a checked configuration; :meth:`Plan.check_targets` says if what it makes is wrong.

    Args:
        where: what the error messages call the configuration.

    Raises:
        BadInput: something is wrong with the configuration or a file of an experiment, beside the
            settings of a table or figure.
    """
    plan = Plan(config.scale)
    with reading(where):
        Overlay.read(config.overlay.as_given(), f"{where}: overlay", check=check_part)
    known = experiment_files(config)

    @functools.cache
    def numbers() -> list[Published]:
        files = published_files(config)
        with reading(", ".join(map(str, files))):
            return read_published(*files)

    own = OwnFiles(config.data.folders, config.results)

    def expand(name: str, path: Path, own: OwnFiles | None) -> Plan:
        with reading(str(path)):
            return Expansion(config, own, where, name, path, numbers()).expand()

    files = {
        name: find(known, name, "experiment", f"{where}: experiments")
        for name in config.experiments
    }
    for name, path in files.items():
        plan.add(_expanded(partial(expand, name, path), own))
    check_names(plan, files)
    plan.own_files, plan.own_images = own.stamps, own.fingerprints
    _check_places_of_overlay(plan, config, known, where)
    names = (*plan.tables, *plan.figures)
    plan.targets = config.targets or []
    known_targets = [*config.experiments, *names, *plan.wrong]
    check_known(known_targets, plan.targets, "target", f"{where}: targets")
    _describe_runs(plan, own)
    _describe_cells(plan)
    _add_titles(plan)
    plan.claim_parts = [name for name in tables_of_claims() if name in names]
    return plan


def _check_places_of_overlay(
    plan: Plan, config: Configuration, known: Mapping[str, Path], where: str
) -> None:
    """Raise :class:`BadInput` if a scale lays values over an experiment, table or figure that there
    is not, or over a figure that takes its settings from a table.

    Those of an experiment that the scale leaves out are not looked at.
    """
    own = [key for key, one in plan.figures.items() if one.partitions and one.table is None]
    with_settings = dict.fromkeys([*plan.tables, *own])
    for kind in ("experiments", "columns", "rows", "add_rows", "trials"):
        for key in getattr(config.overlay, kind):
            place = f"{where}: overlay.{kind}"
            experiment = key.partition("/")[0]
            find(known, experiment, "experiment", place)
            if experiment not in config.experiments or key in plan.wrong:
                continue
            if kind != "experiments":
                find(plan.tables, key, "table", place)
            elif "/" in key:
                find(with_settings, key, "table or figure with a setting", place)


def _describe_cells(plan: Plan) -> None:
    """Add to each table what its page says of its runs that only their declarations tell."""

    def described(cell: CellDescription) -> CellDescription:
        if not cell.runs:
            return cell
        changed = changed_options(plan.runs[cell.runs[0]])
        remarks = plan.facts[cell.runs[0]].remarks
        return replace(cell, changed_options=changed, remarks=remarks)

    for name, table in plan.tables.items():
        cells = tuple(tuple(map(described, row)) for row in table.cells)
        plan.tables[name] = replace(table, cells=cells)


def _add_titles(plan: Plan) -> None:
    """Add to each table and figure what a user calls the data behind it."""

    def titles(partitions: Iterable[str]) -> dict[str, str]:
        specs = [plan.partitions[one] for one in dict.fromkeys(partitions)]
        parts = [part for spec in specs for part in spec.values() if isinstance(part, Mapping)]
        return known_titles(part["sha256"] for part in parts if "sha256" in part)

    for name, table in plan.tables.items():
        found = titles(plan.facts[run].partition for run in table.run_ids())
        plan.tables[name] = replace(table, titles=found)
    for name, figure in plan.figures.items():
        drawn = [*figure.partitions, *(plan.facts[run].partition for run in figure.runs)]
        plan.figures[name] = replace(figure, titles=titles(drawn))


def _expanded(expand: Callable[[OwnFiles | None], Plan], own: OwnFiles) -> Plan:
    """An experiment, of which all that needs no file is checked before one is read."""
    try:
        part = expand(None)
    except NotRead:
        return expand(own)
    # Ids depend on the digests of human labels, for which their files must be read.
    unread = any(not spec["label_noise"].get("sha256", 1) for spec in part.partitions.values())
    return expand(own) if unread else part


def _describe_runs(plan: Plan, own: OwnFiles) -> None:
    """Add to a plan what is known of its runs, and what planning warns of."""
    of_data = {
        name: [*own.remarks_on(spec), *remarks_on(spec)] for name, spec in plan.partitions.items()
    }
    plan.warnings = sorted({*itertools.chain(*of_data.values()), *own.doubts})
    cells: dict[str, str] = {}
    for table in plan.tables.values():
        for row, line in zip(table.rows, table.runs, strict=True):
            for column, cell in zip(table.columns, line, strict=True):
                for run in cell:
                    facts = dataset(plan.runs[run]["noisy_partition"]["dataset"])
                    cells.setdefault(run, f"{row.name}, {facts.title}, {column.name}")
    works: dict[str, Work] = {}
    parts = [field.name for field in fields(Work)]
    for run, spec in plan.runs.items():
        partition, work = identity(spec["noisy_partition"]), work_of(spec)
        plan.facts[run] = RunFacts(
            partition,
            cells.get(run) or describe_trials(spec),
            (*remarks_of(spec), *of_data[partition]),
            works.setdefault(canonical_json({name: getattr(work, name) for name in parts}), work),
        )
    used = {part["name"] for spec in plan.runs.values() for part in parts_of(spec["method"])}
    plan.warnings += edited_methods(used)
