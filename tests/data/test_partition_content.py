"""A noisy partition is held against the dataset that it is of."""

import dataclasses

import numpy as np
import pytest

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.data.noisy_partition import UNKNOWN, check_content
from small_partitions import LABELS, made


def test_a_partition_has_the_samples_and_the_true_labels_of_its_dataset(tmp_path):
    partition = made(tmp_path)
    check_content(partition, LABELS, "p.parquet")
    for others in (np.roll(LABELS, 1), LABELS[:1000]):
        with pytest.raises(DamagedArtifact, match=r"p\.parquet: its samples or true labels are"):
            check_content(partition, others, "p.parquet")


def test_true_labels_that_nobody_knows_are_not_compared(tmp_path):
    partition = made(tmp_path)
    unknown = [
        dataclasses.replace(client, true_label=np.full_like(client.true_label, UNKNOWN))
        for client in partition.clients
    ]
    check_content(
        dataclasses.replace(partition, clients=tuple(unknown)), np.roll(LABELS, 1), "p.parquet"
    )
