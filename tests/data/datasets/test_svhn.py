"""SVHN from small files that are laid out as the official ones."""

import numpy as np
import pytest
from scipy.io import savemat
from torchvision.datasets import SVHN

from noisyfl.core.options import BadInput
from noisyfl.data.datasets import sources
from small_files import assert_holds, md5, prepare_in, shrink, small_arrays


@pytest.fixture
def official(monkeypatch, tmp_path):
    """The folder of small official files, and the arrays in them."""
    shrink(monkeypatch, "svhn")
    arrays = small_arrays((32, 32, 3))
    folder = tmp_path / "official"
    folder.mkdir()
    parts = {}
    for part, (images, labels) in arrays.items():
        file = f"{part}_32x32.mat"
        # MATLAB counts from 1: the digit 0 has the label 10, and images are the last dimension.
        content = {"X": images.transpose(1, 2, 3, 0), "y": np.where(labels, labels, 10)[:, None]}
        savemat(folder / file, content)
        parts[part] = [f"http://nowhere/{file}", file, md5((folder / file).read_bytes())]
    monkeypatch.setattr(SVHN, "split_list", {**SVHN.split_list, **parts})
    return folder, arrays


@pytest.mark.parametrize("place", [".", "svhn"])
def test_the_official_files_are_read_wherever_they_lie(tmp_path, official, place):
    folder, arrays = official
    (tmp_path / "data" / place).mkdir(parents=True)
    for path in folder.iterdir():
        path.rename(tmp_path / "data" / place / path.name)
    assert_holds(prepare_in(tmp_path, "svhn", tmp_path / "data"), arrays)


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path, official):
    folder, _ = official
    with pytest.raises(
        BadInput, match=r"svhn: there is no file .*train_32x32.mat .*download: true"
    ):
        prepare_in(tmp_path, "svhn", tmp_path)
    (folder / "test_32x32.mat").write_bytes(b"another file")
    with pytest.raises(BadInput, match=r"svhn: .*test_32x32.mat has MD5 .*, expected"):
        prepare_in(tmp_path, "svhn", folder)


def test_missing_files_are_downloaded_from_the_official_address(tmp_path, official, monkeypatch):
    folder, arrays = official

    def fetch(addresses, path, md5):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((folder / addresses[0].rpartition("/")[2]).read_bytes())

    monkeypatch.setattr(sources, "fetch", fetch)
    assert_holds(prepare_in(tmp_path, "svhn", tmp_path / "data", download=True), arrays)
