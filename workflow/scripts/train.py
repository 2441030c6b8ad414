"""Rule train: one run."""

import json
from pathlib import Path

from noisyfl.artifacts import RunFiles
from noisyfl.job import job

with job(snakemake.log[0]) as log:
    from noisyfl.train import train_run

    train_run(
        json.loads(snakemake.params.spec),
        Path(snakemake.input.train),
        Path(snakemake.input.test),
        Path(snakemake.input.partition),
        RunFiles(Path(snakemake.output.spec).parent),
        checkpoint_path=Path(snakemake.params.checkpoint),
        device=snakemake.params.device,
        checkpoint_seconds=snakemake.params.checkpoint_seconds,
        log=log,
    )
