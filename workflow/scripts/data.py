"""Rule data: a dataset's official files as Parquet."""

from noisyfl.core.script import job
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import check_config

with job(snakemake) as log:
    log(f"preparing {snakemake.wildcards.dataset}")
    config = check_config(snakemake.config, "config")
    provide(
        snakemake.wildcards.dataset,
        OwnFiles(config.data.folders, config.results),
        config.data.download,
        config.data.prepared,
    )
    log("done")
