"""Datasets of the Hugging Face hub, of which the tests have a stand-in: there is no network."""

import shutil
import sys
import types

import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.hub_download import files_of_split
from noisyfl.data.own_files import OwnFiles

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = COMMIT[::-1]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one dataset, that of :mod:`own_sets`; what was asked of it."""
    stored = tmp_path / "hub"
    own_sets.as_parquet(stored)
    (folder,) = [path for path in stored.iterdir() if path.is_dir()]
    asked = []

    class HfApi:
        def dataset_info(self, name, revision=None):
            asked.append((name, revision))
            if name != "somebody/insects":
                raise OSError(f"404: {name}")
            return types.SimpleNamespace(sha=OLDER if revision == "v0" else COMMIT)

    def snapshot_download(name, *, repo_type, revision, allow_patterns, local_dir):
        assert (repo_type, allow_patterns) == ("dataset", "*.parquet")
        shutil.copytree(folder, local_dir, dirs_exist_ok=True)
        if revision == OLDER:  # which has more files, and the connection is lost
            first = local_dir / "data" / "train-00000-of-00001.parquet"
            shutil.copy(first, first.with_name("train-00000-of-00002.parquet"))
            raise OSError("connection lost")
        (local_dir / ".cache" / "huggingface").mkdir(parents=True)

    fake = types.SimpleNamespace(HfApi=HfApi, snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return asked


def read(tmp_path, text, **more):
    own = OwnFiles(tmp_path / "data", tmp_path / "results")
    return own.read(own_sets.wanted(text, **more)).own, own


def test_it_is_the_dataset_that_the_same_files_are_and_says_its_revision(tmp_path, hub):
    found, own = read(tmp_path, "images(hub='somebody/insects')")
    other = tmp_path / "other"
    other.mkdir()
    assert found == own_sets.known(other, own_sets.as_parquet(other))
    assert own.remarks[found["sha256"]][0] == f"somebody/insects: revision {COMMIT}"
    assert hub == [("somebody/insects", "main")]


def test_it_is_fetched_once_and_what_a_branch_was_then_is_what_it_stays(tmp_path, hub, monkeypatch):
    found, _ = read(tmp_path, "images(hub='somebody/insects')")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as without a network
    for revision in ("", "@main", f"@{COMMIT}"):
        assert read(tmp_path, f"images(hub='somebody/insects{revision}')")[0] == found
    with pytest.raises(BadInput, match=r"huggingface_hub is not installed: pip install"):
        read(tmp_path, "images(hub='somebody/insects@v2')")


def test_what_a_lost_connection_has_left_is_of_its_own_commit(tmp_path, hub):
    with pytest.raises(BadInput, match="'v0', which cannot be fetched: connection lost"):
        read(tmp_path, "images(hub='somebody/insects@v0')")
    assert read(tmp_path, "images(hub='somebody/insects')")[0]["train_size"] == own_sets.TRAIN


def test_a_commit_of_two_names_is_fetched_once(tmp_path, hub):
    found, _ = read(tmp_path, "images(hub='somebody/insects')")
    assert read(tmp_path, "images(hub='somebody/insects@v1')")[0] == found
    places = (tmp_path / "data/hub/somebody--insects").iterdir()
    assert {path.name for path in places} == {COMMIT, "revisions.json"}


def test_a_split_of_several_configurations_is_refused(tmp_path, hub):
    read(tmp_path, "images(hub='somebody/insects')")
    folder = tmp_path / "data/hub/somebody--insects" / COMMIT
    for name in ("default", "more"):
        shutil.copytree(folder / "data", folder / name)
    shutil.rmtree(folder / "data")
    for part in ("train", "test"):
        with pytest.raises(BadInput, match="files in default, more; expected one configuration"):
            files_of_split(folder, part, "split")
        assert len(files_of_split(folder / "more", part, "split")) == 1


def test_splits_are_the_parts(tmp_path, hub):
    whole, _ = read(tmp_path, "images(hub='somebody/insects')")
    named, _ = read(tmp_path, "images(hub='somebody/insects', split='train', test='test')")
    assert named == whole
    part, _ = read(tmp_path, "images(hub='somebody/insects', split='train', test_share=0.25)")
    assert part["train_size"] + part["test_size"] == own_sets.TRAIN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("images(hub='nobody/nothing')", "hub: got 'nobody/nothing' at 'main', which cannot be fe"),
        ("images(hub='../x')", "hub: got '../x', expected a dataset of the hub"),
        ("images(hub='somebody/insects', split='tset', test_share=0.5)", "split: got 'tset', exp"),
        ("images(hub='somebody/insects', test='x')", "test: got 'x', expected a split, such as"),
        ("images(hub='somebody/insects', split='train')", "test: got no test part, expected one"),
        ("images(hub='somebody/insects', path='x')", "hub: got 'somebody/insects' and a path"),
        ("images(path='x', split='train')", "split: got 'train', expected it with hub only"),
        ("images()", "expected the option path, or hub"),
    ],
)
def test_a_mistake_is_named(tmp_path, hub, text, said):
    with pytest.raises(BadInput, match=said):
        read(tmp_path, text)
