"""Rule partition: the noisy partition that a spec describes."""

import json
from pathlib import Path

from noisyfl.core.script import job
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.remarks import doubt_about
from noisyfl.experiments.config import check_config

with job(snakemake) as log:
    spec = json.loads(snakemake.params.spec)
    log(f"making {spec}")
    train = read_part(Path(snakemake.input.data))
    config = check_config(snakemake.config, "config")
    own = OwnFiles(config.data.folders, config.results)
    noisy_partition.write(Path(snakemake.output[0]), spec, train.labels, own, train.images)
    if found := doubt_about(Path(snakemake.output[0])):
        log(f"Warning: {snakemake.output[0]}: {found}")
    log("done")
