"""What a person reads of a job that fails, of Ctrl-C, and of a folder that is locked."""

import os
import signal
import time
from pathlib import Path

import pytest

from small_repository import Repository, ended

pytestmark = pytest.mark.slow
BROKEN, WAITING = 'raise ValueError("mu is a secret")', "__import__('time').sleep(60)"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Its FedProx ends in an error."""
    repository = Repository(tmp_path_factory.mktemp("repository"))
    repository.edit(
        "workflow/noisyfl/methods/fedprox.py",
        'if self.prox_form == "norm":',
        f'{BROKEN}\n        if self.prox_form == "norm":',
    )
    return repository


def test_a_failed_run_is_one_line_and_three_at_the_end(repository):
    run = repository.snakemake("tiny_one", "--keep-going")
    output = run.stdout + run.stderr
    assert run.returncode == 1
    assert "RuleException" not in output
    assert "Error in rule" not in output
    end = output.partition("1 job failed:\n")[2].splitlines()
    assert end[0] == "failed: FedProx, noisy: ValueError: mu is a secret"
    assert output.count(end[0]) == 2
    assert end[1].startswith("  log: results/logs/runs/")
    assert end[2].startswith("  again, alone: snakemake results/runs/")
    # Snakemake's log file keeps what its console leaves out.
    (log,) = (repository.folder / ".snakemake" / "log").glob("*.log")
    assert "Error in rule train" in log.read_text()


def test_a_locked_folder_names_progress_and_ctrl_c_is_no_error(repository):
    undo = repository.edit("workflow/noisyfl/methods/fedprox.py", BROKEN, WAITING)
    command = repository.start_snakemake("tiny_one")
    statuses, end = repository.folder / "results" / "status", time.monotonic() + 300
    while '"running"' not in "".join(path.read_text() for path in statuses.glob("*.json")):
        assert time.monotonic() < end
        time.sleep(0.2)
    locked = repository.snakemake("tiny_one")
    assert locked.returncode == 1
    assert "`noisyfl progress --config config/tiny.yaml` says how far" in locked.stderr
    assert "LockException" not in locked.stderr
    for process in group(command.pid):
        os.kill(process, signal.SIGINT)
    output = ended(command)
    undo()
    assert "the same command goes on from there" in output.stderr
    assert "Exception" not in output.stderr.replace("WorkflowError", "")
    assert "failed:" not in output.stderr


def group(process):
    """A process and all that it has started, as a terminal's Ctrl-C reaches them."""
    found = [process]
    for each in found:  # which grows meanwhile
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found
