# The map: what is configured, which rules there are, and the targets that a person types.
#
#   snakemake --cores all                                       everything of the quick scale
#   snakemake --cores all fedcorr_table2                        one table
#   snakemake --cores all fedcorr                               one paper
#   snakemake --cores all --config=scale=smoke                  everything, tiny: config/smoke.yaml
#   snakemake --cores all --profile slurm                       the paper scale, on a cluster
#   python -m noisyfl plan --config config/paper.yaml           what that needs, before it is paid
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from noisyfl.core.options import BadInput
from noisyfl.experiments.config import check_scale, scale_file

min_version("9.27")


# What is given with `--configfile` stands alone: nothing is filled in from another scale.
try:
    check_scale(
        workflow.config_settings.config.get("scale"), workflow.overwrite_configfiles
    )
    if not workflow.overwrite_configfiles:
        SCALE_FILE = scale_file(config.get("scale"), Path("config"))
except BadInput as error:
    raise WorkflowError(str(error)) from None

if not workflow.overwrite_configfiles:

    configfile: SCALE_FILE


# With `--sdm apptainer --apptainer-args=--nv`, scripts run in the image of envs/apptainer.def.
container: "noisyfl.sif"


include: "rules/common.smk"


rule all:
    default_target: True
    input:
        SCALE.files_of(SCALE.wanted.values()),
        SCALE.comparisons(),


include: "rules/data.smk"
include: "rules/partition.smk"
include: "rules/train.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/claims.smk"


if SCALE.evidence is not None:

    include: "rules/evidence.smk"


include: "rules/explorer.smk"
include: "rules/targets.smk"
include: "rules/report.smk"
