"""Against Demsar (JMLR 7, 2006): its tables of critical values, and its worked example."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from noisyfl.analysis.ranks import Ranking, critical_difference, rank, ranks_within

# Table 5 (a): critical values of Nemenyi's test for 2 to 10 methods.
Q = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}

# Table 6: the ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 datasets.
RANKS = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)


@pytest.mark.parametrize("level", Q)
def test_critical_values_are_the_published_ones(level):
    for methods, q in zip(range(2, 11), Q[level], strict=True):
        expected = q * np.sqrt(methods * (methods + 1) / (6 * 20))
        assert critical_difference(methods, 20, level) == pytest.approx(expected, rel=4e-4)


@pytest.mark.parametrize(
    ("level", "length", "groups"),
    [
        # "C4.5 is significantly worse than C4.5+m and C4.5+m+cf"
        (0.10, 1.12, [[3, 1, 2], [2, 0]]),
        # "the post-hoc test is not powerful enough"
        (0.05, 1.25, [[3, 1, 2, 0]]),
    ],
)
def test_the_worked_example(level, length, groups):
    ranking = rank(-RANKS, level)
    assert ranking.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert ranking.critical_difference == pytest.approx(length, abs=0.005)
    # It has 9.28 without the correction for ties, of which there are three pairs and one of four.
    corrected = 9.28 / (1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * (4**3 - 4)))
    assert ranking.statistic == pytest.approx(corrected, abs=0.01)
    assert ranking.p_value < 0.05
    assert ranking.groups() == groups


@pytest.mark.parametrize("seed", range(5))
def test_friedman_is_scipys(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, size=(rng.integers(2, 9), rng.integers(3, 9)))
    ranking = rank(values)
    expected = friedmanchisquare(*values.T)
    assert ranking.statistic == pytest.approx(expected.statistic)
    assert ranking.p_value == pytest.approx(expected.pvalue)


def test_ranks_are_of_the_largest_first_and_shared_by_equals():
    table = np.array([[0.3, 0.9, 0.3, 0.5], [0.1, np.nan, 0.2, np.nan]])
    assert ranks_within(table).tolist() == [[3.5, 1, 3.5, 2], [2, 3.5, 1, 3.5]]


def test_methods_that_always_tie_are_alike():
    ranking = rank([[0.5, 0.5, 0.5]] * 4)
    assert (ranking.statistic, ranking.p_value) == (0, 1)
    assert ranking.groups() == [[0, 1, 2]]


def with_ranks(ranks, length, p_value=0.001):
    return Ranking(np.array(ranks), 10, 50.0, p_value, 0.05, length)


@pytest.mark.parametrize(
    ("ranks", "length", "groups"),
    [
        ([1.0, 4.0, 2.5, 5.5], 1.75, [[0, 2], [2, 1], [1, 3]]),
        ([6.0, 1.0, 2.0, 3.0], 2.5, [[1, 2, 3], [0]]),
        ([1.0, 2.0, 3.0, 4.0], 2.0, [[0, 1], [1, 2], [2, 3]]),  # as far apart as that is enough
        ([1.5, 1.5, 4.0], 0.5, [[0, 1], [2]]),
        ([2.0, 3.0, 1.0], 9.0, [[2, 0, 1]]),
    ],
)
def test_groups_are_the_largest_of_which_no_two_differ(ranks, length, groups):
    assert with_ranks(ranks, length).groups() == groups


def test_nothing_is_told_apart_if_friedmans_test_does_not_reject():
    assert with_ranks([1.0, 5.0, 3.0], 0.5, p_value=0.05).groups() == [[0, 2, 1]]


@pytest.mark.parametrize("values", [[], [[0.5]], [0.1, 0.2], np.zeros((0, 3))])
def test_too_little_to_rank_is_refused(values):
    with pytest.raises(ValueError, match="two at least"):
        rank(values)
