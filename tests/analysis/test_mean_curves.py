"""Curves of trials, and their mean."""

import numpy as np
import pytest

from noisyfl.analysis.curves import mean_curve, mean_of_curves
from small_curves import run_of


def mean_of(*trials):
    return mean_of_curves([run.series("test_accuracy") for run in trials])


def test_trials_are_averaged_at_each_evaluation():
    rounds, mean, std = mean_of(run_of([1, 2], [0.2, 0.5]), run_of([1, 2], [0.4, 0.5]))
    assert rounds.tolist() == [1, 2]
    assert mean == pytest.approx([0.3, 0.5])
    assert std == pytest.approx([np.std([0.2, 0.4], ddof=1), 0])


def test_a_single_trial_has_a_line_and_no_band():
    _, mean, std = mean_of(run_of([1, 2], [0.2, 0.5]))
    assert mean == pytest.approx([0.2, 0.5])
    assert std.tolist() == [0, 0]


def test_evaluations_elsewhere_are_joined_by_straight_lines():
    other = run_of([1, 3], [0.1, 0.5])
    rounds, mean, _ = mean_of(run_of([1, 2, 3], [0.1, 0.1, 0.1]), other)
    assert rounds.tolist() == [1, 2, 3]
    assert mean == pytest.approx([0.1, 0.2, 0.3])


def test_a_trial_that_ended_no_longer_counts():
    trials = [run_of([1, 2, 3], [0.2, 0.4, 0.6]), run_of([1, 2], [0.4, 0.6], "diverged")]
    _, mean, std = mean_of(*trials, run_of([], [], "diverged", 1))
    assert mean == pytest.approx([0.3, 0.5, 0.6])
    assert std == pytest.approx([np.std([0.2, 0.4], ddof=1)] * 2 + [0])


def test_batches_are_averaged_in_equal_rounds():
    slow = run_of([1, 2, 3], [0.1, 0.2, 0.9])
    fast = run_of([1, 2], [0.3, 0.4], per_round=20)
    batches, mean, std = mean_curve([slow, fast], "test_accuracy", "batches")
    assert batches.tolist() == [15, 30, 30]
    assert mean == pytest.approx([0.2, 0.3, 0.9])
    assert std == pytest.approx([np.std([0.1, 0.3], ddof=1)] * 2 + [0])
