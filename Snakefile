# The map: what is configured, which rules there are, and the targets that a person types.
#
#   snakemake --cores all                                       everything of the quick scale
#   snakemake --cores all fedcorr_table2                        one table
#   snakemake --cores all fedcorr                               one paper
#   snakemake --cores all --configfile config/smoke.yaml        everything, tiny
#   snakemake --cores all --profile slurm                       the paper scale, on a cluster
#   snakemake --cores 1 plan --configfile config/paper.yaml     what that needs, before it is paid
from snakemake.utils import min_version

min_version("9.20")


if "scale" not in config:

    configfile: "config/config.yaml"


# With `--sdm apptainer --apptainer-args=--nv`, scripts run in the image of envs/apptainer.def.
container: "noisyfl.sif"


include: "rules/common.smk"


rule all:
    default_target: True
    input:
        files_of(wanted()),
        comparisons(),


include: "rules/data.smk"
include: "rules/partition.smk"
include: "rules/train.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/claims.smk"
include: "rules/targets.smk"
include: "rules/report.smk"
include: "rules/plan.smk"
