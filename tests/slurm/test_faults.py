"""What goes wrong on a cluster, on a real Slurm: nothing that is finished is lost or made again,
what was under way goes on from its checkpoint, and the artifacts are those of an undisturbed run.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from on_slurm import (
    HELD_AFTER,
    ONE_MACHINE,
    TABLE,
    artifacts,
    ended,
    environment,
    jobs,
    jobs_of,
    log_path,
    release,
    repository,
    resumed_after,
    rounds_of,
    run_log,
    snakemake,
    succeed,
    until,
)

WAITS = "another process trains this run; waiting for it to end"


@dataclass(frozen=True)
class Undisturbed:
    """Runs if nothing goes wrong, trained without Snakemake and Slurm.

    Attributes:
        folder: where.
        artifacts: by the ids of the runs.
        ids: by their seeds.
    """

    folder: Path
    artifacts: dict[str, list]
    ids: dict[int, str]

    def repository(self, folder: Path, runs: int, held: Sequence[int]) -> Path:
        """The workflow with its data and partitions."""
        for part in ("data", "partitions"):
            shutil.copytree(self.folder / "results" / part, folder / "results" / part)
        return repository(folder, runs, held)

    def came_out(self, folder: Path, *seeds: int) -> None:
        """Of these runs, and no others, the artifacts are whole and equal."""
        ids = [self.ids[seed] for seed in seeds]
        assert artifacts(folder) == {run: self.artifacts[run] for run in ids}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = repository(tmp_path_factory.mktemp("undisturbed"), runs=4)
    noisyfl = [sys.executable, "-m", "noisyfl"]

    def call(*arguments: str) -> None:
        subprocess.run([*noisyfl, *arguments], cwd=folder, env=environment(folder), check=True)

    call("specs", "tiny_one", "specs", "--config", "config/tiny.yaml")
    paths = list(folder.glob("specs/*.json"))
    call("train", *map(str, paths), "--device", "cpu", "--plugin", "disturbed.py")
    ids = {json.loads(path.read_text())["seed"]: path.stem for path in paths}
    assert sorted(ids) == [1, 2, 3, 4]
    return Undisturbed(folder, artifacts(folder), ids)


def is_held(folder: Path, run: str) -> bool:
    """Whether a run is where it waits."""
    return len(rounds_of(folder, run)) == HELD_AFTER


def second_has_begun(folder: Path, run: str) -> bool:
    """Whether the second job of a run has gone on from its checkpoint."""
    return len(jobs_of(folder, run)) == 2 and resumed_after(folder, run) > 0


def unlock(folder: Path) -> None:
    command = [sys.executable, "-m", "snakemake", *TABLE, "--unlock", "--cores", "1"]
    subprocess.run(command, cwd=folder, env=environment(folder), check=True)


def test_jobs_that_end_early_and_one_that_fails(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Seed 1 is cancelled, 2 is at its time limit, 3 has too little memory, 4 always fails."""
    folder = undisturbed.repository(tmp_path, runs=4, held=[1, 2])
    rules = folder / "rules/common.smk"
    text = rules.read_text()
    asked = "int(1.5 * SCALE.estimate(wildcards.run).memory_mb * attempt)"
    assert asked in text
    rules.write_text(text.replace(asked, "2000 * attempt**2"))
    (folder / "hungry3").touch()
    (folder / "broken4").touch()
    cancelled, limited, hungry, broken = (undisturbed.ids[seed] for seed in (1, 2, 3, 4))
    with snakemake(folder, *TABLE) as running:
        until(lambda: is_held(folder, limited), running, folder)
        (job_of_limited,) = jobs_of(folder, limited)
        update = ["scontrol", "update", f"jobid={job_of_limited['JobId']}", "timelimit=1"]
        subprocess.run(update, check=True)
        until(lambda: is_held(folder, cancelled), running, folder)
        (job_of_cancelled,) = jobs_of(folder, cancelled)
        subprocess.run(["scancel", job_of_cancelled["JobId"]], check=True)
        for seed, run in ((1, cancelled), (2, limited)):  # only when they begin anew
            until(partial(second_has_begun, folder, run), running, folder)
            release(folder, seed)
        assert running.wait(timeout=900) == 1
    undisturbed.came_out(folder, 1, 2, 3)
    log = (folder / "log").read_text()

    def told(run: str, key: str) -> list[str]:
        return [job[key] for job in jobs_of(folder, run)]

    # Told in time, so that not even a round is lost.
    for run, state in ((cancelled, "CANCELLED"), (limited, "TIMEOUT")):
        assert told(run, "JobState") == [state, "COMPLETED"]
        assert resumed_after(folder, run) == HELD_AFTER
    # Without cgroups Slurm looks once a second at what a job holds.
    assert told(hungry, "JobState")[-1] == "COMPLETED"
    assert told(hungry, "MinMemoryNode") == ["2000M", "8000M"]
    assert told(broken, "JobState") == ["FAILED"] * 3
    said = (folder / f"results/logs/runs/{broken}.log").read_text()
    place = r"\S+\.py, line \d+: AssertionError: "
    assert re.search(f"not tried again, as it would fail in the same way: {place}", said)
    assert "broken on purpose" in said.partition("Traceback")[2]
    minutes = [int(limit.split(":")[1]) for limit in told(broken, "TimeLimit")]
    assert [round(limit / minutes[0]) for limit in minutes] == [1, 2, 3]
    assert "AssertionError: broken on purpose" in log
    assert re.search(f"failed: FedAvg, noisy, seed 4: {place}broken on purpose", log)
    assert f"results/logs/runs/{broken}.log" in log
    assert not list(folder.glob("results/tiny/tables/**/*.csv"))


@pytest.mark.storm
def test_a_pre_emption_and_a_lost_node(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """One run goes through both, in one Slurm job."""
    folder = undisturbed.repository(tmp_path, runs=1, held=[1])
    run = undisturbed.ids[1]

    def restarted() -> bool:
        return resumed_after(folder, run) == HELD_AFTER

    with snakemake(folder, *TABLE) as running:
        until(lambda: is_held(folder, run), running, folder)
        (job,) = jobs(folder)
        log_path(folder, run).unlink()  # so that there is none until it is started again
        urgent = ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 3"]
        subprocess.run([*urgent, "--output=/dev/null"], check=True, cwd="/")
        until(restarted, running, folder)

        (job,) = jobs(folder)
        lost = job["NodeList"].removeprefix("node")
        log_path(folder, run).unlink()
        subprocess.run([ONE_MACHINE, "node-down", lost], check=True)
        try:
            until(restarted, running, folder)
        finally:
            subprocess.run([ONE_MACHINE, "node-up", lost], check=True)
        release(folder, 1)
        log = succeed(running, folder)
    undisturbed.came_out(folder, 1)
    assert "Error in rule" not in log
    (after,) = jobs(folder)
    assert (after["JobId"], after["Restarts"]) == (job["JobId"], "2")


@pytest.mark.storm
def test_a_pre_emption_before_the_first_round(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """In a minute of grace a job could end by itself, which would count as a failure."""
    folder = undisturbed.repository(tmp_path, runs=1, held=[])
    run = undisturbed.ids[1]
    path = folder / f"results/checkpoints/{run}.lock"
    path.parent.mkdir()

    def waits() -> bool:
        return WAITS in run_log(folder, run)

    with FileLock(path), snakemake(folder, *TABLE) as running:
        until(waits, running, folder)
        log_path(folder, run).unlink()
        set_grace(60)
        urgent = ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 3"]
        subprocess.run([*urgent, "--output=/dev/null"], check=True, cwd="/")
        try:
            until(waits, running, folder)
        finally:
            set_grace(5)
        (job,) = jobs(folder)
        assert (job["JobState"], job["Restarts"]) == ("RUNNING", "1")


def set_grace(seconds: int) -> None:
    """How long a job has from the signal that pre-empts it until it is killed."""
    update = ["scontrol", "update", "partitionname=gpu", f"gracetime={seconds}"]
    subprocess.run(update, check=True)


def test_snakemake_itself_is_killed_and_interrupted(
    tmp_path: Path, undisturbed: Undisturbed
) -> None:
    folder = undisturbed.repository(tmp_path, runs=2, held=[1, 2])
    short, long = undisturbed.ids[1], undisturbed.ids[2]
    with snakemake(folder, *TABLE) as running:
        until(lambda: is_held(folder, short) and is_held(folder, long), running, folder)
        running.kill()
    # The jobs go on: one ends before Snakemake is started again, the other one does not.
    release(folder, 1)
    while jobs_of(folder, short)[0]["JobState"] != "COMPLETED":
        time.sleep(0.2)
    unlock(folder)
    with snakemake(folder, *TABLE) as running:
        until(lambda: WAITS in run_log(folder, long), running, folder)
        (left_behind, again) = jobs_of(folder, long)
        interrupt(running)
    # A run in its set-up waits to be killed, too.
    while (state := jobs_of(folder, long)[1]["JobState"]) == "COMPLETING":
        time.sleep(0.2)
    assert state == "CANCELLED"
    assert again["JobState"] == "RUNNING"
    subprocess.run(["scancel", left_behind["JobId"]], check=True)
    while not ended(folder):
        time.sleep(0.2)
    release(folder, 2)
    with snakemake(folder, *TABLE) as running:
        succeed(running, folder)
    undisturbed.came_out(folder, 1, 2)
    assert len(jobs_of(folder, short)) == 1
    assert resumed_after(folder, long) == HELD_AFTER
    assert (folder / "results/tiny/tables/tiny/one.csv").exists()


def interrupt(running: subprocess.Popen) -> None:
    """Interrupt Snakemake, as a person does: again if it goes on."""
    for _ in range(4):
        running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            running.wait(timeout=60)
            return
    raise AssertionError("Snakemake goes on after four interrupts")


@pytest.mark.storm
def test_a_full_file_system(tmp_path: Path, undisturbed: Undisturbed) -> None:
    results = tmp_path / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", results], check=True)
    try:
        folder = undisturbed.repository(tmp_path, runs=1, held=[1])
        run = undisturbed.ids[1]
        with snakemake(folder, *TABLE) as running:
            until(lambda: is_held(folder, run), running, folder)
            filler = results / "filler"
            fill(filler)
            release(folder, 1)
            until(lambda: "waiting for room" in run_log(folder, run), running, folder)
            assert artifacts(folder) == {}
            filler.unlink()
            log = succeed(running, folder)
        assert "Error in rule" not in log
        undisturbed.came_out(folder, 1)
    finally:
        subprocess.run(["umount", "--lazy", results], check=True)


def fill(path: Path) -> None:
    """Take all the room that a file system has."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
