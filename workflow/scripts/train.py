"""Rule train: one run."""

import json
import os
import sys
import time

from noisyfl.core import plugins
from noisyfl.core.options import BadInput
from noisyfl.core.script import end_quietly_on_ctrl_c
from noisyfl.experiments.config import check_config
from noisyfl.runs.job import TrainingJob

end_quietly_on_ctrl_c()
config = check_config(snakemake.config, "config")
try:
    plugins.load(config["plugins"])
except BadInput as error:
    sys.exit(f"error: {error}")
job = TrainingJob.of_snakemake(
    json.loads(snakemake.params.spec),
    snakemake.log[0],
    config,
    on_slurm="SLURM_JOB_ID" in os.environ,
)
outcome = job.run()
if outcome.interrupted:
    if "SLURM_JOB_ID" in os.environ:
        # A pre-empted job that ends when it is told to counts as failed; one that Slurm has to kill
        # is started again.
        time.sleep(600)
    sys.exit(f"{outcome.error}; the same command goes on from there")
if outcome.error is not None:
    sys.exit(job.failure(outcome.error))
