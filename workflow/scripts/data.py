"""Rule data: a dataset's official files as Parquet."""

from pathlib import Path

from noisyfl.data.datasets import prepare
from noisyfl.job import job

with job(snakemake.log[0]) as log:
    log(f"preparing {snakemake.wildcards.dataset}")
    prepare(
        snakemake.wildcards.dataset,
        Path(snakemake.params.folder),
        snakemake.params.download,
        Path(snakemake.output.train),
        Path(snakemake.output.test),
    )
    log("done")
