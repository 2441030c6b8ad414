"""Runs on labels that are noisy as they come: nothing is said of what nobody knows."""

import dataclasses
import inspect
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import official_trees as trees
import small_runs
from noisyfl.core.artifacts import RunFiles
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets import dataset as datasets
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import read_part
from noisyfl.runs.train import Inputs, TrainingOptions, train_run
from noisyfl.specs.catalogue import methods
from noisyfl.specs.run_words import describe_run
from small_files import shrink
from small_runs import SETTING

OF_THE_TRUTH = {
    *("label_precision", "label_recall", "label_accuracy", "participants_noise_level"),
    *("noise_detection_precision", "noise_detection_recall"),
    *("noise_precision", "noise_recall", "pseudo_label_accuracy", "corrected_label_accuracy"),
    *("refurbished_accuracy", "local_true_accuracy"),
}
"""Columns that compare with true labels."""

METHODS = {
    "fedavg": {},
    "coteaching": {"forget_rate": 0.2, "ramp_rounds": 2},
    "deep_self_learning": {"samples": 20},
    "fedcni": {"pseudo_label_round": 2, "aggregation_round": 2},
    "fedcorr": {"preprocessing_iterations": 1, "finetuning_rounds": 1},
    "fednoil": {"most_epochs": 2, "least_epochs": 1, "clean_share": 0.5, "confidence": 0.02},
    "fedrn": {"warm_up_rounds": 2},
    "jointopt": {"start_round": 1, "history": 2},
    "rofl": {"pseudo_label_round": 2, "forget_rate": 0.2},
    "selfie": {"warm_up_rounds": 1, "history": 2, "forget_rate": 0.2},
}


@pytest.fixture(scope="module")
def webvision(tmp_path_factory):
    """mini-WebVision, small, as its parts: a hundred images of fifty classes."""
    folder = tmp_path_factory.mktemp("webvision")
    listed = trees.webvision(folder / "data", train=120, test=60)
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, "mini_webvision", len(listed[0]), len(listed[1]))
        yield folder, trees.prepared(folder / "data", folder, "mini_webvision")


AS_IT_COMES = {
    "dataset": "mini_webvision",
    "partition": "iid(clients=4)",
    "label_noise": "none",
    "noise_level": "none",
    "augmentation": "resized_crop_flip",
    "normalization": "imagenet",
    "schedule": {**SETTING["schedule"], "rounds": 4, "batch_size": 10},
    "seed": 1,
}


def spec_of(method, **changes):
    return small_runs.spec_of(method, **{**AS_IT_COMES, **changes})


def trained(folder, paths, spec, executor="fast"):
    partition = folder / "partition.parquet"
    noisy_partition.write(partition, spec["noisy_partition"], read_part(paths["train"]).labels)
    files = RunFiles(folder / spec["method"]["name"])
    train_run(
        spec,
        Inputs(*paths.values(), partition),
        files,
        folder / "checkpoint.pt",
        TrainingOptions(device="cpu", executor=executor),
        log=lambda line: None,
    )
    return pq.read_table(files.rounds).to_pydict(), pq.read_table(files.clients).to_pydict()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_what_compares_with_the_truth_is_null(webvision, name):
    rounds, clients = trained(*webvision, spec_of({"name": name, **METHODS[name]}))
    assert rounds["round"]
    assert all(0 <= accuracy <= 1 for accuracy in rounds["test_accuracy"] if accuracy is not None)
    assert OF_THE_TRUTH & set(rounds)
    for table in (rounds, clients):
        for column in OF_THE_TRUTH & set(table):
            assert set(table[column]) <= {None}, column


@pytest.mark.slow
def test_where_the_truth_is_known_those_columns_have_numbers(tmp_path, data):
    paths = {part: data.data("digits", part) for part in ("train", "test")}
    method = {"name": "selfie", **METHODS["selfie"]}
    rounds, clients = trained(tmp_path, paths, small_runs.spec_of(method))
    for name in ("label_accuracy", "participants_noise_level"):
        assert None not in rounds[name]
    assert any(value is not None for value in clients["refurbished_accuracy"])


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "coteaching",
            r"coteaching\.forget_rate: got null, .* as in coteaching\(forget_rate=0.2\)",
        ),
        ("krum+selfie", r"selfie\.forget_rate: got null"),
        ("rofl", r"rofl\.forget_rate: got null"),
        ("fednoil", r"fednoil\.clean_share: got null"),
        (
            'fednoil(clean_share=0.4, subset_size="mean_noise")',
            r"fednoil\.subset_size: got mean_noise, .* expected another value",
        ),
    ],
)
def test_a_noise_level_that_nobody_knows_has_to_be_given_before_any_job(method, said):
    with pytest.raises(BadInput, match=rf"method\.{said}"):
        spec_of(method)


def test_methods_that_ask_for_the_noise_level_declare_with_which_options():
    def asks(method):
        code = [inspect.getsource(one) for one in method.__mro__ if "methods" in one.__module__]
        return any(re.search(r"fl\.(known|mean)_noise_levels?\(", text) for text in code)

    assert {name for name, method in methods().items() if asks(method)} == {
        name for name, method in methods().items() if method.needs_level
    }


@pytest.mark.parametrize("method", ["oracle", "krum+oracle"])
def test_the_oracle_is_refused_before_any_job(method):
    with pytest.raises(BadInput, match=r"method: got 'oracle', which has to know the true"):
        spec_of(method)


def test_noise_on_top_is_refused_before_any_job():
    with pytest.raises(BadInput, match=r"label_noise: got 'pair', expected 'none'"):
        spec_of("fedavg", label_noise="pair", noise_level="constant(level=0.1)")


def test_a_run_says_that_its_labels_are_noisy_as_they_come():
    assert describe_run(spec_of("fedavg")) == (
        "fedavg on mini_webvision, iid(clients=4), label noise as it comes, seed 1"
    )


@pytest.mark.parametrize("executor", ["fast", "loop"])
@pytest.mark.slow
def test_clothing1m_trains_from_its_shards(tmp_path, monkeypatch, executor):
    shrink(monkeypatch, "clothing1m", 28, 14)
    trees.clothing1m(tmp_path / "data", train=28, test=14)
    paths = trees.prepared(tmp_path / "data", tmp_path, "clothing1m")
    small = dataclasses.replace(DATASETS["clothing1m"], train_size=28, test_size=14)
    assert datasets.DATASETS["clothing1m"] == small
    spec = spec_of("fedavg", dataset="clothing1m", augmentation="crop_flip")
    rounds, _ = trained(tmp_path, paths, spec, executor)
    assert rounds["participants_noise_level"] == [None] * 4
    assert np.isfinite(rounds["train_loss"]).all()
