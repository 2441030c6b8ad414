"""Snakemake on the Slurm of these tests."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ONE_MACHINE = Path(__file__).with_name("one_machine.sh")
# The profile asks Slurm once a minute, which suits runs of hours.
ASK_SOON = ["--slurm-pool-init-seconds-before-status-checks", "2"]


@contextmanager
def snakemake(
    folder: Path, *arguments: str, profile: str = "slurm", ask: list[str] = ASK_SOON
) -> Iterator[subprocess.Popen]:
    """``snakemake ... --cores all --profile slurm`` in a folder; what it prints goes to ``log``."""
    command = [sys.executable, "-m", "snakemake", *arguments, "--cores", "all"]
    with (folder / "log").open("a") as log:
        running = subprocess.Popen(
            [*command, "--profile", profile, *ask],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "workflow")},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def succeed(running: subprocess.Popen, folder: Path, seconds: int) -> str:
    """Wait for Snakemake to end well; what it printed."""
    code = running.wait(timeout=seconds)
    log = (folder / "log").read_text()
    assert code == 0, log
    return log


def jobs(folder: Path) -> list[dict[str, str]]:
    """What Slurm remembers of the jobs of a folder, in the order of their submission."""
    command = ["scontrol", "show", "job", "--oneliner"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
    return [job for job in found if job.get("WorkDir") == str(folder)]


def ended_jobs(folder: Path) -> list[dict[str, str]]:
    """The same when all of them have ended: an allocation notices a little after Snakemake that
    there is nothing left to do, and Slurm a little after the allocation.
    """
    for _ in range(120):
        found = jobs(folder)
        if not {job["JobState"] for job in found} & {"PENDING", "RUNNING", "COMPLETING"}:
            return found
        time.sleep(0.5)
    raise TimeoutError(f"jobs that do not end: {found}")
