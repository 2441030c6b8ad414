"""Rule train: one run."""

import json
import os
import sys
import time
from pathlib import Path

from noisyfl.core import plugins
from noisyfl.core.log import log_to
from noisyfl.core.options import BadInput
from noisyfl.core.script import end_quietly_on_ctrl_c
from noisyfl.experiments.config import check_config
from noisyfl.runs.job import TrainingJob

end_quietly_on_ctrl_c()
config = check_config(snakemake.config, "config")
with log_to(Path(snakemake.log[0])) as log:
    try:
        plugins.load(config.plugins)
    except BadInput as error:
        log.error(f"error: {error}")
        sys.exit(1)
outcome = TrainingJob(
    spec=json.loads(snakemake.params.spec),
    results=str(config.results),
    data=[str(folder) for folder in config.data.folders],
    download=config.data.download,
    device=config.device,
    executor=config.executor,
    checkpoint_seconds=config.checkpoint_seconds,
    keep_models=config.keep_models,
    keep_labels=config.keep_labels,
    trackers=tuple(config.trackers),
    attempt=snakemake.resources.attempt,
).run()
if outcome.interrupted and "SLURM_JOB_ID" in os.environ:
    # A pre-empted job must wait to be killed: exiting by itself would count as a failure.
    time.sleep(600)
sys.exit(outcome.error is not None)
