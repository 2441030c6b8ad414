"""What runs reached, and how often that is better than FedAvg."""

import numpy as np
import pytest

from noisyfl.analysis.measurements import Against, measure
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
    assert found.accuracy == pytest.approx(70)
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


def test_a_method_that_gains_nothing_is_not_better():
    against = Against({0: 3.0, 1: 0.0, 2: -2.0, 3: 1.0}, {0, 2})
    assert (against.better, against.significantly_better, against.significantly_worse) == (2, 1, 1)
    assert against.extremes() == [0, 2]
    assert Against({1: 3.0}, set()).extremes() == [1]
