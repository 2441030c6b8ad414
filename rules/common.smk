# What the rules share: the plan of the configuration, and the files that it asks for.
import random
import shlex
import sys
from functools import cache, partial
from os import environ
from os.path import relpath

import yaml
from snakemake.utils import update_config

from noisyfl.core.checked_yaml import changes, read_yaml
from noisyfl.experiments.config import (
    check_config,
    experiment_files,
    published_files,
)
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile, read_plan
from noisyfl.experiments.scale import Scale
from noisyfl.core.tracked import REPRODUCED
from noisyfl.runs.shared_cache import check_shared_cache
from noisyfl.runs.slurm import check_slurm
from noisyfl.runs.status import forget_failures, scale_words
from noisyfl.runs.store import forget
from noisyfl.specs.descriptions import in_restructured_text, script_safe
from noisyfl.specs.sources import printing_digest

OWN_SIZE = ROOT / "config" / "own_size.yaml"
IN_A_JOB = "--target-jobs" in sys.argv

try:
    CONFIG_NAME = f"the configuration of module {__name__}"
    ON_COMMAND_LINE = {}
    if not IMPORTED:
        in_files = {}
        for file in map(Path, workflow.configfiles):
            read_yaml(file)  # rejects a key given twice; Snakemake takes the last
            update_config(in_files, yaml.safe_load(file.read_text()))
        ON_COMMAND_LINE = changes(in_files, config)
        CONFIG_NAME = ", ".join(map(str, workflow.configfiles)) or "config"
        CONFIG_NAME += " and --config" if ON_COMMAND_LINE else ""
    CONFIG = check_config(config, CONFIG_NAME)
    check_shared_cache()
    PUBLISHED = published_files(CONFIG)
    EXPERIMENT_FILES = sorted(experiment_files(CONFIG).values())
    PLAN_FILE = PlanFile(CONFIG, CONFIG_NAME)
    SCALE = Scale(
        CONFIG,
        # A job needs only its run, unless the rules of another workflow name rules of this one.
        (
            Plan(CONFIG.scale)
            if IN_A_JOB and not IMPORTED
            else PLAN_FILE.plan(logger.warning)
        ),
        shlex.join(map(relpath, workflow.configfiles)) or CONFIG_NAME,
        scale_words(workflow.configfiles, ON_COMMAND_LINE, workflow.main_snakefile),
        partial(PLAN_FILE.plan_with, say=logger.warning),
    )
    TARGETS = SCALE.targets()
    if IMPORTED or not any(
        word in TARGETS or Path(word).is_relative_to(CONFIG.results)
        for word in sys.argv
    ):
        # If targets are given, only these have to be right. (Those of a workflow that imports this
        # one may be rules of its own.)
        SCALE.plan.check_targets()
except BadInput as error:
    raise WorkflowError(str(error)) from None

PLAN, RESULTS, FOLDER = SCALE.plan, SCALE.results, SCALE.folder
# As a parameter: pages and figures are rebuilt once their sources change.
PRINTING = printing_digest()
ORDER = random.random()  # another number in each Snakemake, see run_order()

if not IN_A_JOB:
    for why in () if PLAN.targets else PLAN.wrong.values():
        logger.warning(f"Left out: {why}")

    # For the logger plugin snakemake_logger_plugin_noisyfl; other plugins ignore it. A workflow
    # that imports this one may have renamed the rules.
    rule_names = workflow.modifier.modify_rulename("*")
    logger.info(None, extra={"noisyfl": SCALE, "rule_names": rule_names})


wildcard_constraints:
    dataset="[a-z0-9_]+",
    partition="[0-9a-f]{16}",
    run="[0-9a-f]{16}",
    experiment="[a-z][a-z0-9_]*",
    name="[a-z][a-z0-9_]*",


def check_jobs():
    """Before the first job: forget the stored runs that the command line forces to be trained again
    (`--forcerun train`, `--force FILE` and such), and how runs failed before. Ask Slurm if a job has
    to be submitted to it.
    """
    # No public interface says, before the first job, which jobs there are, what was forced, and what
    # runs them. A job's own reason is no help: what a kill left incomplete counts as forced in it.
    settings, jobs = workflow.dag_settings, list(workflow.dag.needrun_jobs())
    forced = {*settings.forcerun, *(settings.targets if settings.forcetargets else ())}
    runs = {Path(file).parent.name for file in forced}
    for job in jobs:
        run = job.wildcards_dict.get("run")
        is_forced = settings.forceall or job.rule.name in forced or run in runs
        if is_forced and run in SCALE.asked_runs:
            forget(RESULTS.stored(run))
    forget_failures(RESULTS, SCALE.asked_runs)
    remote = next((job for job in jobs if not job.is_local), None)
    if workflow.executor_plugin.name == "slurm" and remote is not None:
        try:
            check_slurm(remote.resources)
        except BadInput as error:
            raise WorkflowError(str(error)) from None


def run_order(wildcards):
    """The priority of a run: random if users share runs, else 0.

    Each user then trains the runs in another order, so that two who start together find in the
    cache what the other has trained.
    """
    order = environ.get("SNAKEMAKE_OUTPUT_CACHE") and random.Random(
        f"{ORDER} {wildcards.run}"
    )
    return order.random() if order else 0


def run_memory(wildcards, attempt):
    """Megabytes that a run asks for: 1.5 times what it should take, and more with each attempt."""
    return int(1.5 * SCALE.estimate(wildcards.run).memory_mb * attempt)


def run_minutes(wildcards, attempt):
    """Minutes that a run asks for: over twice what it should take, and more with each attempt, but no
    more than the configuration allows.
    """
    asked = int(SCALE.estimate(wildcards.run).asked_seconds / 60 * attempt)
    return min(asked, SCALE.config.most_minutes or asked)


def scale_options():
    """The command-line options with which Snakemake takes this scale; empty for the default one, and
    where another workflow has the command line.
    """
    if IMPORTED:
        return ""
    given = [Path(file).resolve() for file in workflow.configfiles]
    default = [(ROOT / "config" / "config.yaml").resolve()]
    files = [] if given == default else workflow.configfiles
    return shlex.join(scale_words(files, ON_COMMAND_LINE, workflow.main_snakefile))


@cache
def own_size():
    """The scale whose runs are at paper scale, as far as they exist."""
    here = {"results": CONFIG.results, "reproduced": CONFIG.reproduced}
    return Scale(*read_plan([OWN_SIZE], logger.warning, **here))


def paper_scale(names):
    """What an explorer of these tables shows of their runs at paper scale; None if there are none."""
    wanted = set(names).intersection(read_yaml(OWN_SIZE)["targets"])
    if not wanted or CONFIG.scale == OWN_SIZE.stem:
        return None
    found = own_size()
    tables = [
        (found.text(table), found.folders(table))
        for name, table in found.wanted_tables.items()
        if name in wanted and found.folders(table)
    ]
    scale = {
        "name": found.config.scale,
        "note": found.config.note,
        "reasons": found.config.reasons,
        "options": shlex.join(scale_words([OWN_SIZE], {}, workflow.main_snakefile)),
    }
    return {"scale": scale, "tables": tables} if tables else None


def explorer_content(tables):
    """What an explorer shows of some of the scale's tables, by name."""
    return {
        # Texts of users reach the report, whose scripts they must not end.
        "scale": script_safe(
            {
                "name": CONFIG_NAME,
                "config": CONFIG.model_dump(mode="json"),
                "options": scale_options(),
            }
        ),
        "layouts": [str(layout.root) for layout in SCALE.layouts],
        "tables": [SCALE.text(table) for table in tables.values()],
        "folders": SCALE.folders(*tables.values()),
        # Not inputs: no rule of this scale makes them.
        "paper_scale": paper_scale(tables),
    }
