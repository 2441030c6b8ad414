"""What a few seeds can tell: paired tests and Holm's correction."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel

from noisyfl.analysis.statistics import differences, draws_between_rounds, holm, p_value


def test_a_difference_counts_on_both_sides():
    """Of two methods in two seeds, 4 ± 1 and 0 ± 1 points ahead: t = 4 / (1 / √2) = 5.66."""
    accuracies = {
        (0, 0): pd.Series([50.0, 50.0], [1, 2]),
        (1, 0): pd.Series([54 + 0.5**0.5, 54 - 0.5**0.5], [1, 2]),
        (2, 0): pd.Series([50 - 0.5**0.5, 50 + 0.5**0.5], [1, 2]),
    }
    found = differences(accuracies, 0)
    assert found.deviations[0] == pytest.approx(1)
    for place, chance in (((1, 0), 2 * student.sf(4 * 2**0.5, 1)), ((2, 0), 1.0)):
        assert p_value(found.mean(place), 0.5**0.5, 1) == pytest.approx(chance)


def test_a_method_that_varies_more_than_others_has_its_own_deviation():
    steady = {(row, 0): pd.Series([50.0, 50.1, 49.9]) for row in range(6)}
    unsteady = pd.Series([67.4, 42.6, 68.9])
    found = differences({**steady, (6, 0): unsteady}, 0)
    assert unsteady.std() > 2 * found.deviations[0]
    # As in a paired t-test of these two methods alone.
    assert found.chances[6, 0] == pytest.approx(ttest_rel(unsteady, steady[0, 0]).pvalue)
    assert (6, 0) not in found.significant
    # One that varies a little more may do so by chance, and has the degrees of freedom of all.
    similar = {(row, 0): pd.Series([50.0, 50 + row / 50, 50 - row / 50]) for row in range(6)}
    found = differences({**similar, (6, 0): pd.Series([51.0, 51.12, 50.88])}, 0)
    assert found.chances[6, 0] < ttest_rel([51.0, 51.12, 50.88], [50.0] * 3).pvalue / 5


def test_holms_correction_is_of_all_comparisons():
    chances = {(1, 0): 0.01, (2, 0): 0.04, (3, 0): 0.02}
    assert holm(chances) == {(1, 0), (3, 0), (2, 0)}
    assert holm({**chances, (4, 0): 0.5}) == {(1, 0)}


def significant_of(apart):
    """How many of forty methods are significant that are three points better in two seeds, where
    ``apart`` is added to the first seed of each and taken from the second.
    """
    accuracies = {(0, 0): pd.Series([50.0, 50.0], [1, 2])}
    for row in range(1, 41):
        accuracies[row, 0] = pd.Series([53 + apart(row), 53 - apart(row)], [1, 2])
    found = differences(accuracies, 0)
    assert found.deviations[0] == pytest.approx(0.5 * 2**0.5)
    assert len(found.chances) == 40
    return len(found.significant)


def test_luck_that_all_methods_share_is_told_by_few_seeds():
    """How far differences vary is the same; one degree of freedom stands against forty."""
    assert significant_of(lambda row: 0.5 if row % 2 else -0.5) == 40
    assert significant_of(lambda row: 0.5) == 0


def test_values_of_a_curve_are_drawn_as_far_apart_as_it_swings_and_not_as_it_rises():
    rng = np.random.default_rng(0)
    rise = np.linspace(10, 90, 200)
    assert np.abs(draws_between_rounds(rise, rng)).max() < 1e-9
    draws = draws_between_rounds(rise + rng.normal(0, 3, 200), rng)
    assert not draws[:, 0].any()
    assert draws[:, 1:].std() == pytest.approx(3, rel=0.15)
    assert np.abs(np.corrcoef(draws[:5, 1:]) - np.eye(5)).max() < 0.15
    assert not draws_between_rounds(rise[:2], rng).any()
