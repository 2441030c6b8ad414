"""Rule train: one run."""

import json
from pathlib import Path

from noisyfl.artifacts import Results, RunFiles
from noisyfl.experiments import check_config
from noisyfl.job import job

with job(snakemake.log[0]) as log:
    from noisyfl.models import WeightFiles
    from noisyfl.train import train_run

    config = check_config(snakemake.config, "config")
    train_run(
        json.loads(snakemake.params.spec),
        Path(snakemake.input.train),
        Path(snakemake.input.test),
        Path(snakemake.input.partition),
        RunFiles(Path(snakemake.output.spec).parent),
        checkpoint_path=Results(Path(config["results"])).checkpoint(snakemake.wildcards.run),
        weight_files=WeightFiles(Path(config["data"]["folder"]), config["data"]["download"]),
        device=config["device"],
        executor=config["executor"],
        checkpoint_seconds=config["checkpoint_seconds"],
        log=log,
    )
