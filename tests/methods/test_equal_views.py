"""Two views of an image without augmentation are one, which is passed once."""

import pytest

from noisy_digits import SETTING, run_on_digits
from noisyfl.simulation.updates import Batch

METHODS = ["dividemix(warm_up_rounds=1)", "josrc(warm_up=0.25)", "apfl+josrc(warm_up=0.25)"]


def numbers(federation):
    names = ("test_accuracy", "test_loss", "train_loss", "label_precision")
    return [row[name] for row in federation.records.rounds for name in names]


def passed(federation):
    return sum(row["samples_forward"] for row in federation.records.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_equal_views_are_passed_once_and_give_the_same_numbers(method, tmp_path, monkeypatch):
    once, _ = run_on_digits(method, tmp_path, rounds=3)
    monkeypatch.setattr(Batch, "views_are_one", False)
    twice, _ = run_on_digits(method, tmp_path, rounds=3)
    assert numbers(once) == pytest.approx(numbers(twice), rel=1e-4, nan_ok=True)
    assert passed(once) < 0.9 * passed(twice)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[:2])
def test_views_that_are_drawn_are_passed_each(method, tmp_path, monkeypatch):
    setting = {**SETTING, "augmentation": "crop"}
    drawn, _ = run_on_digits(method, tmp_path, setting, rounds=2)
    monkeypatch.setattr(Batch, "views_are_one", False)
    again, _ = run_on_digits(method, tmp_path, setting, rounds=2)
    assert numbers(drawn) == pytest.approx(numbers(again), nan_ok=True)
    assert passed(drawn) == passed(again)
