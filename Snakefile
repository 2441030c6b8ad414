# The main file: the configuration, the rules and the targets.
#
#   snakemake --cores all                                       everything of the quick scale
#   snakemake --cores all fedcorr_table2                        one table
#   snakemake --cores all fedcorr                               one paper
#   snakemake --cores all --config=scale=smoke                  everything, tiny: config/smoke.yaml
#   snakemake --cores all --profile slurm                       the paper scale, on a cluster
#   python -m noisyfl plan --config config/paper.yaml           what that costs
#
# Another workflow imports it as a module, see docs/outside.md.
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.27")

try:
    from noisyfl import __version__
    from noisyfl.core.options import BadInput
    from noisyfl.core.places import ROOT
    from noisyfl.experiments.scale_file import check_scale, scale_file
except ImportError as error:
    raise WorkflowError(
        f"{error}: expected Snakemake to be started from an environment with "
        "noisyfl[snakemake], which `make .venv/installed` creates in a clone"
    ) from None

# A workflow that imports this one has a command line and a configuration of its own.
IMPORTED = Path(workflow.main_snakefile).resolve() not in (
    Path(workflow.snakefile).resolve(),
    Path(workflow.snakefile).resolve().parent / "workflow" / "Snakefile",
)
for name in ("Snakefile", "rules/common.smk") if IMPORTED else ():
    texts = (
        Path(path).read_text() for path in (workflow.source_path(name), ROOT / name)
    )
    if len({text.strip() for text in texts}) > 1:
        logger.warning(
            f"{name} differs from that of the package noisyfl {__version__} in {ROOT}: expected a "
            "module and a package of the same version"
        )
HAS_SCALE = IMPORTED or workflow.configfiles

# A scale given with `--configfile` is complete: nothing is filled in from another scale.
try:
    if not IMPORTED:
        check_scale(config.get("scale"), workflow.configfiles)
    if not HAS_SCALE:
        SCALE_FILE = scale_file(config.get("scale"), ROOT / "config")
except BadInput as error:
    raise WorkflowError(str(error)) from None

if not HAS_SCALE:

    configfile: SCALE_FILE


# With `--sdm apptainer --apptainer-args=--nv`, scripts run in the image of envs/apptainer.def.
container: "noisyfl.sif"


include: "rules/common.smk"


rule all:
    input:
        SCALE.files_of(SCALE.wanted.values()),
        SCALE.overviews(),


include: "rules/data.smk"
include: "rules/partition.smk"


if IMPORTED and Path(rules.partition.output[0]) != RESULTS.partition("{partition}"):
    raise WorkflowError(
        "module: got a prefix, expected none: `results` of the configuration says where results go"
    )


include: "rules/train.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/claims.smk"
include: "rules/evidence.smk"
include: "rules/explorer.smk"
include: "rules/targets.smk"
include: "rules/report.smk"
