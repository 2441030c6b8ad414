"""Noisy partitions of a dataset whose labels are noisy as they come: nobody knows the true ones."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets import dataset as datasets
from noisyfl.simulation.clients import Client, mean_noise_level
from small_partitions import canonical, made


@pytest.fixture
def webvision(monkeypatch):
    """mini-WebVision's facts, with 500 training samples."""
    facts = dataclasses.replace(datasets.DATASETS["mini_webvision"], train_size=500)
    monkeypatch.setitem(datasets.DATASETS, "mini_webvision", facts)
    given = {"dataset": "mini_webvision", "label_noise": "none", "noise_level": "none"}
    return given, np.random.default_rng(1).permutation(np.arange(500) % 50)


def test_where_labels_are_noisy_as_they_come_nothing_is_said_of_the_truth(tmp_path, webvision):
    given, labels = webvision
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, canonical(**given), labels)
    frame = pd.read_parquet(path)
    assert frame.true_label.isna().all()
    assert (frame.given_label == labels[frame["sample"]]).all()
    partition = noisy_partition.read(path)
    assert np.isnan(partition.realised).all()
    assert np.isnan(partition.noise_levels).all()
    assert partition.realised.shape == partition.noise_levels.shape == (20,)
    for part in partition.clients:
        assert (part.true_label == -1).all()
        assert (part.given_label == labels[part.samples]).all()
        assert len(part.samples) == 25


@pytest.mark.parametrize(
    "noise",
    [
        {"label_noise": "symmetric", "noise_level": "constant(level=0.1)"},
        {"label_noise": "human(file='labels.npy')", "noise_level": "none"},
    ],
)
def test_labels_that_are_noisy_as_they_come_take_no_other_noise(webvision, noise):
    given, _ = webvision
    name = noise["label_noise"].split("(")[0]
    message = rf"a: x\.label_noise: got '{name}', expected 'none', .* mini_webvision are noisy"
    with pytest.raises(BadInput, match=message):
        canonical(where="a: x", **{**given, **noise})


def test_a_client_of_unknown_truth_has_no_noise_level_and_no_accuracy(tmp_path, webvision):
    given, labels = webvision
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, canonical(**given), labels)
    unknown = [client_of(i, part) for i, part in enumerate(noisy_partition.read(path).clients)]
    known = [client_of(i, part) for i, part in enumerate(made(tmp_path).clients)]
    assert not any(client.truth_known for client in unknown)
    assert all(client.truth_known for client in known)
    assert all(np.isnan(client.noise_level) for client in unknown)
    assert np.isnan(unknown[0].accuracy_of(unknown[0].given))
    wrong = sum(int((client.given != client.true).sum()) for client in known)
    assert wrong > 300
    assert mean_noise_level(known, "x") == pytest.approx(wrong / sum(map(len, known)))
    with pytest.raises(BadInput, match=r"rofl\.forget_rate: .* not known; expected"):
        mean_noise_level(unknown, "rofl.forget_rate")


def client_of(number, part):
    arrays = (part.samples, part.given_label, part.true_label)
    return Client(number, *map(torch.from_numpy, arrays))


def test_accuracy_is_the_share_of_labels_that_are_right():
    client = Client(0, torch.arange(4), torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 0, 0]))
    assert client.noise_level == 0.5
    labels = torch.tensor([0, 0, 0, 1])
    assert client.accuracy_of(labels) == 0.5
    assert client.accuracy_of(labels, torch.tensor([True, False, True, True])) == 2 / 3
    assert np.isnan(client.accuracy_of(labels, torch.zeros(4, dtype=torch.bool)))
