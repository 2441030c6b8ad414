"""Datasets: official files in, verified Parquet out."""

import dataclasses
import hashlib
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from noisyfl.core.artifacts import DamagedArtifact, read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.data.datasets import dataset as datasets
from noisyfl.data.datasets.dataset import DATASETS, dataset
from noisyfl.data.datasets.parts import read_part
from small_files import assert_holds, fill, listing, prepare_in, small_arrays


@pytest.mark.parametrize("name", DATASETS)
def test_the_facts_of_a_dataset_fit_together(name):
    facts = dataset(name, "dataset")
    assert facts.name == name
    assert len(facts.mean) == len(facts.std)
    assert len(facts.mean) in (0, facts.shape[2])
    assert len(set(facts.classes)) == len(facts.classes)
    assert all(0 < m < 1 and 0 < s < 1 for m, s in zip(facts.mean, facts.std, strict=True))


def test_an_unknown_dataset_is_refused_with_a_hint():
    with pytest.raises(BadInput, match=r"settings\.a\.dataset.*'cifar1'.*did you mean 'cifar10'"):
        dataset("cifar1", "settings.a.dataset")


def test_digits_are_split_once_and_for_all(tmp_path):
    paths = prepare_in(tmp_path, "digits", tmp_path)
    train, test = read_part(paths["train"]), read_part(paths["test"])
    assert train.images.shape == (1437, 8, 8, 1)
    assert test.images.shape == (360, 8, 8, 1)
    assert train.images.max() == 255
    digest = hashlib.sha256(test.images.tobytes() + test.labels.tobytes()).hexdigest()
    assert digest == "a164e39757d00b85b255b0466ad033fdbed3e698d0b2ccb6f21abf109ca8ea95"
    shares = np.bincount(test.labels) / (np.bincount(train.labels) + np.bincount(test.labels))
    assert np.abs(shares - 360 / 1797).max() < 1 / 174
    facts = DATASETS["digits"]
    assert train.images.mean() / 255 == pytest.approx(facts.mean[0], abs=5e-5)
    assert train.images.std() / 255 == pytest.approx(facts.std[0], abs=5e-5)


def test_a_part_can_be_read_with_pandas_alone(tmp_path):
    paths = prepare_in(tmp_path, "digits", tmp_path)
    part = read_part(paths["test"])
    frame = pd.read_parquet(paths["test"])
    assert list(frame.columns) == ["image", "label"]
    assert frame.label.tolist() == part.labels.tolist()
    assert frame.image[3] == part.images[3].tobytes()
    assert part.name == "digits"
    assert part.classes == tuple("0123456789")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["MNIST/raw", "."])
def test_official_files_are_read_where_they_lie_and_left_alone(tmp_path, mnist, packed, place):
    contents, arrays = mnist
    folder = tmp_path / "data"
    fill(folder / place, contents, packed)
    before = listing(folder)
    assert_holds(prepare_in(tmp_path, "mnist", folder), arrays)
    assert listing(folder) == before


def test_a_missing_file_is_named_with_what_to_do(tmp_path, mnist):
    contents, _ = mnist
    fill(tmp_path / "MNIST" / "raw", contents, packed=True)
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(
        BadInput, match=r"t10k-labels-idx1-ubyte.*data\.download: true or --download, or put"
    ):
        prepare_in(tmp_path, "mnist", tmp_path)


def test_an_altered_file_is_refused_with_both_checksums(tmp_path, mnist):
    contents, _ = mnist
    raw = tmp_path / "MNIST" / "raw"
    fill(raw, contents, packed=False)
    file = "train-labels-idx1-ubyte"
    altered = contents[file][:-1] + b"\x09\x09"
    (raw / file).write_bytes(altered)
    found, expected = (hashlib.sha256(c[8:]).hexdigest() for c in (altered, contents[file]))
    with pytest.raises(BadInput, match=f"{raw / file} .*{found}, expected {expected}.*download"):
        prepare_in(tmp_path, "mnist", tmp_path)


def test_a_truncated_archive_is_refused(tmp_path, mnist):
    contents, _ = mnist
    raw = tmp_path / "MNIST" / "raw"
    fill(raw, contents, packed=True)
    path = raw / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput, match=f"{path} cannot be read .*end-of-stream"):
        prepare_in(tmp_path, "mnist", tmp_path)


def test_a_download_fetches_what_is_missing_and_repairs_what_is_damaged(
    tmp_path, mnist, monkeypatch
):
    from torchvision.datasets import MNIST

    contents, arrays = mnist
    mirror = tmp_path / "mirror"
    asked = {"t10k-labels-idx1-ubyte", "train-images-idx3-ubyte"}
    fill(mirror, {file: contents[file] for file in asked}, packed=True)
    monkeypatch.setattr(MNIST, "mirrors", ["file:///nowhere/", f"{mirror.as_uri()}/"])
    folder = tmp_path / "data"
    raw = folder / "MNIST" / "raw"
    fill(raw, contents, packed=True)
    whole = (raw / "train-images-idx3-ubyte.gz").read_bytes()
    (raw / "train-images-idx3-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    (raw / "t10k-images-idx3-ubyte").write_bytes(b"not what was packed")
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    assert_holds(prepare_in(tmp_path, "mnist", folder, download=True), arrays)
    shutil.rmtree(mirror)
    assert_holds(prepare_in(tmp_path, "mnist", folder, download=True), arrays)


def test_cifar_is_read_from_its_batches_or_from_the_archive(tmp_path, cifar):
    archive, arrays = cifar
    before = listing(archive.parent)
    assert_holds(prepare_in(tmp_path, "cifar10", archive.parent), arrays)
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / archive.name).write_bytes(archive.read_bytes())
    assert_holds(prepare_in(tmp_path, "cifar10", alone), arrays)
    assert listing(archive.parent) == before
    assert [path.name for path in alone.iterdir()] == [archive.name]


def test_cifar_names_the_file_that_is_missing_or_altered(tmp_path, cifar):
    archive, _ = cifar
    with pytest.raises(BadInput, match=r"no file .*data_batch_1 .*cifar-10-python\.tar\.gz into"):
        prepare_in(tmp_path, "cifar10", tmp_path / "empty")
    archive.write_bytes(archive.read_bytes()[:-10])
    batch = archive.parent / "cifar-10-batches-py" / "data_batch_2"
    batch.write_bytes(batch.read_bytes()[:-1])
    message = f"data_batch_2 has MD5 .*, expected .*{archive} has MD5 .*, expected"
    with pytest.raises(BadInput, match=message):
        prepare_in(tmp_path, "cifar10", archive.parent)


def test_cifar_is_downloaded_and_a_file_cut_short_is_no_success(tmp_path, cifar, monkeypatch):
    from torchvision.datasets import CIFAR10

    archive, arrays = cifar
    mirror, folder = tmp_path / "mirror.tar.gz", tmp_path / "data"
    monkeypatch.setattr(CIFAR10, "url", mirror.as_uri())
    mirror.write_bytes(archive.read_bytes()[:-10])
    with pytest.raises(BadInput, match=r"cifar10: could not be downloaded into .*data"):
        prepare_in(tmp_path, "cifar10", folder, download=True)
    shutil.copy(archive, mirror)
    assert_holds(prepare_in(tmp_path, "cifar10", folder, download=True), arrays)
    mirror.unlink()
    assert_holds(prepare_in(tmp_path, "cifar10", folder, download=True), arrays)


def with_load(monkeypatch, train):
    """MNIST's facts, small, with a loader that returns ``train`` and a good test part."""
    good = small_arrays((28, 28, 1))["test"]
    facts = dataclasses.replace(
        DATASETS["mnist"], train_size=60, test_size=20, load=lambda *_: (train, good)
    )
    monkeypatch.setitem(datasets.DATASETS, "mnist", facts)


def test_contents_that_are_not_the_dataset_are_refused(tmp_path, monkeypatch):
    images, labels = small_arrays((28, 28, 1))["train"]
    with_load(monkeypatch, (images[:-1], labels[:-1]))
    with pytest.raises(BadInput, match=r"train part has images uint8 \(59, .*expected .*\(60, 28"):
        prepare_in(tmp_path, "mnist", tmp_path)
    with_load(monkeypatch, (images, np.where(labels == 9, 10, labels)))
    with pytest.raises(BadInput, match=r"train part has labels .* 10.*every class from 0 to 9"):
        prepare_in(tmp_path, "mnist", tmp_path)


def test_foreign_parts_are_refused(tmp_path):
    write_table(tmp_path / "other.parquet", pa.table({"round": [1]}), {})
    with pytest.raises(DamagedArtifact, match="not a part of a dataset"):
        read_part(tmp_path / "other.parquet")


def test_parts_that_lie_in_each_others_place_are_refused(tmp_path):
    train, test = prepare_in(tmp_path, "digits", tmp_path).values()
    aside = train.rename(tmp_path / "aside.parquet")
    test.rename(train)
    aside.rename(test)
    with pytest.raises(
        DamagedArtifact, match=r"train\.parquet: this is the test part of digits, where the train"
    ):
        read_part(train)
    with pytest.raises(DamagedArtifact, match=r"test\.parquet: this is the train part of digits"):
        read_part(test)
    assert read_part(test.rename(tmp_path / "mine.parquet")).name == "digits"


def test_a_part_of_another_revision_is_refused_and_an_older_file_is_read(tmp_path):
    path = prepare_in(tmp_path, "digits", tmp_path)["test"]
    table, metadata = read_table(path)
    write_table(path, table, {**metadata, "revision": 99})
    with pytest.raises(DamagedArtifact, match=r"test\.parquet: it is of revision 99, and this"):
        read_part(path)
    older = {key: metadata[key] for key in ("dataset", "shape", "classes")}
    write_table(path, table, older)
    assert len(read_part(path).labels) == 360
