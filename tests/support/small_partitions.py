"""Noisy partitions of the digits, whose labels are made up."""

import numpy as np

from noisyfl.data import noisy_partition
from noisyfl.data.own_files import OwnFiles

LABELS = np.random.default_rng(0).permutation(np.arange(1437) % 10)
"""As many labels as the training part of digits has."""


def canonical(where="spec", data_folder=None, **given):
    own = data_folder and OwnFiles(data_folder, data_folder / "results")
    return noisy_partition.canonical({**SETTING, **given}, where, own)


SETTING = {
    "dataset": "digits",
    "partition": "iid(clients=20)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.3)",
    "seed": 1,
}


def made(tmp_path, **given):
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, canonical(**given), LABELS)
    return noisy_partition.read(path)
