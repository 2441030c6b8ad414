"""Rule data: a dataset's official files as Parquet."""

from pathlib import Path

from noisyfl.core.script import job
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.roots import data_roots
from noisyfl.experiments.config import check_config

with job(snakemake) as log:
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
