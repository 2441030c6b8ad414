"""Rule partition: the noisy partition that a spec describes."""

import json
from pathlib import Path

from noisyfl.data import noisy_partition
from noisyfl.data.datasets import read_part
from noisyfl.job import job

with job(snakemake.log[0]) as log:
    spec = json.loads(snakemake.params.spec)
    log(f"making {spec}")
    labels = read_part(Path(snakemake.input.data)).labels
    noisy_partition.write(
        Path(snakemake.output[0]), spec, labels, Path(snakemake.params.label_folder)
    )
    log("done")
