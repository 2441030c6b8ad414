"""All data of the page: what it shows at once, and what it reads when a cell is clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.analysis.cells import collect, content_of
from noisyfl.analysis.frame import read_frame
from noisyfl.analysis.metrics import METRICS, SYMBOLS
from noisyfl.analysis.runs import Run, read_run
from noisyfl.analysis.statistics import SIGNS, VERDICTS
from noisyfl.analysis.summaries import STATISTICS, WORDS
from noisyfl.claims.judgement import Judgement
from noisyfl.core.artifacts import Results, RunFiles
from noisyfl.core.paths import from_here
from noisyfl.core.tracked import find_partition
from noisyfl.explorer import claims, curves, methods
from noisyfl.explorer.specs import Spec
from noisyfl.explorer.tables import Tables
from noisyfl.runs.status import read_statuses
from noisyfl.specs.descriptions import TableDescription
from noisyfl.specs.run_words import describe_run

TOTALS = ("bytes_down", "bytes_up")
"""Columns of ``rounds`` that are summed over a run."""


@dataclass(frozen=True)
class ShownScale:
    """What a page says of a scale.

    Attributes:
        note: its note, which describes it.
        reasons: why it overrides settings, by their names.
        options: the command-line options with which Snakemake takes it.
    """

    name: str
    note: str
    reasons: Mapping[str, str]
    options: str


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a page shows.

    Attributes:
        tables: the tables that are printed.
        frames: the files of the tables' frames, in the order of ``tables``.
        runs: the artifact of every run of the tables, by id.
        layouts: where noisy partitions may lie; runs are trained in the first.
        scale_tables: the tables of the scale by name, including runs that are not trained.
        paper_tables: the same tables in the papers' own settings.
        plan: the specs of the runs in ``scale_tables`` and ``paper_tables``, by id.
        judgements: the claims, if any table has published numbers.
        paper_scale: the scale of the stored runs at paper scale, if any of the tables has some.
        paper_scale_tables: its tables, each with the artifacts of its runs by id.
    """

    scale: ShownScale
    tables: Sequence[TableDescription]
    frames: Sequence[Path]
    runs: Mapping[str, RunFiles]
    layouts: Sequence[Results]
    scale_tables: Mapping[str, TableDescription]
    paper_tables: Mapping[str, TableDescription]
    plan: Mapping[str, Spec]
    judgements: Sequence[Judgement] = field(default=())
    paper_scale: ShownScale | None = None
    paper_scale_tables: Sequence[tuple[TableDescription, Mapping[str, RunFiles]]] = ()


def gather(sources: Sources) -> tuple[dict[str, Any], dict[str, Any]]:
    """Collect what the page shows at once, and what it shows of single cells.

    Raises:
        DamagedArtifact: a file of a run or a partition is damaged, or belongs to a different one.
    """
    runs = {run: read_run(run, files) for run, files in sources.runs.items()}
    plan = {**sources.plan, **{run: found.spec for run, found in runs.items()}}
    tables = Tables(sources.scale_tables, sources.paper_tables, plan, failures(sources.layouts))
    scales = [sources.scale]
    for description, frame in zip(sources.tables, sources.frames, strict=True):
        tables.add(content_of(description, read_frame(frame), runs), sources.scale.name)
    if sources.paper_scale:
        scales.append(sources.paper_scale)
        for description, files in sources.paper_scale_tables:
            found = {run: read_run(run, one) for run, one in files.items()}
            runs |= found
            plan |= {run: one.spec for run, one in found.items()}
            tables.add(collect(description, found), sources.paper_scale.name, main=False)
    shown = [runs[run] for run in tables.run_ids]
    index = {
        "scale": sources.scale.name,
        "scales": {one.name: asdict(one) for one in scales},
        "results": sources.layouts[0].root.as_posix(),
        "signs": SIGNS,
        "verdicts": VERDICTS,
        "statistics": WORDS,
        "metrics": {
            name: {"label": METRICS[name].label, "unit": SYMBOLS[METRICS[name].unit]}
            for name in dict.fromkeys(
                [*METRICS, *(cell["metric"] for cell in tables.cells if cell["metric"] in METRICS)]
            )
        },
        "tables": tables.tables,
        "cells": tables.cells,
        "runs": [run_to_json(run, tables.specs.number(run.spec), sources.layouts) for run in shown],
        "specs": tables.specs.descriptions,
        "claims": claims.claims_to_json(sources.judgements, tables.places),
        "methods": methods.describe_methods(),
    }
    first = {cell["runs"][0] for cell in tables.cells if cell["runs"]}
    # Only of first runs is the whole partition drawn.
    whole: dict[str, bool] = {}
    for n, run in enumerate(shown):
        whole[run.partition] = whole.get(run.partition, False) or n in first
    files_of = {one: find_partition(one, sources.layouts) for one in whole}
    details = {
        "runs": [curves.details(run, tables.metrics_of[run.id]) for run in shown],
        "partitions": {
            one: curves.partition(path, whole[one]) for one, path in files_of.items() if path
        },
        "relabelled": curves.RELABELLED,
        "estimates": curves.ESTIMATES,
    }
    return index, details


def failures(layouts: Sequence[Results]) -> dict[str, str]:
    """The error of each run whose last training failed, by id; damaged statuses say nothing."""
    said, _ = read_statuses(layouts[0])
    return {run: str(one.error) for run, one in said.items() if one.state == "failed"}


def run_to_json(run: Run, spec: int, layouts: Sequence[Results]) -> dict[str, Any]:
    """What the page shows of a run; ``spec`` is the number of its spec.

    It is ``stored`` if it does not lie in the first layout, where runs are trained: a command that
    names its file trains it.
    """
    accuracies = list(run.accuracies)
    return {
        "id": run.id,
        "spec": spec,
        "words": describe_run(run.spec),
        "seed": run.spec["seed"],
        "partition": run.partition,
        "folder": from_here(run.folder.parent),
        "stored": run.folder != layouts[0].run(run.id).folder,
        "rounds": len(run.all_rounds["round"]),
        "ordinary_rounds": round(float(run.all_rounds["ordinary_rounds"][-1]), 3),
        "statistics": {
            name: round(100 * function(accuracies).value, 4)
            for name, function in STATISTICS.items()
            if accuracies
        },
        "totals": {
            name: int(np.nansum(run.all_rounds[name])) for name in TOTALS if name in run.all_rounds
        },
        "made": run.provenance.as_given(),
    }
