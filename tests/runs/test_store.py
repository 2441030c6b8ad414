"""What is whole is never made again: the store, and jobs that find a run there."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from noisyfl.core.artifacts import DamagedArtifact, Results, write_json
from noisyfl.runs.artifact import verify
from noisyfl.runs.job import Outcome
from noisyfl.runs.store import forget, put_in_place
from noisyfl.specs.identity import identity
from small_jobs import job_in
from small_runs import inputs, spec_of

SPEC = spec_of("fedavg", schedule={**spec_of("fedavg")["schedule"], "rounds": 2})
RUN = identity(SPEC)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Results that have the run."""
    inputs(SPEC, data)
    root = tmp_path_factory.mktemp("trained") / "results"
    shutil.copytree(data.root, root)
    assert job_in(Results(root), SPEC).run() == Outcome()
    return Results(root)


@pytest.fixture
def results(trained, tmp_path):
    """A copy of them, to do anything with."""
    shutil.copytree(trained.root, tmp_path / "results")
    return Results(tmp_path / "results")


def trainings(results):
    """How often the run's training began."""
    return results.log(RUN).read_text().count("starting with the first round")


def contents(files):
    return [path.read_bytes() for path in files.all()]


def test_the_names_among_the_results_are_those_of_the_stored_files(trained):
    for stored, path in zip(trained.stored(RUN).all(), trained.run(RUN).all(), strict=True):
        assert path.samefile(stored)
    verify(RUN, trained.stored(RUN))


@pytest.mark.parametrize("name", [None, "rounds.parquet"])
def test_deleted_outputs_of_a_whole_run_are_put_back(results, name):
    folder = results.run(RUN).folder
    (folder / name).unlink() if name else shutil.rmtree(folder)
    assert job_in(results, SPEC).run() == Outcome()
    assert "already complete: " in results.log(RUN).read_text()
    assert trainings(results) == 1
    assert contents(results.run(RUN)) == contents(results.stored(RUN))


KILLED = """
import json, os, pathlib, signal, sys
from noisyfl.core.artifacts import Results
import noisyfl.runs.job
from small_jobs import job_in

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

noisyfl.runs.job.put_in_place = die
job_in(Results(pathlib.Path(sys.argv[1])), json.loads(sys.argv[2])).run()
"""


@pytest.mark.slow
def test_a_training_killed_just_after_its_provenance_is_not_repeated(results):
    for folder in (results.run(RUN).folder, results.stored(RUN).folder):
        shutil.rmtree(folder)
    results.log(RUN).unlink()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, results.root, json.dumps(SPEC)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -9
    assert not results.run(RUN).folder.exists()
    assert job_in(results, SPEC).run() == Outcome()
    assert results.run(RUN).whole()
    assert trainings(results) == 1
    assert list(results.checkpoint(RUN).parent.iterdir()) == []


@pytest.mark.parametrize("name", ["spec.json", "rounds.parquet", "provenance.json"])
def test_what_is_damaged_in_the_store_is_trained_again(results, name):
    before = contents(results.run(RUN))
    path = results.stored(RUN).folder / name
    content = path.read_bytes()
    shutil.rmtree(results.run(RUN).folder)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedArtifact, match=name):
        verify(RUN, results.stored(RUN))
    assert job_in(results, SPEC).run() == Outcome()
    assert trainings(results) == 2
    assert f"{path}: not " in results.log(RUN).read_text()
    verify(RUN, results.stored(RUN))
    assert contents(results.run(RUN))[0] == before[0]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("spec.json", {"seed": 4}, f"expected the run {RUN}, found "),
        ("provenance.json", {"status": "diverged"}, "does not match its checksum"),
    ],
)
def test_what_was_altered_is_trained_again(results, name, change, message):
    path = results.stored(RUN).folder / name
    write_json(path, {**json.loads(path.read_text()), **change})
    assert job_in(results, SPEC).run() == Outcome()
    assert message in results.log(RUN).read_text()
    assert trainings(results) == 2
    verify(RUN, results.stored(RUN))


def test_without_hard_links_files_are_copied(results, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    shutil.rmtree(results.run(RUN).folder)
    monkeypatch.setattr("os.link", refuse)
    put_in_place(results.stored(RUN), results.run(RUN))
    put_in_place(results.stored(RUN), results.run(RUN))
    assert contents(results.run(RUN)) == contents(results.stored(RUN))
    assert sorted(results.run(RUN).folder.iterdir()) == sorted(results.run(RUN).all())


def test_a_link_into_a_shared_cache_is_replaced_by_the_file(results, tmp_path):
    """Snakemake moves into the cache what it finds here: it must not be a link to what is there."""
    cached = tmp_path / "cached.parquet"
    path = results.run(RUN).rounds
    path.rename(cached)  # still the stored file, by another name
    path.symlink_to(cached)
    results.run(RUN).provenance.unlink()
    results.run(RUN).provenance.symlink_to(tmp_path / "nothing")
    put_in_place(results.stored(RUN), results.run(RUN))
    for stored, there in zip(results.stored(RUN).all(), results.run(RUN).all(), strict=True):
        assert not there.is_symlink()
        assert there.samefile(stored)


def test_a_forgotten_run_is_trained_once_more_and_its_files_stay_until_then(results):
    before = contents(results.run(RUN))
    forget(results.stored(RUN))
    assert contents(results.run(RUN)) == before
    for _ in range(2):
        assert job_in(results, SPEC).run() == Outcome()
        assert trainings(results) == 2


def test_drafts_that_a_killed_process_left_are_removed(results):
    drafts = [
        path.with_name(f".{path.name}.0123abcd")
        for path in (
            results.stored(RUN).rounds,
            results.run(RUN).provenance,
            results.checkpoint(RUN),
        )
    ]
    other = results.checkpoint("another").with_name(".another.pt.0123abcd")
    for path in (*drafts, other):
        path.write_text("half a file")
    assert job_in(results, SPEC).run() == Outcome()
    assert not any(path.exists() for path in drafts)
    assert other.exists()
