"""Rule data: a dataset's official files as Parquet."""

from pathlib import Path

from noisyfl.data.datasets import prepare
from noisyfl.experiments import check_config
from noisyfl.job import job

with job(snakemake.log[0]) as log:
    log(f"preparing {snakemake.wildcards.dataset}")
    config = check_config(snakemake.config, "config")
    prepare(
        snakemake.wildcards.dataset,
        Path(config["data"]["folder"]),
        config["data"]["download"],
        Path(snakemake.output.train),
        Path(snakemake.output.test),
    )
    log("done")
