"""What runs reached, and when a difference from FedAvg is clear."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from noisyfl.analysis.against_fedavg import Against, _chance, differences, holm, measure
from noisyfl.analysis.runs import read_runs

CLIENTS = (
    {"right_clean": 6, "right_noisy": 3, "wrong_clean": 1, "wrong_noisy": 2},
    {"right_clean": 3, "right_noisy": 1, "wrong_clean": 0, "wrong_noisy": 4},
    {"right_clean": 5, "right_noisy": 0, "wrong_clean": 0, "wrong_noisy": 0},
    {"right_clean": 0, "right_noisy": 0, "wrong_clean": 2, "wrong_noisy": 2},
    {"right_clean": 1, "right_noisy": 0, "wrong_clean": 3, "wrong_noisy": 0},
    {"right_clean": 2, "right_noisy": 0, "wrong_clean": 0, "wrong_noisy": 2},  # all told apart
)


def divided(round, client, right_clean, right_noisy, wrong_clean, wrong_noisy):
    """A client's row, of how many right and wrong labels are taken for clean and for noisy."""

    def share(some, others):
        return some / (some + others) if some + others else None

    return {
        "round": round,
        "client": client,
        "label_precision": share(right_clean, wrong_clean),
        "label_recall": share(right_clean, right_noisy),
        "noise_detection_precision": share(wrong_noisy, right_noisy),
        "noise_detection_recall": share(wrong_noisy, wrong_clean),
    }


def test_what_a_cell_says_is_the_mean_of_its_trials(runs):
    made = [
        runs.add(
            [0.5, 0.7],
            seed=seed,
            columns={"label_precision": precisions, "samples_backward": [100.0, 100.0]},
            clients=[divided(2, client, **counts) for client, counts in enumerate(CLIENTS)],
        )
        for seed, precisions in enumerate(([None, 0.5], [0.6, 0.8]), 1)
    ]
    found = measure(list(read_runs({run: runs.files[run] for run in made}).values()))
    assert list(found.index) == [1, 2]
    found = found.mean()
    assert found.accuracy == pytest.approx(60)
    assert found.best == pytest.approx(70)
    assert found.precision == pytest.approx((50 + 70) / 2)
    assert found.base == pytest.approx(100 * (0.75 + 0.5 + 1 + 0 + 0.25) / 5)
    assert np.isnan(found.recall)
    assert found.backward == 200


def test_a_run_is_best_in_the_first_of_its_best_evaluated_rounds(runs):
    accuracies = [None, 0.5, None, 0.7, None, 0.7]
    precisions = [0.1, 0.3, *[0.5] * 10]
    made = [
        runs.add(accuracies, seed=1, columns={"samples_backward": [1.0] * 6}),
        runs.add(
            [0.5] * 12,
            seed=2,
            columns={"label_precision": precisions, "samples_backward": [1.0] * 12},
        ),
    ]
    found = measure(list(read_runs({run: runs.files[run] for run in made}).values()))
    assert found["best_round"].tolist() == [4, 1]
    assert found.loc[2, "precision"] == pytest.approx(50)  # of the last ten rounds


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
        assert _chance(found.mean(place), 0.5**0.5, 1) == pytest.approx(chance)


def test_what_gains_nothing_is_not_ahead():
    against = Against({0: 3.0, 1: 0.0, 2: -2.0, 3: 1.0}, {0, 2})
    assert (against.ahead, against.clearly_ahead, against.clearly_behind) == (2, 1, 1)
    assert against.extremes() == [0, 2]
    assert Against({1: 3.0}, set()).extremes() == [1]


def test_many_differences_are_clear_at_what_one_alone_would_need_not_reach():
    chances = {(1, 0): 0.01, (2, 0): 0.04, (3, 0): 0.02}
    assert holm(chances, 0.05) == {(1, 0), (3, 0), (2, 0)}
    assert holm({**chances, (4, 0): 0.5}, 0.05) == {(1, 0)}


def clear_of(apart):
    """How many of forty methods are clear that are three points ahead in two seeds, of which what
    ``apart`` gives for each is added to the first seed and taken from the second.
    """
    accuracies = {(0, 0): pd.Series([50.0, 50.0], [1, 2])}
    for row in range(1, 41):
        accuracies[row, 0] = pd.Series([53 + apart(row), 53 - apart(row)], [1, 2])
    found = differences(accuracies, 0)
    assert found.deviations[0] == pytest.approx(0.5 * 2**0.5)
    assert found.tested == 40
    return len(found.clear)


def test_luck_that_all_methods_share_is_told_by_few_seeds():
    """How far differences vary is the same; one degree of freedom stands against forty."""
    assert clear_of(lambda row: 0.5 if row % 2 else -0.5) == 40
    assert clear_of(lambda row: 0.5) == 0
