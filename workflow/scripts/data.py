"""Rule data: a dataset's official files as Parquet."""

from pathlib import Path

from noisyfl.data.prepared import provide
from noisyfl.experiments import check_config
from noisyfl.job import job
from noisyfl.roots import data_roots

with job(snakemake.log[0]) as log:
    log(f"preparing {snakemake.wildcards.dataset}")
    config = check_config(snakemake.config, "config")
    provide(
        snakemake.wildcards.dataset,
        data_roots(config),
        config["data"]["download"],
        [Path(folder) for folder in config["data"]["prepared"]],
        Path(snakemake.output.train),
        Path(snakemake.output.test),
    )
    log("done")
