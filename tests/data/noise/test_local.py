"""Label noise that stays among the classes of a client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context


def flip(kind, clients, levels, seed=0):
    noise = LABEL_NOISES.build(f"local(kind={kind!r}, count='floor')")
    clients = [np.array(labels) for labels in clients]
    return noise.flip(clients, np.array(levels), Context(DATASETS["mnist"], seed))


@pytest.mark.parametrize("kind", ["symmetric", "pair"])
@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.integers(0, 9), min_size=2, max_size=60),
    level=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_no_class_appears_that_the_client_has_not_and_flips_are_counted(kind, labels, level, seed):
    labels = np.array(labels)
    (given_labels,) = flip(kind, [labels], [level], seed)
    assert set(given_labels) <= set(labels)
    several = len(set(labels)) > 1
    assert (given_labels != labels).sum() == several * int(level * len(labels) + 1e-9)


def test_pair_is_the_next_class_of_the_client_cyclically():
    clients = [[1, 4, 9], [4, 9, 0], [3, 3, 3]]
    given_labels = flip("pair", clients, [1, 1, 1])
    assert [part.tolist() for part in given_labels] == [[4, 9, 1], [9, 0, 4], [3, 3, 3]]


def test_symmetric_is_uniform_over_the_other_classes_of_the_client():
    labels = np.repeat([2, 5, 6, 9], 3000)
    (given_labels,) = flip("symmetric", [labels], [1.0])
    for true in (2, 5, 6, 9):
        counts = np.bincount(given_labels[labels == true], minlength=10)
        others = sorted({2, 5, 6, 9} - {true})
        assert counts.sum() == counts[others].sum()
        assert chisquare(counts[others]).pvalue > 1e-4


def test_where_all_classes_are_held_it_is_the_noise_of_that_name():
    labels = [np.repeat(np.arange(10), 7)] * 3
    for kind in ("symmetric", "pair"):
        named = LABEL_NOISES.build(f"{kind}(count='floor')")
        expected = named.flip(labels, np.array([0.3, 0.5, 0.9]), Context(DATASETS["mnist"], 4))
        found = flip(kind, labels, [0.3, 0.5, 0.9], seed=4)
        assert all((a == b).all() for a, b in zip(expected, found, strict=True))
