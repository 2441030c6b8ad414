"""A run's artifact is believed only as a whole."""

import json
import shutil

import pyarrow as pa
import pytest

from noisyfl.core.artifacts import DamagedArtifact, Results, read_table, write_json, write_table
from noisyfl.core.provenance import write_provenance
from noisyfl.runs.artifact import read_artifact, verify
from noisyfl.runs.job import Outcome
from noisyfl.specs.identity import identity
from small_jobs import job_in
from small_runs import inputs, spec_of

SPECS = [
    spec_of("fedavg", schedule={**spec_of("fedavg")["schedule"], "rounds": 2}, seed=seed)
    for seed in (1, 2)
]
RUN, OTHER = map(identity, SPECS)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    for spec in SPECS:
        inputs(spec, data)
    root = tmp_path_factory.mktemp("trained") / "results"
    shutil.copytree(data.root, root)
    for spec in SPECS:
        assert job_in(Results(root), spec).run() == Outcome()
    return Results(root)


@pytest.fixture
def results(trained, tmp_path):
    shutil.copytree(trained.root, tmp_path / "results")
    return Results(tmp_path / "results")


def test_a_trained_run_is_whole_and_says_what_it_is(trained):
    verify(RUN, trained.run(RUN))
    found = read_artifact(RUN, trained.run(RUN))
    assert (found.provenance.run, found.provenance.rounds) == (RUN, 2)
    assert found.rounds["round"].to_pylist() == [1, 2]


@pytest.mark.parametrize("name", ["rounds.parquet", "clients.parquet", "provenance.json"])
def test_a_file_of_another_run_is_refused(results, name):
    shutil.copyfile(results.run(OTHER).folder / name, results.run(RUN).folder / name)
    with pytest.raises(DamagedArtifact, match=f"{name}: expected the run {RUN}, found '?{OTHER}"):
        verify(RUN, results.run(RUN))


def altered(results, **columns):
    """The run with other columns of its rounds, and checksums that fit them."""
    path = results.run(RUN).rounds
    table, metadata = read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    path.unlink()
    write_table(path, table, {"run": metadata["run"]})
    return results.run(RUN)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"test_accuracy": [0.5, 7.0]}, "test_accuracy: got 7.0, expected a share from 0 to 1"),
        ({"label_accuracy": [-0.1, 0.5]}, "label_accuracy: got -0.1, expected a share"),
        ({"round": [1, 3]}, "expected the rounds 1 to 2"),
    ],
)
def test_rounds_that_no_run_has_are_refused(results, columns, message):
    files = altered(results, **columns)
    with pytest.raises(DamagedArtifact, match=f"rounds.parquet: {message}"):
        read_artifact(RUN, files)


@pytest.mark.parametrize("rows", [0, 1])
def test_missing_rounds_are_refused(results, rows):
    files = results.run(RUN)
    table, metadata = read_table(files.rounds)
    files.rounds.unlink()
    write_table(files.rounds, table.slice(0, rows), {"run": metadata["run"]})
    with pytest.raises(DamagedArtifact, match=f"expected the rounds 1 to 2, found {rows}"):
        read_artifact(RUN, files)


def test_gaps_between_rounds_are_seen(results):
    files = altered(results, round=[1, 3])
    with pytest.raises(DamagedArtifact, match="expected the rounds 1 to 2"):
        read_artifact(RUN, files)


def test_a_status_that_was_altered_is_trained_again(results):
    stored = results.stored(RUN)
    provenance = json.loads(stored.provenance.read_text())
    stored.provenance.unlink()
    write_json(stored.provenance, {**provenance, "status": "diverged"})
    results.run(RUN).provenance.unlink()
    assert job_in(results, SPECS[0]).run() == Outcome()
    assert read_artifact(RUN, results.run(RUN)).provenance.status == "finished"
    assert "does not fit its checksum" in results.log(RUN).read_text()


def test_a_provenance_written_anew_fits(results):
    files = results.run(RUN)
    provenance = json.loads(files.provenance.read_text())
    files.provenance.unlink()
    write_provenance(files.provenance, {**provenance, "commit": "a" * 40})
    assert read_artifact(RUN, files).provenance.commit == "a" * 40


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_part_of_another_dataset_is_refused(results, part, monkeypatch):
    path = results.data("digits", part)
    table, metadata = read_table(path)
    path.unlink()
    write_table(path, table, {**metadata, "dataset": "mnist"})
    for files in (results.run(RUN), results.stored(RUN)):
        shutil.rmtree(files.folder)
    error = job_in(results, SPECS[0]).run().error
    assert error == f"{path}: expected a part of digits, found one of mnist"
