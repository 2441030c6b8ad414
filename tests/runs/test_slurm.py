"""What is asked of Slurm before jobs are submitted; a real one is in ``tests/slurm``."""

import pytest

from noisyfl.core.options import BadInput
from noisyfl.runs.slurm import check_slurm


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A sbatch that says something, ends with a status, and notes what it was given."""

    def made(said, status):
        path = tmp_path / "sbatch"
        path.write_text(
            f"#!/bin/sh\necho \"$@\" > {tmp_path}/given\necho '{said}' >&2\nexit {status}\n"
        )
        path.chmod(0o755)
        return tmp_path / "given"

    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return made


def test_a_machine_without_slurm_is_said_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="executor: got slurm, and there is no command sbatch on th"):
        check_slurm({})


def test_what_sbatch_rejects_is_said_in_a_line(sbatch):
    said = "sbatch: error: invalid partition specified: nope\nallocation failure: Invalid partition"
    given = sbatch(said, 1)
    with pytest.raises(BadInput) as error:
        check_slurm({"slurm_partition": "nope", "slurm_account": "us", "mem_mb": 4000})
    assert str(error.value) == (
        "resources of the profile: sbatch rejects --partition=nope --account=us: "
        + said.replace("\n", " ")
    )
    assert given.read_text().split() == (
        ["--test-only", "--partition=nope", "--account=us", "--wrap=:"]
    )


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("sbatch: Job 1 to start at 2026-11-27 using 1 processors", 0),
        ("allocation failure: Requested node configuration is not available", 1),
        ("sbatch: error: Unable to contact slurm controller", 1),
    ],
)
def test_what_may_pass_is_left_to_the_submission(sbatch, said, status):
    sbatch(said, status)
    check_slurm({"slurm_partition": "gpu"})
