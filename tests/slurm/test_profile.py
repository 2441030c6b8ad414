"""The Slurm profile as users get it, on a real Slurm: two nodes with one pretended GPU each."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ONE_MACHINE = Path(__file__).with_name("one_machine.sh")
# The profile asks Slurm every minute or more, which suits runs of hours.
ASK_SOON = ["--slurm-init-seconds-before-status-checks", "2"]


def why_not() -> str:
    """Why there can be no Slurm for tests on this machine; empty if there can."""
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    path = f"{os.environ['PATH']}:/usr/sbin"
    programs = ["slurmctld", "slurmd", "munged", "sinfo"]
    missing = [name for name in programs if not shutil.which(name, path=path)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    configuration = Path("/etc/slurm/slurm.conf")
    if configuration.exists() and "one_machine.sh" not in configuration.read_text():
        return "this machine belongs to a Slurm already"
    return ""


pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module", autouse=True)
def slurm() -> Iterator[None]:
    with Path(tempfile.gettempdir(), "one-machine-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a machine has one Slurm; other test processes wait
        subprocess.run([ONE_MACHINE, "up"], check=True)
        yield
        subprocess.run([ONE_MACHINE, "down"], check=True)


@contextmanager
def snakemake(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """``snakemake ... --cores all --profile slurm`` in a folder; what it prints goes to ``log``."""
    command = [sys.executable, "-m", "snakemake", *arguments, "--cores", "all"]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [*command, "--profile", "slurm", *ASK_SOON],
            cwd=folder,
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


SMALL_WORKFLOW = """
rule all:
    localrule: True
    input: f"{config['scale']}.txt"

rule train:
    output: "{scale}.txt"
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt
    shell:
        "echo $SLURMD_NODENAME >> lives;"
        "[ $(wc -l < lives) -gt 1 ] || {config[first]};"
        "touch {output}"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with our profiles, and a workflow whose only job does what its config says first."""
    for profile in ("slurm", "profiles"):
        shutil.copytree(REPOSITORY / profile, tmp_path / profile)
    (tmp_path / "Snakefile").write_text(SMALL_WORKFLOW)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/paper.yaml").write_text("scale: paper\nfirst: sleep 600\n")
    (tmp_path / "config/smoke.yaml").write_text("scale: smoke\nfirst: exit 1\n")
    return tmp_path


def test_a_failed_job_is_tried_again_with_more_memory_and_time(small: Path) -> None:
    with snakemake(small, "--configfile", "config/smoke.yaml") as running:
        succeed(running, small, seconds=120)
    assert (small / "smoke.txt").exists()
    first, second = jobs(small)
    assert (first["JobState"], second["JobState"]) == ("FAILED", "COMPLETED")
    assert (first["MinMemoryNode"], second["MinMemoryNode"]) == ("1000M", "2000M")
    assert (first["TimeLimit"], second["TimeLimit"]) == ("00:30:00", "01:00:00")


def node_of_first_life(running: subprocess.Popen, lives: Path) -> str:
    """The number of the node that the job has started on."""
    for _ in range(300):
        if lives.exists() and (node := lives.read_text().strip()):
            return node.removeprefix("node")
        assert running.poll() is None, (lives.parent / "log").read_text()
        time.sleep(0.2)
    pytest.fail("the job did not start within a minute")


def test_a_job_whose_node_is_lost_runs_on_another(small: Path) -> None:
    lives = small / "lives"
    with snakemake(small) as running:  # without --configfile: the profile's own scale
        lost = node_of_first_life(running, lives)
        subprocess.run([ONE_MACHINE, "node-down", lost], check=True)
        try:
            succeed(running, small, seconds=180)
        finally:
            subprocess.run([ONE_MACHINE, "node-up", lost], check=True)
    assert (small / "paper.txt").exists()
    assert len(set(lives.read_text().split())) == 2


def test_a_table_is_made_of_runs_that_each_had_a_gpu(tmp_path: Path) -> None:
    for folder in ("config", "profiles", "rules", "slurm", "workflow"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    shutil.copy(REPOSITORY / "Snakefile", tmp_path)
    one_trial = ["--configfile", "config/smoke.yaml", "--config", "trials=1"]
    with snakemake(tmp_path, "fedcorr_table2", *one_trial) as running:
        succeed(running, tmp_path, seconds=400)
    assert (tmp_path / "results/smoke/tables/fedcorr/table2.csv").read_text().count("\n") > 1
    runs = list(tmp_path.glob("results/runs/*/rounds.parquet"))
    trained = [job for job in jobs(tmp_path) if job["Comment"].startswith("rule_train")]
    assert runs
    assert len(trained) == len(runs)
    for job in trained:
        assert job["JobState"] == "COMPLETED"
        assert job["TresPerJob"] == "gres:gpu:1"
        assert job["CPUs/Task"] == "2"

    with snakemake(tmp_path, "fedcorr_table2", *one_trial) as running:
        assert "Nothing to be done" in succeed(running, tmp_path, seconds=60)
