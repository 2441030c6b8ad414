"""Snakemake on the Slurm of these tests, with runs of some seconds."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from noisyfl.core.places import ROOT
from small_repository import SETTING, Repository

ONE_MACHINE = Path(__file__).with_name("one_machine.sh")
# The plugin asks Slurm every 40 s at first, which suits runs of hours.
ASK_SOON = ["--slurm-init-seconds-before-status-checks", "2"]
ROUNDS = 20
HELD_AFTER = 10
EXPERIMENT = f"""{SETTING.replace("rounds: 2", f"rounds: {ROUNDS}")}
tables:
  one:
    title: A table
    setting: tiny
    trials: 1
    statistic: last
    columns: [{{name: noisy}}]
    rows:
      - {{name: FedAvg, method: disturbed_fedavg}}
"""
# Things happen to a run while a file of its name and seed is there: in the same round everywhere.
PLUGIN = f"""
'''FedAvg to which things happen.'''

import os
import time

from noisyfl.methods.fedavg import FedAvg
from noisyfl.method import METHODS


@METHODS.register("disturbed_fedavg")
class Disturbed(FedAvg):
    '''It waits, fills the memory, or fails.'''

    reference = "these tests"

    def begin(self, federation):
        if os.path.exists(f"hungry{{federation.seed}}"):
            federation.filled = bytearray(3_000_000_000)
        assert not os.path.exists(f"broken{{federation.seed}}"), "broken on purpose"

    def select(self, round, federation):
        while round >= {HELD_AFTER} and os.path.exists(f"held{{federation.seed}}"):
            time.sleep(0.1)
        return super().select(round, federation)
"""
# So rarely that a checkpoint is there only if a run was asked to end, in time.
SCALE = """
scale: tiny
experiments: [tiny]
plugins: [disturbed.py]
checkpoint_seconds: 3600
device: cpu
"""
TABLE = ["results/tiny/tables/tiny/one.csv", "--configfile", "config/tiny.yaml"]


def environment(folder: Path) -> dict[str, str]:
    """Where a folder's own copy of the package is found."""
    return {**os.environ, "PYTHONPATH": str(folder / "workflow")}


def repository(folder: Path, runs: int, held: Sequence[int] = ()) -> Path:
    """A copy of the workflow with one table.

    Args:
        folder: where to.
        runs: of the table, whose seeds are 1, 2, ...
        held: seeds of runs that go no further than :data:`HELD_AFTER` rounds until they are
            released, so that things happen to them in the middle on any machine.
    """
    folder.mkdir(exist_ok=True)
    Repository(folder)
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    (folder / "config/papers/tiny.yaml").write_text(EXPERIMENT)
    (folder / "config/tiny.yaml").write_text(f"{SCALE}trials: {runs}\n")
    (folder / "disturbed.py").write_text(PLUGIN)
    for seed in held:
        (folder / f"held{seed}").touch()
    return folder


def release(folder: Path, seed: int) -> None:
    """A run that was held goes on."""
    (folder / f"held{seed}").unlink()


@contextmanager
def snakemake(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """``snakemake ... --cores all --profile slurm`` in a folder; what it prints goes to ``log``."""
    command = [sys.executable, "-m", "snakemake", *arguments, "--cores", "all"]
    with (folder / "log").open("a") as log:
        running = subprocess.Popen(
            [*command, "--profile", "slurm", *ASK_SOON],
            cwd=folder,
            env=environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            # A shell lets what it starts in the background ignore interrupts, and so the tests.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def succeed(running: subprocess.Popen, folder: Path, seconds: int = 300) -> str:
    """Wait for Snakemake to end well; what it printed."""
    code = running.wait(timeout=seconds)
    log = (folder / "log").read_text()
    assert code == 0, log
    return log


def until(condition: Callable[[], object], running: subprocess.Popen, folder: Path) -> None:
    """Wait for a condition while Snakemake is running."""
    for _ in range(3000):
        if condition():
            return
        assert running.poll() is None, (folder / "log").read_text()
        time.sleep(0.2)
    pytest.fail("waited in vain:\n" + (folder / "log").read_text())


def jobs(folder: Path) -> list[dict[str, str]]:
    """What Slurm remembers of the jobs of a folder, in the order of their submission."""
    command = ["scontrol", "show", "job", "--oneliner"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
    return [job for job in found if job.get("WorkDir") == str(folder)]


def ended(folder: Path) -> bool:
    """Whether none of a folder's jobs waits, runs or is being ended."""
    states = {job["JobState"] for job in jobs(folder)}
    return not states & {"PENDING", "RUNNING", "COMPLETING"}


def jobs_of(folder: Path, run: str) -> list[dict[str, str]]:
    """Those of one run."""
    return [job for job in jobs(folder) if job["Comment"] == f"rule_train_wildcards_{run}"]


def artifacts(folder: Path) -> dict[str, list]:
    """The rounds and clients of each whole run, by its id, but for the time they took."""
    return {
        path.parent.name: [
            pq.read_table(path.with_name("rounds.parquet")).drop_columns("seconds").to_pylist(),
            pq.read_table(path.with_name("clients.parquet")).to_pylist(),
        ]
        for path in folder.glob("results/runs/*/provenance.json")
    }


def log_path(folder: Path, run: str) -> Path:
    """Where a run logs."""
    return folder / f"results/logs/runs/{run}.log"


def run_log(folder: Path, run: str) -> str:
    """What a run has logged since it was last started: Snakemake removes what was logged before."""
    path = log_path(folder, run)
    return path.read_text() if path.exists() else ""


def rounds_of(folder: Path, run: str) -> list[int]:
    """The rounds that a run's log names, in their order."""
    return [int(round) for round in re.findall(r"  round (\d+)/", run_log(folder, run))]


def resumed_after(folder: Path, run: str) -> int:
    """The rounds that were done when a run was last started."""
    found = re.search(r"resuming after round (\d+)", run_log(folder, run))
    return int(found[1]) if found else 0
