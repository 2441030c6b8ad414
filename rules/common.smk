# What the rules share: the plan of the configuration, and the files that it asks for.
import random
import sys
from os import environ
from os.path import relpath

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.disk_space import check_room
from noisyfl.experiments.config import check_config, published_files
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.scale import Scale
from noisyfl.core.tracked import REPRODUCED
from noisyfl.runs.shared_cache import shared_cache
from noisyfl.runs.slurm import check_slurm
from noisyfl.runs.status import scale_words
from noisyfl.runs.store import train_anew
from noisyfl.specs.descriptions import in_restructured_text, script_safe
from noisyfl.specs.sources import printing_digest

CONFIG_NAME = ", ".join(map(str, workflow.configfiles)) or "config"
if IMPORTED:
    CONFIG_NAME = f"the configuration of module {workflow.modifier.namespace}"
elif workflow.config_settings.config:
    CONFIG_NAME += " and --config"
IN_A_JOB = "--target-jobs" in sys.argv

try:
    if not IN_A_JOB:
        check_room(Path(".snakemake").absolute())
    for file in workflow.configfiles:
        read_yaml(Path(file))  # refuses a key given twice; Snakemake takes the last
    CONFIG = check_config(config, CONFIG_NAME)
    shared_cache()
    PUBLISHED = published_files(CONFIG)
    PLAN_FILE = PlanFile(CONFIG, CONFIG_NAME)
    SCALE = Scale(
        CONFIG,
        # A job takes the plan that its own Snakemake has made.
        (PLAN_FILE.load if IN_A_JOB else PLAN_FILE.plan)(logger.warning),
        REPRODUCED,
        relpath(workflow.configfiles[0]) if workflow.configfiles else CONFIG_NAME,
        scale_words(
            workflow.configfiles,
            workflow.config_settings.config,
            workflow.main_snakefile,
        ),
    )
    if not IN_A_JOB:
        PLAN_FILE.keep()
except BadInput as error:
    raise WorkflowError(str(error)) from None

PLAN, RESULTS, FOLDER = SCALE.plan, SCALE.results, SCALE.folder
# As a parameter: pages and figures are made anew once their sources are others.
PRINTING = printing_digest()
ORDER = random.random()  # another one in each Snakemake, see run_order()

if not IN_A_JOB:
    for why in PLAN.left_out.values():
        logger.warning(f"Left out: {why}")

    # For the logger plugin snakemake_logger_plugin_noisyfl; all others print nothing of it.
    logger.info(None, extra={"noisyfl": SCALE})


wildcard_constraints:
    dataset="[a-z0-9_]+",
    partition="[0-9a-f]{16}",
    run="[0-9a-f]{16}",
    experiment="[a-z][a-z0-9_]*",
    name="[a-z][a-z0-9_]*",


def forced_runs():
    """The runs that are trained in any case, as `--forcerun train`, `--force FILE` and such ask for:
    their ids, or `all`.
    """
    settings = workflow.dag_settings
    if (
        settings.forceall
        or workflow.modifier.modify_rulename("train") in settings.forcerun
    ):
        return ["all"]
    files = {*settings.forcerun, *(settings.targets if settings.forcetargets else ())}
    return sorted(Path(file).parent.name for file in files)


def check_submission():
    """Ask Slurm before the first job is submitted to it, if any has to be."""
    jobs = [] if IN_A_JOB else workflow.dag.needrun_jobs()
    remote = next((job for job in jobs if not job.is_local), None)
    if workflow.executor_plugin.name == "slurm" and remote is not None:
        try:
            check_slurm(remote.resources)
        except BadInput as error:
            raise WorkflowError(str(error)) from None


def run_order(wildcards):
    """The priority of a run: random if users share runs, else 0.

    Each user then trains the runs in another order, so that two who start together find in the
    cache what the other one has trained.
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
    files = [relpath(file) for file in workflow.configfiles]
    if IMPORTED or files == [relpath(ROOT / "config" / "config.yaml")]:
        return ""
    one = len(files) == 1
    return f"--configfile={files[0]}" if one else f"--configfile {' '.join(files)} --"


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
    }
