"""Images of one's own that are in both parts, or that have two labels."""

import os
import shutil

import numpy as np
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.classes import CIFAR100_SUPERCLASSES
from noisyfl.data.noise.agreement import doubt
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan_file import PlanFile
from own_sets import known, spec


def remarks(folder, text, *noise):
    """What a new planning, and one that finds what was read, remark on."""
    found = []
    for _ in range(2):
        own = OwnFiles(folder, folder / "results")
        found.append(own.remarks_on(spec(text, own, *noise)))
    assert found[0] == found[1]
    return found[0]


def test_images_that_differ_are_not_remarked_on(tmp_path):
    for make in own_sets.FORMATS.values():
        found = remarks(tmp_path, make(tmp_path))
        assert [one for one in found if "not read: val_" not in one] == []  # MedMNIST's val part


def link(old, new):
    new.symlink_to(old)


@pytest.mark.parametrize("make", [link, os.link])
def test_a_file_in_both_parts_is_refused(tmp_path, make):
    text = own_sets.as_folder(tmp_path)
    make(tmp_path / "folder/train/ant/000.png", tmp_path / "folder/test/ant/100.png")
    expected = (
        r"test: 1 files are in the .*/000\.png and .*/100\.png; ex|leads to .*/000\.png, which"
    )
    with pytest.raises(BadInput, match=expected):
        known(tmp_path, text)


def test_a_file_that_two_lists_name_is_refused(tmp_path):
    text = own_sets.as_csv(tmp_path)
    with (tmp_path / "test.csv").open("a") as file:
        file.write("./folder/test/../train/ant/000.png,bee,bee\n")
    with pytest.raises(BadInput, match=r"test: 1 files are in the training part and in the test"):
        known(tmp_path, text)


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("hub", "hub/data"),
        ("hub/data", "hub"),
        ("hub", "hub/data/b.parquet"),
        ("folder", "folder/b"),
    ],
)
def test_a_part_in_the_other_one_is_refused(tmp_path, path, test):
    own_sets.as_parquet(tmp_path)
    own_sets.as_folder(tmp_path)
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / f"hub/data/{part}-00000-of-00001.parquet").rename(
            tmp_path / f"hub/data/{name}.parquet"
        )
        (tmp_path / "folder" / part).rename(tmp_path / "folder" / name)
    expected = r"test: \d files are in the training part and in the test|as parts of a dataset have"
    with pytest.raises(BadInput, match=expected):
        known(tmp_path, f"images(path='{path}', test='{test}')")


def test_copies_in_both_parts_are_counted(tmp_path):
    text = own_sets.as_folder(tmp_path)
    for row in ("000", "001"):
        shutil.copy(
            tmp_path / f"folder/train/ant/{row}.png", tmp_path / f"folder/test/bee/1{row}.png"
        )
    (found,) = remarks(tmp_path, text)
    assert found.endswith("folder: 2 of 11 test images are equal to a training image")


def test_images_with_two_labels_are_counted(tmp_path):
    text = own_sets.as_csv(tmp_path)
    with (tmp_path / "train.csv").open("a") as file:
        file.write("folder/train/ant/000.png,bee,bee\nfolder/train/ant/001.png,ant,ant\n")
    two_labels, copied = remarks(tmp_path, text)
    assert two_labels.endswith(
        "train.csv: 1 images are in the training part with two labels or more"
    )
    assert "train.csv: 1 images are in the training part twice or more with the same" in copied


def test_given_labels_that_are_those_of_other_images_are_remarked_on(tmp_path):
    own_sets.as_npz(tmp_path)
    arrays = dict(np.load(tmp_path / "set.npz"))
    labels = (arrays["train_label"] + 1 + np.arange(24) % 2) % 3
    np.savez(tmp_path / "set.npz", **{**arrays, "train_given": labels})
    np.savez(tmp_path / "labels.npz", label=labels, fine=own_sets.given_labels())
    text = "images(path='set.npz', given='given')"
    own = OwnFiles(tmp_path, tmp_path / "results")
    spec(text, own, "file(path='labels.npz', key='label')", None)
    (of_dataset,), (of_file,) = remarks(tmp_path, text, "file", None), own.doubts
    for found, where in ((of_dataset, "set.npz, given"), (of_file, "labels.npz, label")):
        assert found.startswith(where)
        assert (
            "agree with the true ones in 0.0% of 24 samples, where labels at random would" in found
        )
    assert remarks(tmp_path, text, "file(path='labels.npz', key='fine')", None) == []
    assert remarks(tmp_path, text) == []


def test_labels_of_superclasses_are_remarked_on():
    """Their values fit, and a few are right by chance."""
    true = np.tile(np.arange(100), 50)
    assert "% of 5,000 samples, where" in doubt(np.array(CIFAR100_SUPERCLASSES)[true], true)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(5_000) < 0.8, rng.integers(0, 100, 5_000), true)
    assert doubt(given, true) == ""
    assert doubt(true, true) == ""
    assert doubt(np.zeros(9, int), np.zeros(9, int)) == ""


EXPERIMENT = """
title: "Mine"
settings:
  own:
    dataset: images(path="folder", size=[16, 16])
    clients: 5
    partition: iid
    label_noise: symmetric
    noise_level: constant(level=0.1)
    model: cnn
    augmentation: none
    normalization: dataset
    schedule: {rounds: 2, participation: 1.0, local_epochs: 1, batch_size: 4, learning_rate: 0.1}
tables:
  first:
    title: "First"
    setting: own
    trials: 1
    statistic: last
    columns: [{name: "all"}]
    rows: [{name: FedAvg, method: fedavg}]
"""


def test_planning_says_what_it_found_and_pages_have_it(tmp_path):
    own_sets.as_folder(tmp_path)
    shutil.copy(tmp_path / "folder/train/ant/000.png", tmp_path / "folder/test/bee/100.png")
    (tmp_path / "mine.yaml").write_text(EXPERIMENT)
    config = check_config(
        {
            "scale": "mine",
            "experiments": ["mine"],
            "experiment_folders": [str(tmp_path)],
            "results": str(tmp_path / "results"),
            "data": {"folder": str(tmp_path)},
        },
        "mine",
    )
    lines = []
    plan = PlanFile(config, "mine").plan(lines.append)
    small, leaked = plan.warnings
    assert "1 of 10 test images are equal to a training image" in leaked + small
    assert [f"Warning: {one}" for one in plan.warnings] == lines[1:]
    assert "flips 0% of the labels of clients with 4 samples" in leaked + small
    (facts,) = plan.facts.values()
    assert sorted(facts.remarks) == plan.warnings
    assert plan.tables["mine/first"].cells[0][0].remarks == facts.remarks
