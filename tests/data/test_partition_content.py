"""A noisy partition is held against the dataset that it is of."""

import dataclasses

import numpy as np
import pytest

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.data import noisy_partition
from small_partitions import LABELS, canonical

SPEC = canonical()


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    path = tmp_path_factory.mktemp("partition") / "partition.parquet"
    noisy_partition.write(path, SPEC, LABELS)
    return noisy_partition.read(path)


def altered(partition, name, value):
    """The partition with another value in the first row of its third client."""
    clients = list(partition.clients)
    array = getattr(clients[2], name).copy()
    array[0] = value
    clients[2] = dataclasses.replace(clients[2], **{name: array})
    return dataclasses.replace(partition, clients=tuple(clients))


def check(partition, labels=LABELS):
    noisy_partition.check_content(partition, labels, 10, "p.parquet")


def test_what_was_made_from_the_data_set_fits(partition):
    check(partition)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("samples", len(LABELS), "its dataset has 1437 samples"),
        ("samples", -1, "its dataset has 1437 samples"),
        ("given_label", 10, "a given label is none of 10 classes"),
        ("given_label", -1, "a given label is none of 10 classes"),
    ],
)
def test_what_the_data_set_cannot_have_is_refused(partition, name, value, words):
    with pytest.raises(DamagedArtifact, match=rf"p\.parquet: {words} \(row \d+, sample -?\d+\)"):
        check(altered(partition, name, value))


def test_a_sample_on_two_clients_is_refused(partition):
    twice = int(partition.clients[0].samples[3])
    with pytest.raises(
        DamagedArtifact, match=rf"a sample is there twice \(row \d+, sample {twice}"
    ):
        check(altered(partition, "samples", twice))


def test_the_labels_of_other_data_are_refused(partition):
    with pytest.raises(DamagedArtifact, match="a true label is not the dataset's"):
        check(partition, np.roll(LABELS, 1))


def test_true_labels_that_nobody_knows_are_not_compared(partition):
    unknown = [
        dataclasses.replace(client, true_label=np.full_like(client.true_label, -1))
        for client in partition.clients
    ]
    check(dataclasses.replace(partition, clients=tuple(unknown)), np.roll(LABELS, 1))
