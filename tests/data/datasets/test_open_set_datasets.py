"""Datasets with images of no class of the task."""

import dataclasses

import numpy as np
import pytest

from noisyfl.data.datasets.dataset import DATASETS, with_open_set
from noisyfl.data.datasets.parts import read_part
from small_files import prepare_in, small_arrays


def test_the_last_classes_of_the_digits_are_the_open_set(tmp_path):
    whole, split = (
        {
            part: read_part(path)
            for part, path in prepare_in(tmp_path / name, name, tmp_path).items()
        }
        for name in ("digits", "digits_open")
    )
    facts = split["train"].facts
    assert (facts.classes, facts.true_names[8:]) == (tuple("01234567"), ("no class",))
    train, test = whole["train"].labels < 8, whole["test"].labels < 8
    assert (facts.task_size, facts.test_size) == (train.sum(), test.sum())
    labels = split["train"].labels
    assert (labels[: facts.task_size] == whole["train"].labels[train]).all()
    assert (labels[facts.task_size :] == 8).all()
    images = whole["train"].images
    assert (split["train"].images == np.concatenate([images[train], images[~train]])).all()
    assert (split["test"].labels == whole["test"].labels[test]).all()
    assert (split["test"].images == whole["test"].images[test]).all()


def test_the_training_images_of_another_dataset_are_the_open_set(tmp_path):
    arrays = {name: small_arrays((28, 28, 1)) for name in ("mnist", "fashion_mnist")}
    arrays["fashion_mnist"]["train"][0][:] = 7
    one, other = (
        dataclasses.replace(
            DATASETS[name],
            train_size=60,
            test_size=20,
            load=lambda folder, download, name=name: tuple(arrays[name].values()),
        )
        for name in arrays
    )
    facts = with_open_set(one, other)
    assert facts.name == "mnist_with_fashion_mnist"
    assert (facts.train_size, facts.task_size, facts.test_size) == (120, 60, 20)
    (images, labels), test = facts.load(tmp_path, False)
    assert (images[:60] == arrays["mnist"]["train"][0]).all()
    assert (images[60:] == 7).all()
    assert (labels[:60] == arrays["mnist"]["train"][1]).all()
    assert (labels[60:] == 10).all()
    assert test is arrays["mnist"]["test"]


@pytest.mark.parametrize("name", [name for name, facts in DATASETS.items() if facts.open_set])
def test_sizes_and_shapes_are_those_of_what_it_is_made_of(name):
    facts = DATASETS[name]
    task, _, other = name.removesuffix("_open").partition("_with_")
    if other:
        assert DATASETS[other].shape == facts.shape
        assert facts.open_set == DATASETS[other].train_size
        assert facts.classes == DATASETS[task].classes
    else:
        assert facts.train_size == DATASETS[task].train_size
        assert facts.test_size < DATASETS[task].test_size
        assert len(facts.classes) == 0.8 * len(DATASETS[task].classes)
