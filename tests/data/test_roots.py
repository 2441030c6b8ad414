"""Official files in several data folders, of which only the last is written to."""

import shutil

import numpy as np
import pytest

import official_trees as trees
from noisyfl.core.artifacts import read_metadata
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.human_labels import load_columns
from noisyfl.data.roots import NotFound, first
from small_files import assert_holds, fill, listing, md5, prepare_in, shrink


@pytest.fixture
def roots(tmp_path):
    """Two folders that others keep, and one of one's own that is not there yet."""
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
        (folder / "README").write_text("read only")
    return [*folders, tmp_path / "own"]


@pytest.fixture(params=["mnist", "batches", "archive", "clothing1m", "covidx", "mini_webvision"])
def official(request, tmp_path, mnist, cifar, monkeypatch):
    """The name of a dataset, and a folder with its official files."""
    kind, folder = request.param, tmp_path / "official"
    archive, _ = cifar  # in the same folder, with its batches beside it
    if kind == "batches":
        archive.unlink()
        return "cifar10", folder
    shutil.rmtree(folder / "cifar-10-batches-py")
    if kind == "archive":
        return "cifar10", folder
    archive.unlink()
    if kind == "mnist":
        fill(folder / "MNIST" / "raw", mnist[0], packed=True)
    elif kind == "clothing1m":
        shrink(monkeypatch, kind, 32, 16)
        trees.clothing1m(folder)
    elif kind == "covidx":
        shrink(monkeypatch, kind, 12, 6)
        trees.covidx(folder)
    else:
        shrink(monkeypatch, kind, *map(len, trees.webvision(folder)))
    return kind, folder


@pytest.mark.slow
def test_a_dataset_is_read_where_it_is_and_nothing_is_written_there(tmp_path, roots, official):
    name, folder = official

    def checksums(result, given):
        paths = prepare_in(tmp_path / "made" / result, name, given)
        return [read_metadata(path)["checksum"] for path in paths.values()]

    expected = checksums("alone", folder)
    with pytest.raises(BadInput) as caught:
        checksums("none", roots)
    for root in roots:
        assert f"{root}/" in str(caught.value)
    for place in roots:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        before = listing(*roots)
        assert checksums(place.name, roots) == expected
        assert listing(*roots) == before
        for path in folder.iterdir():
            copy = place / path.name
            shutil.rmtree(copy) if copy.is_dir() else copy.unlink()


def test_a_damaged_copy_is_passed_over(tmp_path, roots, cifar):
    archive, arrays = cifar
    theirs, _, own = roots
    (theirs / archive.name).write_bytes(archive.read_bytes()[:-9])
    with pytest.raises(BadInput) as caught:
        prepare_in(tmp_path, "cifar10", roots)
    said = str(caught.value)
    assert f"{theirs / archive.name} has MD5" in said
    # Nobody is told to put files where others keep theirs.
    assert said.endswith(f"put the official cifar-10-python.tar.gz into {own}")
    assert said.count("set data.download: true or --download") == 1
    own.mkdir()
    shutil.copy(archive, own)
    assert_holds(prepare_in(tmp_path, "cifar10", roots), arrays)


def test_images_that_are_missing_in_every_folder_are_all_listed(tmp_path, roots, monkeypatch):
    theirs, _, own = roots
    shrink(monkeypatch, "covidx", 12, 6)
    trees.covidx(theirs, 12, 6)
    shutil.copytree(theirs / "covidx", own / "covidx")
    for root, lost in ((theirs, "train-1.jpg"), (own, "train-2.jpg")):
        (root / "covidx" / "train" / lost).unlink()
    with pytest.raises(BadInput, match=r"^covidx: 1 of its images are missing: .*1 of its images"):
        prepare_in(tmp_path, "covidx", roots)
    listed = (tmp_path / "results" / "missing.txt").read_text().splitlines()
    lost = [theirs / "covidx" / "train" / "train-1.jpg", own / "covidx" / "train" / "train-2.jpg"]
    assert listed == [str(path) for path in lost]
    (own / "covidx" / "train" / "train-2.jpg").write_bytes(
        (theirs / "covidx" / "train" / "train-2.jpg").read_bytes()
    )
    prepare_in(tmp_path, "covidx", roots)
    assert not (tmp_path / "results" / "missing.txt").exists()


def test_downloads_go_to_the_last_folder(tmp_path, roots, mnist, cifar, monkeypatch):
    from torchvision.datasets import CIFAR10, MNIST

    archive, arrays = cifar
    fill(tmp_path / "mirror", mnist[0], packed=True)
    monkeypatch.setattr(CIFAR10, "url", archive.as_uri())
    monkeypatch.setattr(MNIST, "mirrors", [f"{(tmp_path / 'mirror').as_uri()}/"])
    before = listing(*roots[:2])
    assert_holds(prepare_in(tmp_path / "c", "cifar10", roots, download=True), arrays)
    assert_holds(prepare_in(tmp_path / "m", "mnist", roots, download=True), mnist[1])
    assert listing(*roots[:2]) == before
    assert md5((roots[2] / archive.name).read_bytes()) == md5(archive.read_bytes())
    assert len(list((roots[2] / "MNIST" / "raw").iterdir())) == 4


def test_nothing_is_downloaded_that_another_folder_has(tmp_path, roots, cifar, monkeypatch):
    from torchvision.datasets import CIFAR10

    archive, arrays = cifar
    monkeypatch.setattr(CIFAR10, "url", "file:///nowhere")
    shutil.copy(archive, roots[1])
    assert_holds(prepare_in(tmp_path, "cifar10", roots, download=True), arrays)
    assert not roots[2].exists()


def test_human_labels_are_those_of_the_first_folder_that_has_them(roots):
    facts = DATASETS["digits"]
    given = np.arange(facts.train_size) % 10
    for root, shift in zip(roots[1:], (1, 2), strict=True):
        root.mkdir(exist_ok=True)
        np.save(root / "labels.npy", (given + shift) % 10)
        before = listing(*roots[:2])
        found, _ = load_columns("labels.npy", None, facts, roots)
        assert found.tolist() == ((given + 1) % 10).tolist()
        assert listing(*roots[:2]) == before
    with pytest.raises(BadInput) as caught:
        load_columns("other.npy", None, facts, roots)
    for root in roots:
        assert str(root / "other.npy") in str(caught.value)
    with pytest.raises(BadInput) as caught:
        load_columns(None, "worse_label", DATASETS["cifar10"], roots)
    for root in roots:
        assert str(root) in str(caught.value)


def test_a_folder_that_may_not_be_looked_into_is_passed_over(tmp_path):
    def look(root):
        if root.name == "closed":
            raise PermissionError(13, "Permission denied", str(root / "file"))
        if root.name == "open":
            return root
        raise NotFound("it", f"it is not in {root}", "get it")

    closed, empty, found = (tmp_path / name for name in ("closed", "empty", "open"))
    assert first([closed, empty, found], look) == found
    assert first(found, look) == found
    with pytest.raises(NotFound, match=r"^it: .*closed/file: Permission denied; .*empty; get it$"):
        first([closed, empty], look)
