"""The shared cache's folder: looked at before any job starts, and read while others write to it."""

import multiprocessing
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from noisyfl.core.artifacts import DamagedArtifact, read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.runs.shared_cache import VARIABLE, check_shared_cache
from small_repository import Repository


@pytest.mark.parametrize("named", [None, ""])
def test_no_folder_is_no_cache(monkeypatch, named):
    monkeypatch.delenv(VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(VARIABLE, named)
    check_shared_cache()


def test_a_folder_that_can_be_written_is_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    check_shared_cache()


def make_file(path):
    path.write_text("")


def make_sticky(path):
    path.mkdir()
    path.chmod(0o1777)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (make_file, "it is no folder"),
        (make_sticky, "it has the sticky bit"),
    ],
)
def test_a_folder_that_takes_no_runs_is_refused(monkeypatch, tmp_path, make, words):
    make(tmp_path / "cache")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(BadInput, match=f"{VARIABLE}: got '{tmp_path}/cache', .*{words}"):
        check_shared_cache()


def test_a_folder_of_others_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(BadInput, match="you may not write to it"):
        check_shared_cache()


def test_a_relative_path_is_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv(VARIABLE, "cache")
    with pytest.raises(BadInput, match="relative path"):
        check_shared_cache()


@pytest.mark.slow
def test_a_mistyped_folder_ends_everything_before_any_job(tmp_path):
    (tmp_path / "clone").mkdir()
    clone = Repository(tmp_path / "clone", cache="/shraed/cache")
    run = clone.snakemake("tiny_two")
    output = run.stdout + run.stderr
    assert run.returncode == 1
    assert "SNAKEMAKE_OUTPUT_CACHE: got '/shraed/cache', expected" in output
    assert "Traceback" not in output
    assert not (clone.folder / "results").exists()
    assert not Path("/shraed").exists()


def replace_for_ever(folder):
    while True:
        for name in ("one", "other"):
            shutil.copy(folder / name, folder / "draft")
            (folder / "draft").replace(folder / "rounds.parquet")


@pytest.mark.slow
def test_a_file_that_another_user_replaces_is_read_whole(tmp_path):
    for seconds, name in enumerate(("rounds.parquet", "one", "other")):
        write_table(tmp_path / name, pa.table({"seconds": [float(seconds)] * 50}), {"run": "x"})
    other = multiprocessing.get_context("spawn").Process(target=replace_for_ever, args=(tmp_path,))
    other.start()
    try:
        seen, begun = set(), time.monotonic()
        while len(seen) < 3 or time.monotonic() - begun < 1:
            table, metadata = read_table(tmp_path / "rounds.parquet")
            seen.add((table["seconds"][0].as_py(), metadata["checksum"]))
            assert time.monotonic() - begun < 300
    finally:
        other.kill()
        other.join()
    assert len(seen) == 3


def test_what_is_to_be_deleted_is_the_file_in_the_cache(tmp_path):
    entry, link = tmp_path / "cache_rounds.parquet", tmp_path / "rounds.parquet"
    link.symlink_to(entry)
    write_table(entry, pa.table({"a": [1]}), {"run": "x"})
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedArtifact, match=f"^{entry}: not a complete Parquet file"):
        read_table(link)
