"""What every partition, label noise and noise level drew once, they draw today.

Other draws would make other data under the ids of tracked runs. A change on purpose raises
``REVISION`` of noisy partitions; the digests here are those that the failing test shows.
"""

import hashlib

import numpy as np
import pytest

from noisyfl.core.randomness import stream
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from small_partitions import canonical_of

FROM_FILES = {"file", "human"}
"""What is read from a file and not drawn."""

PARTITIONED = {
    "iid(clients=8)": "f674cee7e3b9",
    "iid(clients=8, samples=600)": "e8065ab00e92",
    "iid(clients=8, stratified=True)": "5d57aef4b4c7",
    "iid_subset(clients=8, per_client=31)": "0f5d5d0208b0",
    "shard(clients=8, shards=3)": "4b209829c891",
    "shard(clients=8, shards=3, samples=200)": "bf9e7d09c20f",
    "dirichlet(clients=8, alpha=0.5)": "fd3b7dfe9c92",
    "dirichlet(clients=8, alpha=0.5, samples=600)": "db10dae84685",
    "dirichlet(clients=8, alpha=0.5, cap=True, min_size=2)": "be62ee06dc5b",
    "dirichlet(clients=8, alpha=1, per_client=40)": "bfce4738ba07",
    "dirichlet_official(clients=8, beta=0.5, min_size=5)": "0d10409c1868",
    "bernoulli_dirichlet(clients=8, p=0.2, alpha=10)": "c5cc3e1cf6e1",
    "bernoulli_dirichlet(clients=8, p=0.5, alpha=10, samples=200)": "12b957a90584",
    "quantity_dirichlet(clients=8, beta=20, per_client=37)": "4284e2883dfd",
    "label_quantity(clients=8, classes=3)": "308ab292815e",
    "quantity_skew(clients=8, beta=0.5, min_size=3)": "27bda03ac5b3",
}
NOISY = {
    "none": "4150b5723ead",
    "symmetric": "dabfd857a698",
    "symmetric(count='bernoulli')": "d8f3321e4e3d",
    "symmetric(include_true=True)": "de862439b744",
    "symmetric(noise_classes=3)": "c7c180be7c44",
    "pair": "d5eddd56e7f7",
    "pair(direction=-1)": "bacfe8f03bfb",
    "client_pair": "feb6ac52c4ad",
    "asymmetric(map='classic')": "2ff9746f4a97",
    "asymmetric(map='full')": "a419900a8b02",
    "mixed": "579d838294d7",
    "pair4groups": "83d32d4f7cce",
    "class_noise": "29de79fe9ba3",
    f"matrix(rows={[[0.7, 0.3, *[0] * 8]] * 10})": "996cf85070f1",
    "instance": "977ed91a0e3f",
    "local(kind='symmetric')": "a913d7ee7c76",
    "local(kind='pair')": "5122a2e63cdd",
    "open_set": "206a0a1491f9",
    "open_set(share=0.5, flips='pair')": "b87b9bd44c91",
}
DATASET_OF = {"open_set": "digits_open", "asymmetric": "cifar10"}
"""Which dataset the noises are shown on that the digits do not tell apart from others."""

LEVELS = {
    "none": "4150b5723ead",
    "constant(level=0.3)": "6fcdcfc203e1",
    "constant(level=0.3, scope='dataset')": "d74efa036fc5",
    "uniform(low=0.1, high=0.7)": "8956b058d3d8",
    "groups(levels=[0.1, 0.3, 0.6])": "d0dde618a2b7",
    "bernoulli_uniform(rho=0.6, tau=0.5)": "e41c56e0d475",
    "truncnorm(mu=0.4, sigma=0.2)": "2e36f48d0898",
    "truncnorm(mu=0.4, sigma=0.2, seed=1)": "54ce452bd432",
    "client_linear(low=0.1, high=0.5)": "38a2b6b03344",
    "client_linear(low=0.1, high=0.5, ramps=2, include_top=True)": "3bd1812410e9",
    "client_variance(level=0.4, eta=0.1)": "4d44107c791c",
}


def digest_of(**parts):
    """The first digits of a digest of what is dealt, flipped and meant, for the third seed."""
    raw = {
        "dataset": "digits",
        "partition": "shard(clients=8, shards=4)",
        "label_noise": "symmetric",
        "noise_level": "constant(level=0.4)",
        "seed": 3,
        **parts,
    }
    facts, rng = DATASETS[raw["dataset"]], stream(0, "labels of the test")
    labels = rng.integers(0, len(facts.classes), facts.train_size)
    labels[facts.task_size :] = len(facts.classes)
    images = None
    if raw["label_noise"] == "instance":
        images = rng.integers(0, 256, (facts.train_size, *facts.shape), dtype=np.uint8)
    spec = canonical_of(raw)
    table, metadata = noisy_partition.make(spec, labels, images=images)
    content = b"".join(column.to_numpy().tobytes() for column in table.columns)
    levels = repr(metadata["noise_levels"]).encode()
    return hashlib.sha256(content + levels).hexdigest()[:12]


@pytest.mark.parametrize(("partition", "digest"), PARTITIONED.items())
def test_partitions_deal_what_they_dealt(partition, digest):
    assert digest_of(partition=partition) == digest


@pytest.mark.parametrize(("noise", "digest"), NOISY.items())
def test_label_noises_flip_what_they_flipped(noise, digest):
    dataset = DATASET_OF.get(noise.partition("(")[0], "digits")
    without = ("none", "matrix")
    level = "none" if noise.partition("(")[0] in without else "groups(levels=[0.1, 0.2, 0.5])"
    assert digest_of(dataset=dataset, label_noise=noise, noise_level=level) == digest


@pytest.mark.parametrize(("level", "digest"), LEVELS.items())
def test_noise_levels_are_what_they_were(level, digest):
    noise = "none" if level == "none" else "symmetric"
    assert digest_of(label_noise=noise, noise_level=level) == digest


def test_all_that_draws_is_among_them():
    for registry, texts in (
        (PARTITIONS, PARTITIONED),
        (LABEL_NOISES, NOISY),
        (NOISE_LEVELS, LEVELS),
    ):
        assert {text.partition("(")[0] for text in texts} == set(registry.names()) - FROM_FILES
