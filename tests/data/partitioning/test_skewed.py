"""Partitions with one kind of skew alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.partitioning.partition import PARTITIONS


def build(text):
    return PARTITIONS.build(text, "partition")


def counts_of(text, labels, seed=0, classes=10):
    """Samples of each class on each client, int [clients, classes]."""
    rows = build(text).assign(labels, classes, stream(seed, "partition"))
    return np.array([np.bincount(labels[part], minlength=classes) for part in rows])


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(4, 12),
    each=st.integers(2, 6),
    per_class=st.integers(30, 50),
)
def test_clients_hold_equally_many_classes_and_holders_equally_much(seed, clients, each, per_class):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(6), per_class))
    text = f"label_quantity(clients={clients}, classes={each})"
    counts = counts_of(text, labels, seed, classes=6)
    assert ((counts > 0).sum(axis=1) == each).all()
    assert counts.sum() == len(labels)
    assert (counts[np.arange(clients), np.arange(clients) % 6] > 0).all()
    for column in counts.T:
        assert np.ptp(column[column > 0]) <= 1


def test_the_other_classes_of_a_client_are_any():
    labels = np.repeat(np.arange(10), 20)
    others = [
        np.flatnonzero(counts_of("label_quantity(clients=10, classes=3)", labels, seed)[0])[1:]
        for seed in range(60)
    ]
    # 120 draws of nine classes: each 13.3 times, and by chance hardly less than 3 times.
    assert np.bincount(np.concatenate(others), minlength=10)[1:].min() >= 3


def test_too_many_or_too_few_classes_are_refused_before_any_job():
    digits = dataset("digits")
    with pytest.raises(BadInput, match="classes: got 11, expected at most 10, the classes of digi"):
        build("label_quantity(clients=10, classes=11)").resolve(digits, None)
    with pytest.raises(BadInput, match="clients=4 with classes=2 hold 8 classes at most, and digi"):
        build("label_quantity(clients=4, classes=2)").resolve(digits, None)
    enough = build("label_quantity(clients=5, classes=2)")
    assert enough.resolve(digits, None) is enough


def test_classes_that_hardly_ever_find_holders_are_given_up():
    labels = np.repeat(np.arange(40), 2)
    with pytest.raises(BadInput, match="2000 draws one of 40 classes was on none of 20 clients"):
        counts_of("label_quantity(clients=20, classes=2)", labels, classes=40)


def test_sizes_are_dirichlet_and_classes_are_left_to_chance():
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 2000))
    counts = np.stack(
        [counts_of("quantity_skew(clients=10, beta=2)", labels, seed) for seed in range(30)]
    )
    sizes = counts.sum(axis=2)
    assert (sizes.sum(axis=1) == len(labels)).all()
    # q_k ~ Dir(2) of 10 clients has the coefficient of variation sqrt(9 / 21) = 0.655.
    assert (sizes.std(axis=1) / sizes.mean(axis=1)).mean() == pytest.approx(0.655, abs=0.06)
    large = counts[sizes > 1000]
    shares = large / large.sum(axis=1, keepdims=True)
    assert shares.mean(axis=0) == pytest.approx(0.1, abs=0.005)
    assert np.ptp(large, axis=1).min() > 0


def test_a_client_has_the_minimum_where_most_draws_leave_one_without():
    labels = np.repeat(np.arange(10), 5000)
    for seed in range(3):
        sizes = counts_of("quantity_skew(clients=10, beta=0.1)", labels, seed).sum(axis=1)
        assert sizes.min() >= 10
        assert sizes.max() > len(labels) / 5


def test_a_hopeless_minimum_is_given_up():
    message = r"quantity_skew: not one of 2000 draws gave each of 10 clients min_size=10 of 200"
    with pytest.raises(BadInput, match=message):
        counts_of("quantity_skew(clients=10, beta=0.001)", np.repeat(np.arange(10), 20))
