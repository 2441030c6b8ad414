"""Tracked runs and noisy partitions: packed in batches, and unpacked when they are asked for."""

import io
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from noisyfl.core import tracked
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.tracked import REPRODUCED, Tracked


def write(folder, runs, partitions=()):
    """Runs and noisy partitions of which every file says whose it is."""
    for run in runs:
        (folder / "runs" / run).mkdir(parents=True)
        for name in ("spec.json", "rounds.parquet", "clients.parquet", "provenance.json"):
            (folder / "runs" / run / name).write_text(f"{name} of {run}")
    for partition in partitions:
        (folder / "partitions").mkdir(exist_ok=True, parents=True)
        (folder / "partitions" / f"{partition}.parquet").write_text(partition)


@pytest.fixture
def batches(tmp_path, monkeypatch):
    """Two batches."""
    monkeypatch.setattr(tracked, "BATCH_BYTES", 150)
    write(tmp_path / "made", ["aa", "bb"], ["cc"])
    (tmp_path / "packed").mkdir()
    found = Tracked(tmp_path / "unpacked", packed=tmp_path / "packed")
    found.add(tmp_path / "made")
    assert len(list(found.packed.glob("*.tar.xz"))) == 2
    return found


def test_what_is_packed_comes_back(batches):
    assert not batches.root.exists()
    for run in ("aa", "bb"):
        files = batches.run(run)
        assert files.whole()
        assert files.rounds.read_text() == f"rounds.parquet of {run}"
    assert batches.partition("cc").read_text() == "cc"
    left = {path.name for path in batches.root.iterdir()}
    assert left == {".lock", ".unpacked", "partitions", "runs"}


def test_only_the_batch_of_what_is_asked_for_is_unpacked(batches):
    assert not batches.run("dd").folder.exists()
    assert not batches.root.exists()
    batches.run("bb")
    assert [path.name for path in (batches.root / "runs").iterdir()] == ["bb"]
    shutil.rmtree(batches.root / "runs" / "bb")
    assert batches.run("bb").whole()


def test_a_run_whose_line_is_deleted_is_tracked_no_longer(batches):
    listed = batches.batches["runs/bb"]
    listed.write_text(listed.read_text().replace("runs/bb\n", ""))
    again = Tracked(batches.root, packed=batches.packed)
    assert not again.run("bb").folder.exists()
    assert again.run("aa").whole()


def test_a_run_that_another_batch_replaces_is_unpacked_again(batches, tmp_path):
    """As after a pull: what was unpacked before it must not stay."""
    batches.run("bb")
    listed = batches.batches["runs/bb"]
    listed.write_text(listed.read_text().replace("runs/bb\n", ""))
    write(tmp_path / "later", ["bb"])
    (tmp_path / "later/runs/bb/rounds.parquet").write_text("trained again")
    again = Tracked(batches.root, packed=batches.packed)
    again.add(tmp_path / "later")
    assert again.run("bb").rounds.read_text() == "trained again"
    assert again.run("aa").whole()


def test_equal_batches_are_equal_files(batches, tmp_path):
    (tmp_path / "again").mkdir()
    again = Tracked(tmp_path / "elsewhere", packed=tmp_path / "again")
    again.add(tmp_path / "made")
    assert {p.name: p.read_bytes() for p in again.packed.iterdir()} == {
        p.name: p.read_bytes() for p in batches.packed.iterdir()
    }


def test_an_altered_batch_is_refused(batches):
    packed = next(batches.packed.glob("*.tar.xz"))
    packed.write_bytes(packed.read_bytes()[:-1])
    member = packed.with_name(packed.name.replace(".tar.xz", ".txt")).read_text().split()[-1]
    with pytest.raises(DamagedArtifact, match=rf"altered; `git checkout {packed}` restores it"):
        batches.run(member.partition("/")[2])


def test_nothing_is_written_elsewhere(tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as tar:
        for name, kind in (
            ("runs/../../evil", tarfile.REGTYPE),
            ("runs/aa/../../../evil", tarfile.REGTYPE),
            ("/evil", tarfile.REGTYPE),
            ("runs/aa/spec.json", tarfile.SYMTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, str(tmp_path / "evil")
            tar.addfile(entry, io.BytesIO())
    name = tracked._digest(content.getvalue())
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / f"{name}.tar.xz").write_bytes(content.getvalue())
    (tmp_path / "packed" / f"{name}.txt").write_text("runs/aa\n")
    batches = Tracked(tmp_path / "unpacked", packed=tmp_path / "packed")
    with pytest.raises(DamagedArtifact, match="the list names runs/aa, which the batch lacks"):
        batches.run("aa")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("clone", [True, False])
@pytest.mark.parametrize("writable", [True, False])
def test_a_read_only_clone_is_unpacked_in_the_users_cache(tmp_path, monkeypatch, clone, writable):
    """As is an installed copy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tracked, "IN_A_CLONE", clone)
    monkeypatch.setattr(tracked.os, "access", lambda path, mode: writable)
    cache = tmp_path / "cache" / "noisyfl" / "reproduced"
    expected = tmp_path if clone and writable else cache
    assert tracked._unpacked_folder(tmp_path) == expected


def test_several_processes_may_ask_at_once(batches):
    with ThreadPoolExecutor(8) as threads:
        asked = [Tracked(batches.root, packed=batches.packed) for _ in range(8)]
        assert all(files.whole() for files in threads.map(lambda one: one.run("bb"), asked))


@pytest.mark.slow
def test_all_that_is_tracked_can_be_unpacked(tmp_path):
    whole = Tracked(tmp_path, packed=REPRODUCED.packed)
    for member in whole.batches:
        kind, _, name = member.partition("/")
        if kind == "runs":
            assert whole.run(name).whole()
        else:
            assert whole.partition(name.removesuffix(".parquet")).exists()
    assert len(whole.batches) > 1000
