"""What is written down of selections and evaluations."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import (
    balanced_accuracy_score,
    precision_score,
    recall_score,
    top_k_accuracy_score,
)
from sklearn.metrics import confusion_matrix as confusion_of

from noisyfl.analysis.runs import read_run
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.runs.train import build_federation
from noisyfl.simulation.rounds import (
    NOT_EVALUATED,
    balanced_accuracy,
    confusion_matrix,
    top_accuracy,
)
from small_runs import SETTING, SMALL, inputs, spec_of, train_small

SHARES = (
    *("label_precision", "label_recall"),
    *("noise_detection_precision", "noise_detection_recall", "open_set_recall"),
)


def begun(data, partition=None):
    """A federation before its first round."""
    spec = spec_of("fedavg")
    parts = (read_part(data.data("digits", part)) for part in ("train", "test"))
    partition = partition or partition_of(data)
    return build_federation(spec, 1, *parts, partition, torch.device("cpu"), "loop")


def partition_of(data):
    return noisy_partition.read(inputs(spec_of("fedavg"), data)[2])


def test_selections_are_held_against_the_labels_in_training(data):
    """By scikit-learn, of masks drawn at random, for every client and for the mean over clients."""
    federation = begun(data)
    rng = np.random.default_rng(0)
    # One client's labels were all put right: nothing is left to detect.
    federation.clients[1].labels = federation.clients[1].true
    expected = {}
    for client in federation.clients[:4]:
        mask = rng.random(len(client)) < 0.6
        federation.report_selection(client, torch.from_numpy(mask))
        clean = (client.labels == client.true).numpy()
        expected[client.id] = [
            precision_score(clean, mask),
            recall_score(clean, mask),
            precision_score(~clean, ~mask),
            recall_score(~clean, ~mask) if not clean.all() else np.nan,
        ]
    federation.close_round(0, "training", 3, [], (0, 0), NOT_EVALUATED, 1.0)
    names = ("precision", "recall")
    assert [row["client"] for row in federation.records.clients] == [0, 1, 2, 3]
    for row in federation.records.clients:
        written = [row[f"label_{name}"] for name in names]
        assert written == pytest.approx(expected[row["client"]][:2])
    (row,) = federation.records.rounds
    means = np.nanmean(list(expected.values()), axis=0)
    assert [row[f"label_{name}"] for name in names] == pytest.approx(means[:2])
    assert [row[f"noise_detection_{name}"] for name in names] == pytest.approx(means[2:])


def test_open_set_samples_that_are_left_out_are_counted(data):
    """The class after the last one stands for them; a client without any has no share."""
    partition = partition_of(data)
    some = partition.clients[0]
    some.true_label[:5] = 10
    federation = begun(data, partition)
    for client in federation.clients[:2]:
        flags = torch.ones(len(client), dtype=torch.bool)
        flags[3:20] = False
        federation.report_selection(client, flags)
    federation.close_round(0, "training", 3, [], (0, 0), NOT_EVALUATED, 1.0)
    shares = [row["open_set_recall"] for row in federation.records.clients]
    assert shares[0] == 2 / 5
    assert np.isnan(shares[1])
    (row,) = federation.records.rounds
    assert row["open_set_recall"] == 2 / 5
    wrong = np.mean(some.true_label != some.given_label)
    assert federation.clients[0].noise_level == wrong


def test_nothing_is_said_of_selections_where_nobody_knows_the_true_labels(data):
    partition = partition_of(data)
    for part in partition.clients:
        part.true_label[:] = -1
    federation = begun(data, partition)
    client = federation.clients[0]
    federation.report_selection(client, torch.ones(len(client), dtype=torch.bool))
    federation.close_round(0, "training", 3, [], (0, 0), NOT_EVALUATED, 1.0)
    assert federation.records.clients == []
    (row,) = federation.records.rounds
    for name in ("label_precision", "noise_detection_recall", "label_accuracy"):
        assert np.isnan(row[name])


@pytest.mark.parametrize("name", ["coteaching", "fednoil"])
@pytest.mark.slow
def test_a_selecting_method_has_its_clients_precision_in_each_round(name, data, tmp_path):
    """Of FedNoiL, which picks in each local epoch, over all of its picks."""
    files = train_small(spec_of({"name": name, **SMALL[name]}), data, tmp_path)
    clients, rounds = pd.read_parquet(files.clients), pd.read_parquet(files.rounds)
    picked = clients.dropna(subset=["label_precision"])
    assert picked.groupby("round").size().tolist() == rounds["participants"].tolist() == [3] * 8
    for column in SHARES:
        means = picked.groupby("round")[column].mean()
        assert means.tolist() == pytest.approx(rounds[column].tolist(), nan_ok=True)
    noisy = rounds["participants_noise_level"] > 0
    assert rounds["noise_detection_recall"].notna().tolist() == noisy.tolist()


@pytest.mark.slow
def test_in_co_teachings_first_round_nothing_is_left_out(data, tmp_path):
    files = train_small(spec_of({"name": "coteaching", **SMALL["coteaching"]}), data, tmp_path)
    rounds = pd.read_parquet(files.rounds)
    assert np.isnan(rounds["noise_detection_precision"][0])
    assert rounds["noise_detection_recall"][0] == 0
    assert rounds["noise_detection_precision"][1:].notna().all()


def test_top_accuracy_is_scikit_learns():
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(200, 14)), rng.integers(14, size=200)
    expected = top_k_accuracy_score(labels, scores, k=5, labels=range(14))
    found = top_accuracy(torch.from_numpy(scores), torch.from_numpy(labels), 5)
    assert found == pytest.approx(expected)
    assert 0.2 < found < 0.6
    assert np.isnan(top_accuracy(torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64), 5))


def test_balanced_accuracy_is_scikit_learns():
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=(200, 5)), rng.integers(4, size=200)  # none of class 4
    confusion = confusion_matrix(torch.from_numpy(scores), torch.from_numpy(labels))
    guesses = scores.argmax(1)
    assert confusion.tolist() == confusion_of(labels, guesses, labels=range(5)).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = balanced_accuracy_score(labels, guesses)
    assert balanced_accuracy(confusion) == pytest.approx(expected)


def test_the_last_evaluation_leaves_its_confusion_matrix(data, tmp_path):
    files = train_small(spec_of("fedavg"), data, tmp_path)
    run = read_run(files.folder.name, files)
    *others, last = pd.read_parquet(files.rounds)["confusion"]
    assert all(matrix is None for matrix in others)
    assert len(last) == 100
    accuracy = run.confusion.diagonal().sum() / run.confusion.sum()
    assert accuracy == pytest.approx(run.accuracies[-1], rel=1e-12)
    of_classes = run.confusion.diagonal() / run.confusion.sum(1)
    assert of_classes.mean() == pytest.approx(run.values("balanced_accuracy")[-1])


def test_top5_accuracy_is_that_of_the_same_evaluations(data, tmp_path):
    schedule = {**SETTING["schedule"], "evaluate_every": 3}
    files = train_small(spec_of("fedavg", schedule=schedule), data, tmp_path)
    rounds = pd.read_parquet(files.rounds)
    evaluated = rounds["test_accuracy"].notna()
    assert evaluated.tolist() == rounds["test_top5_accuracy"].notna().tolist()
    assert (rounds["test_top5_accuracy"] > rounds["test_accuracy"])[evaluated].all()
