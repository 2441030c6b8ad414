"""Datasets that somebody else has prepared: taken over, and refused if they are not whole."""

import shutil

import pyarrow.parquet as pq
import pytest

import official_trees as trees
from noisyfl.core.artifacts import read_metadata, read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.data.datasets import shards
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.own_files import OwnFiles
from small_files import listing, shrink


def parts(folder, name):
    return [folder / name / f"{part}.parquet" for part in ("train", "test")]


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder with COVIDx, which is encoded, and digits, both prepared."""
    monkeypatch.setattr(shards, "SHARD_SIZE", 5)
    shrink(monkeypatch, "covidx", 12, 6)
    trees.covidx(tmp_path / "official", 12, 6)
    folder = tmp_path / "shared"
    for name in ("covidx", "digits"):
        prepare(name, tmp_path / "official", False, *parts(folder, name))
    shutil.rmtree(tmp_path / "official")
    return folder


def provided(tmp_path, name, folders):
    """The parts in results of one's own, made without any official files."""
    paths = parts(tmp_path / "results" / "data", name)
    provide(name, OwnFiles(tmp_path / "official", tmp_path / "results"), False, folders)
    return paths


@pytest.mark.parametrize("name", ["covidx", "digits"])
def test_a_prepared_dataset_is_taken_over_but_for_its_shards(tmp_path, shared, name):
    before = listing(shared)
    paths = provided(tmp_path, name, [shared])
    # What was taken over can be taken over again.
    again = parts(tmp_path / "other" / "data", name)
    other = OwnFiles(tmp_path / "official", tmp_path / "other")
    provide(name, other, False, [tmp_path / "results" / "data"])
    for made in (paths, again):
        assert not any(path.is_symlink() for path in made)
        for path, original in zip(made, parts(shared, name), strict=True):
            assert path.read_bytes() == original.read_bytes()
            ours, theirs = read_part(path), read_part(original)
            assert ours.labels.tolist() == theirs.labels.tolist()
            for row in range(len(theirs.labels)):
                if name == "covidx":
                    assert path.with_suffix("").readlink() == original.with_suffix("")
                    assert ours.images.jpeg(row) == theirs.images.jpeg(row)
                else:
                    assert (ours.images[row] == theirs.images[row]).all()
    assert listing(shared) == before


def test_the_first_folder_that_has_both_parts_is_taken(tmp_path, shared):
    half, second = tmp_path / "half", tmp_path / "second"
    shutil.copytree(shared, half)
    shutil.copytree(shared, second)
    (half / "covidx" / "test.parquet").unlink()
    (path, _) = provided(tmp_path, "covidx", [tmp_path / "nothing", half, shared, second])
    assert path.with_suffix("").resolve() == shared / "covidx" / "train"
    # After a move it is taken from where it is then.
    shutil.rmtree(shared)
    provided(tmp_path, "covidx", [shared, second])
    assert path.with_suffix("").resolve() == second / "covidx" / "train"


def test_what_nobody_has_prepared_is_prepared(tmp_path, shared):
    before = listing(shared)
    (shared / "digits" / "test.parquet").unlink()
    provided(tmp_path, "digits", [shared])
    assert read_part(parts(tmp_path / "results" / "data", "digits")[1]).name == "digits"
    assert set(before) - set(listing(shared)) == {shared / "digits" / "test.parquet"}


def test_shards_of_ones_own_are_never_written_into_somebody_elses(tmp_path, shared):
    provided(tmp_path, "covidx", [shared])
    before = listing(shared)
    trees.covidx(tmp_path / "official", 12, 6)
    (path, _) = provided(tmp_path, "covidx", [])
    assert not path.with_suffix("").is_symlink()
    assert len(read_part(path).images.jpeg(11)) > 1000
    assert listing(shared) == before
    # Nor are they lost unasked.
    with pytest.raises(BadInput, match=r"covidx/train has shards of its own.*; delete it"):
        provided(tmp_path, "covidx", [shared])
    assert len(list(path.with_suffix("").iterdir())) == 3


def rewritten(path, rows=None, **metadata):
    table, old = read_table(path)
    old.pop("checksum")
    write_table(path, table.slice(0, rows), {**old, **metadata})


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path):
    """Other labels under the old checksum."""
    table = pq.read_table(path)
    labels = table["label"].to_pylist()
    changed = table.set_column(1, "label", [labels[::-1]]).replace_schema_metadata(
        pq.read_schema(path).metadata
    )
    pq.write_table(changed.cast(table.schema), path)


FAULTS = {
    "truncated": ("digits", truncate, r"train.parquet: not a complete Parquet file"),
    "altered": ("digits", alter, "train.parquet: the content does not match the checksum"),
    "another dataset": (
        "digits",
        lambda path: rewritten(path, dataset="mnist"),
        "train.parquet: dataset is 'mnist', expected 'digits'",
    ),
    "the other part": (
        "digits",
        lambda path: shutil.copy(path.with_name("test.parquet"), path),
        "train.parquet: part is 'test', expected 'train', as this version prepares digits",
    ),
    "fewer images": (
        "digits",
        lambda path: rewritten(path, rows=1000),
        "train.parquet: images is 1000, expected 1437",
    ),
    "other revision": (
        "digits",
        lambda path: rewritten(path, revision=0),
        "train.parquet: revision is 0, expected 1, .*; have it prepared again",
    ),
    "missing shard": (
        "covidx",
        lambda path: (path.with_suffix("") / "00001.arrow").unlink(),
        r"train/00001.arrow: cannot be read",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.slow
def test_a_wrong_or_damaged_one_is_refused(tmp_path, shared, fault):
    name, spoil, message = FAULTS[fault]
    spoil(parts(shared, name)[0])
    with pytest.raises(BadInput, match=f"^data.prepared: {shared}/{name}/.*({message})"):
        provided(tmp_path, name, [shared])
    assert not any(path.exists() for path in parts(tmp_path / "results" / "data", name))


def test_a_dataset_is_prepared_as_its_revision_says(tmp_path, shared, monkeypatch):
    path = parts(shared, "digits")[0]
    assert read_metadata(path)["revision"] == 1
    monkeypatch.setattr("noisyfl.data.datasets.parts.REVISION", 2)
    with pytest.raises(BadInput, match="revision is 1, expected 2"):
        provided(tmp_path, "digits", [shared])
