"""Noisy partitions of the digits, whose labels are made up."""

import numpy as np

from noisyfl.data import noisy_partition
from noisyfl.data.own_files import OwnFiles

LABELS = np.random.default_rng(0).permutation(np.arange(1437) % 10)
"""As many labels as the training part of digits has."""


def canonical_of(raw, where="spec", own=None):
    """The spec of a noisy partition, checked and with every default filled in."""
    return noisy_partition.PartitionSpec.read(raw, where, own=own).noisy_partition()


def canonical(where="spec", data_folder=None, **given):
    own = data_folder and OwnFiles(data_folder, data_folder / "results")
    return canonical_of({**SETTING, **given}, where, own)


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
