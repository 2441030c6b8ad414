"""Validation datasets: a tenth of the training part stands for the test part."""

import numpy as np
import pytest

from noisyfl.data.datasets.dataset import DATASETS, validation
from noisyfl.data.datasets.parts import read_part
from small_files import prepare_in


def rows(part):
    return [image.tobytes() for image in part.images]


def test_the_training_part_is_split_once_for_all_and_the_test_part_is_not_read(tmp_path):
    whole, split, again = (
        {
            part: read_part(path)
            for part, path in prepare_in(tmp_path / place, name, tmp_path).items()
        }
        for place, name in (
            ("whole", "digits"),
            ("split", "digits_validation"),
            ("again", "digits_validation"),
        )
    )
    assert (len(split["train"].labels), len(split["test"].labels)) == (1_293, 144)
    both = [*rows(split["train"]), *rows(split["test"])]
    assert sorted(both) == sorted(rows(whole["train"]))
    assert rows(split["test"]) == rows(again["test"])
    # Every class is in both, about as often as in the whole.
    shares = [np.bincount(split[part].labels, minlength=10) for part in ("train", "test")]
    assert (shares[1] > 0).all()
    assert shares[1].sum() / shares[0].sum() == pytest.approx(1 / 9, abs=0.01)
    assert split["train"].facts == DATASETS["digits_validation"]


def test_what_is_known_of_it_is_what_is_known_of_its_dataset():
    facts = DATASETS["cifar10_validation"]
    assert (facts.train_size, facts.test_size) == (45_000, 5_000)
    assert facts.mean == DATASETS["cifar10"].mean
    assert validation(DATASETS["cifar10"]).classes == DATASETS["cifar10"].classes
