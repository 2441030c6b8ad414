"""A run's artifact is believed only as a whole."""

import shutil

import pytest

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.runs.artifact import read_artifact, verify


@pytest.mark.parametrize("name", ["rounds.parquet", "clients.parquet", "provenance.json"])
def test_a_file_of_another_run_is_refused(runs, name):
    run, other = (runs.add([0.1, 0.5], seed=seed) for seed in (1, 2))
    verify(run, runs.files[run])
    shutil.copyfile(runs.files[other].folder / name, runs.files[run].folder / name)
    with pytest.raises(DamagedArtifact, match=f"{name}: expected the run {run}, found '?{other}"):
        verify(run, runs.files[run])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"test_accuracy": [0.5, 7.0]}, "test_accuracy: got 7.0, expected a share from 0 to 1"),
        ({"label_accuracy": [-0.1, 0.5]}, "label_accuracy: got -0.1, expected a share"),
        ({"round": [1, 3]}, "expected the rounds 1 to 2"),
    ],
)
def test_rounds_that_no_run_has_are_refused(runs, columns, message):
    run = runs.add([0.1, 0.5], columns=columns)
    with pytest.raises(DamagedArtifact, match=f"rounds.parquet: {message}"):
        read_artifact(run, runs.files[run])


@pytest.mark.parametrize("rows", [0, 1])
def test_missing_rounds_are_refused(runs, rows):
    run = runs.add([0.1] * rows, provenance={"rounds": 2})
    with pytest.raises(DamagedArtifact, match=f"expected the rounds 1 to 2, found {rows}"):
        read_artifact(run, runs.files[run])
