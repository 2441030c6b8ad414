"""Rule partition: the noisy partition that a spec describes."""

import json
from pathlib import Path

from noisyfl.data import noisy_partition
from noisyfl.data.datasets import read_part
from noisyfl.experiments import check_config
from noisyfl.job import job
from noisyfl.roots import data_roots

with job(snakemake.log[0]) as log:
    spec = json.loads(snakemake.params.spec)
    log(f"making {spec}")
    labels = read_part(Path(snakemake.input.data)).labels
    roots = data_roots(check_config(snakemake.config, "config"))
    noisy_partition.write(Path(snakemake.output[0]), spec, labels, roots)
    log("done")
