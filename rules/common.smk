# What the rules share: the plan made of the configuration, and where things lie.
import math
import random
import re
import sys
from functools import cache
from os import environ
from os.path import relpath
from uuid import uuid4

from snakemake.logging import logger

from noisyfl.core.artifacts import Results
from noisyfl.specs.sources import printing_digest
from noisyfl.specs.cost import estimate
from noisyfl.experiments.config import check_config, make_plan
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.experiments.demand import unknown_target
from noisyfl.experiments.finished import finished_part
from noisyfl.claims.catalogue import tables_of_claims
from noisyfl.specs.descriptions import (
    TableDescription,
    description_text,
    in_restructured_text,
)
from noisyfl.runs.console import Console
from noisyfl.runs.edited import edited_runs
from noisyfl.runs.edited import lines as edited_lines
from noisyfl.runs.shared_cache import shared_cache
from noisyfl.runs.store import train_anew
from noisyfl.specs.spec import canonical_json, describe_run, identity
from noisyfl.runs.status import tell_jobs

CONFIG_NAME = ", ".join(map(str, workflow.configfiles)) or "config"
if workflow.config_settings.config:
    CONFIG_NAME += " and --config"
IN_A_JOB = "--target-jobs" in sys.argv
tell_jobs(workflow.configfiles, None if IN_A_JOB else uuid4().hex)

PUBLISHED = Path(workflow.basedir) / "config" / "published.csv"

try:
    for file in workflow.configfiles:
        read_yaml(Path(file))  # refuses a key given twice; Snakemake takes the last
    CONFIG = check_config(config, CONFIG_NAME)
    PLAN = make_plan(
        CONFIG, Path(workflow.basedir) / "config" / "papers", CONFIG_NAME, PUBLISHED
    )
    shared_cache()
except BadInput as error:
    raise WorkflowError(str(error)) from None

RESULTS = Results(Path(CONFIG["results"]))
SCALE = RESULTS.root / PLAN.scale
# As a parameter: pages and figures are made anew once their sources are others.
PRINTING = printing_digest()
ORDER = random.random()  # another one in each Snakemake, see run_order()
REPRODUCED = Results(Path(workflow.basedir) / "reproduced")


@cache
def edited():
    """The runs in results whose method has been edited since they were trained."""
    return edited_runs(PLAN.runs, RESULTS)


if not IN_A_JOB:
    for why in PLAN.left_out.values():
        logger.warning(f"Left out: {why}")
    for line in edited_lines(edited(), PLAN.runs, RESULTS):
        logger.warning(line)
    CONSOLE = Console(
        RESULTS,
        relpath(workflow.configfiles[0]),
        workflow.output_settings.show_failed_logs,
    )
    CONSOLE.attach(logger.handlers)

    onerror:
        logger.error(CONSOLE.summary())


wildcard_constraints:
    dataset="[a-z0-9_]+",
    partition="[0-9a-f]{16}",
    run="[0-9a-f]{16}",
    experiment="[a-z][a-z0-9_]*",
    name="[a-z][a-z0-9_]*",


@cache
def run_files(run):
    """The artifact of a run in results, or in reproduced/ if only that exists and may be used."""
    trained, tracked = RESULTS.run(run), REPRODUCED.run(run)
    if not CONFIG["reproduced"] or trained.provenance.exists():
        return trained
    return tracked if tracked.provenance.exists() else trained


@cache
def partition_file(partition):
    """A noisy partition in results, or in reproduced/ if only that exists and may be used."""
    made, tracked = RESULTS.partition(partition), REPRODUCED.partition(partition)
    if not CONFIG["reproduced"] or made.exists():
        return made
    return tracked if tracked.exists() else made


if not CONFIG["train_missing"]:
    PLAN = finished_part(
        PLAN,
        lambda run: run_files(run).provenance.exists(),
        lambda partition: partition_file(partition).exists(),
    )


def artifacts_of(runs):
    """The files that stand for runs as inputs: of every run the one that is written last, and if
    that is there, those of its other files that are lost.

    The fewer files are named, the faster Snakemake plans thousands of runs.
    """
    paths = []
    for files in map(run_files, runs):
        paths.append(files.provenance)
        if files.provenance.exists():
            paths += [path for path in files.all() if not path.exists()]
    return paths


def table_files(table):
    """The files of a table."""
    return [
        SCALE / "tables" / table.experiment / f"{table.name}.{ending}"
        for ending in ("parquet", "csv", "md", "html", "tex")
    ]


def figure_files(figure):
    """The files of a figure."""
    return [
        SCALE / "figures" / figure.experiment / f"{figure.name}.{ending}"
        for ending in ("png", "pdf")
    ]


def parts_of_target(target):
    """The tables and figures of an experiment, or the one that is called <experiment>/<name>."""
    return [
        part
        for parts in (PLAN.tables, PLAN.figures)
        for name, part in parts.items()
        if target in (name, part.experiment)
    ]


def files_of(parts):
    """The files of tables and figures."""
    return [
        path
        for part in parts
        for path in (
            table_files(part)
            if isinstance(part, TableDescription)
            else figure_files(part)
        )
    ]


def wanted():
    """The tables and figures that the scale makes if no target is given."""
    return [
        part
        for target in CONFIG["targets"] or CONFIG["experiments"]
        for part in parts_of_target(target)
    ]


def frames_of_papers():
    """The frame of every wanted table that has published numbers."""
    return [
        SCALE / "tables" / part.experiment / f"{part.name}.parquet"
        for part in wanted()
        if isinstance(part, TableDescription) and part.published is not None
    ]


def comparisons():
    """The files that compare the wanted tables with the papers, if any has published numbers."""
    if not frames_of_papers():
        return []
    evidence = [SCALE / "evidence.md"] if EVIDENCE is not None else []
    pages = [SCALE / "claims.html", SCALE / "explorer.html"]
    return [SCALE / "cells.csv", *pages, *evidence]


def claimed():
    """By name, the wanted tables and figures that claims are held against."""
    parts = {f"{part.experiment}/{part.name}": part for part in wanted()}
    return {name: parts[name] for name in tables_of_claims() if name in parts}


def table_pages():
    """By name, the pages of the wanted tables beside the page of claims, without an ending."""
    parts = [part for part in wanted() if isinstance(part, TableDescription)]
    names = [f"{part.experiment}/{part.name}" for part in parts]
    return {name: f"tables/{name}" for name in names}


def runs_of_parts(parts):
    """The runs of tables and figures, each once."""
    runs = (
        part.run_ids() if isinstance(part, TableDescription) else part.runs
        for part in parts
    )
    return list(dict.fromkeys(run for some in runs for run in some))


def partitions_of(runs):
    """The noisy partitions of runs, each once."""
    found = dict.fromkeys(identity(PLAN.runs[run]["noisy_partition"]) for run in runs)
    return list(map(partition_file, found))


class RunWords:
    """Tells what a run is called on the console: ``{RUN_WORDS:<id>}`` in a rule's message.

    The words are not in the rule's params, since a change of these would train the run anew.
    """

    def __format__(self, run):
        return in_words(run)


@cache
def cells_of_runs():
    """By run, the names of the row and the column of the first table that it is in."""
    found = {}
    for table in PLAN.tables.values():
        for row, cells in zip(table.rows, table.runs):
            for column, cell in zip(table.columns, cells):
                for run in cell:
                    found.setdefault(run, (row.name, column.name))
    return found


def in_words(run):
    """A run as its table has it: "FedCorr, cifar10, ρ=0.6 τ=0.5, seed 2"."""
    spec = PLAN.runs[run]
    if run not in cells_of_runs():
        return describe_run(spec)
    row, column = cells_of_runs()[run]
    dataset = spec["noisy_partition"]["dataset"]
    return f"{row}, {dataset}, {column}, seed {spec['seed']}"


RUN_WORDS = RunWords()


def check_targets():
    """Raise an error that names the nearest target if somebody typed one that does not exist, which
    Snakemake would take for a file.

    Snakemake's own parser is slow, so it is asked only if a word might be such a target.
    """
    known = {
        "all",
        "data",
        "partition",
        "train",
        "table",
        "figure",
        "cells",
        "claims",
        "evidence",
        "explorer",
    }
    for part in (*PLAN.tables.values(), *PLAN.figures.values()):
        known |= {part.experiment, f"{part.experiment}_{part.name}"}
    names = {word for word in sys.argv[1:] if re.fullmatch(r"[a-z]\w*(=.*)?", word)}
    typed = "snakemake" in Path(sys.argv[0]).parts[-2:] and not IN_A_JOB
    if not typed or names <= known:
        return
    from snakemake.cli import get_argument_parser

    for target in get_argument_parser().parse_known_args()[0].targets:
        if target in names and target not in known and PLAN.why_left_out(target):
            raise WorkflowError(PLAN.why_left_out(target))
        if target in names and target not in known and not Path(target).exists():
            raise WorkflowError(unknown_target(target, PLAN.scale, known))


check_targets()
CLAIMED = claimed()
TABLES = [part for part in wanted() if isinstance(part, TableDescription)]

# The table of every method in common settings, where the scale makes it.
EVIDENCE = next(
    (p for p in wanted() if (p.experiment, p.name) == ("grand", "common")), None
)
