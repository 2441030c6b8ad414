"""Kills in the two windows in which Snakemake deletes what is whole: nothing is trained twice."""

import json
import os
import random
import signal
import time
from contextlib import suppress

import pytest

from small_repository import Repository, ended

DEADLINE_SECONDS = 600
"""That one start of Snakemake, or what it leaves running, may take on a busy machine."""


class Storm:
    """A copy of the repository with so many runs, and what kills its processes."""

    def __init__(self, folder, runs):
        self.repository = Repository(folder)
        self.repository.edit("config/papers/tiny.yaml", "    trials: 1\n", f"    trials: {runs}\n")
        # With as many runs as kills, trainings must take long enough for a kill to be aimed.
        self.repository.edit("config/papers/tiny.yaml", "rounds: 2", "rounds: 4")
        self.results = folder / "results"
        self.rng = random.Random(7)

    def start(self, *arguments):
        words = ("--nolock", "--rerun-incomplete", "--keep-going", *arguments)
        return self.repository.start_snakemake("results/tiny/tables/tiny/two.csv", *words)

    def processes(self):
        """By run, the process that trains it, as its status says."""
        found = {}
        for path in (self.results / "status").glob("*.json"):
            with suppress(OSError, ValueError):
                status = json.loads(path.read_text())
                if status["state"] == "running":
                    found[path.stem] = status["process"]
        return found

    def whole(self):
        """By run that is whole in the store, its provenance: no two trainings take equally long."""
        found = self.results.glob("store/*/provenance.json")
        return {path.parent.name: path.read_bytes() for path in found}

    def wait(self, until):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not until():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def kill_snakemake_in_a_training(self):
        """SIGKILL for Snakemake alone while trainings are under way; whether it came to that."""
        process = self.start()
        self.wait(lambda: self.processes() or process.poll() is not None)
        time.sleep(self.rng.uniform(0, 0.3))
        under_way = self.processes()
        process.kill()
        process.communicate()  # what it started has its own ends of the pipes: wait for all of it
        return bool(under_way) and process.returncode == -signal.SIGKILL

    def kill_trainings_when_they_are_whole(self, process):
        """SIGKILL for every training as soon as its run is whole; the runs as they were then."""
        killed = {}
        known = {}
        while process.poll() is None:
            known |= self.processes()
            for run, provenance in self.whole().items():
                if run not in killed:
                    killed[run] = provenance
                    with suppress(ProcessLookupError):
                        os.kill(known[run], signal.SIGKILL)
            time.sleep(0.001)
        return killed


def snakemake_is_killed(storm, kills, runs):
    done, whole = 0, {}
    for _ in range(kills):
        done += storm.kill_snakemake_in_a_training()
        assert whole.items() <= storm.whole().items()
        whole = storm.whole()
    finished = ended(storm.start())
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert whole.items() <= storm.whole().items()
    assert len(storm.whole()) == runs
    return done


def trainings_are_killed(storm, runs):
    process = storm.start("--retries", "1")
    killed = storm.kill_trainings_when_they_are_whole(process)
    output = "".join(process.communicate())
    assert process.returncode == 0, output
    assert len(killed) == runs
    assert storm.whole() == killed
    # Snakemake saw each of these trainings fail, and started it again, as its own log file says.
    (log,) = (storm.repository.folder / ".snakemake/log").iterdir()
    return log.read_text().count("Trying to restart job")


@pytest.mark.slow
def test_snakemake_killed_in_trainings_that_go_on_retrains_nothing(tmp_path):
    assert snakemake_is_killed(Storm(tmp_path, 3), kills=2, runs=3) >= 1


@pytest.mark.storm
def test_trainings_killed_when_they_are_whole_are_not_repeated(tmp_path):
    assert trainings_are_killed(Storm(tmp_path, 2), runs=2) >= 1


@pytest.mark.storm
def test_fifty_kills_of_snakemake_retrain_nothing(tmp_path):
    assert snakemake_is_killed(Storm(tmp_path, 110), kills=60, runs=110) >= 50


@pytest.mark.storm
def test_fifty_kills_of_whole_trainings_retrain_nothing(tmp_path):
    assert trainings_are_killed(Storm(tmp_path, 60), runs=60) >= 50
