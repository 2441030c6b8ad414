"""Rule train: one run."""

import gc
import json
import os
import signal
import sys
import time
from pathlib import Path

stopped_by_hand = False


def wait_to_be_killed() -> None:
    """Wait if Slurm ends the job: a pre-empted job that exits by itself would count as failed."""
    if "SLURM_JOB_ID" in os.environ and not stopped_by_hand:
        time.sleep(600)


def end(*_: object) -> None:
    """On SIGTERM during the set-up; a training has its own handler."""
    wait_to_be_killed()
    os._exit(1)  # a library might catch an exception


def end_on_ctrl_c(*_: object) -> None:
    """Do what SIGTERM does, without waiting."""
    global stopped_by_hand
    stopped_by_hand = True
    signal.raise_signal(signal.SIGTERM)


def train() -> None:
    """Train the run of the rule's parameters, and exit with 1 if it is not complete then."""
    # Imported only when signals are handled, since torch takes seconds: a third more if Python
    # looks for garbage meanwhile, and once more at the end.
    gc.disable()
    from noisyfl.core import plugins
    from noisyfl.core.log import log_to
    from noisyfl.core.options import BadInput
    from noisyfl.experiments.config import check_config
    from noisyfl.runs.job import TrainingJob

    gc.freeze()
    gc.enable()
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
    if outcome.interrupted:
        wait_to_be_killed()
    sys.exit(outcome.error is not None)


signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end_on_ctrl_c)
train()
