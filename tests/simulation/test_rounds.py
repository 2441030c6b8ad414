"""Whole runs on a small real federation: determinism, kills, resuming, full disks."""

import json
import signal
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch

from noisyfl.checks.fast import PARTITION
from noisyfl.checks.method import declares, resumes, trains
from noisyfl.checks.small_run import content
from noisyfl.core.artifacts import Results, read_table
from noisyfl.core.provenance import read_provenance
from noisyfl.runs.processor import device_name
from noisyfl.runs.train import Inputs, TrainingOptions, train_run
from noisyfl.simulation.checkpoint import Checkpoint, Interrupted
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.specs.identity import identity
from small_runs import (
    LOSSES,
    METHODS,
    REMEMBERING,
    SETTING,
    VARIED,
    by_name,
    inputs,
    name_of,
    spec_of,
    train_small,
)

FORGETTING = [row for row in METHODS if row.get("name") in LOSSES]
INTERRUPTED = [
    row
    for row in METHODS
    if name_of(row) in ("apfl+josrc", "fedcorr", "fedfixer", "jointopt", "scaffold")
]
"""Where in a round a run ends matters to no method whose checkpoints have all of it, for which each
one is tested after every round. These keep most: on the server, of clients and of samples.
"""


def short_spec(method):
    """Of a run of few steps."""
    return spec_of(method, partition=PARTITION)


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The files of a method's run that nothing has happened to, each trained once."""

    @cache
    def trained(run):
        return train_small(specs[run], data, tmp_path_factory.mktemp(run))

    specs = {identity(spec): spec for spec in map(short_spec, METHODS)}
    return lambda spec: trained(identity(spec))


@pytest.mark.parametrize("method", by_name(FORGETTING, ["mixup"]))
def test_every_loss_trains(method, data, tmp_path):
    """The runs of the other methods are looked at below."""
    trains(method, data, tmp_path)


@pytest.mark.parametrize("method", by_name(METHODS))
def test_every_method_declares_what_it_is(method, data, tmp_path):
    declares(method, data, tmp_path)


@pytest.mark.parametrize("method", by_name(FORGETTING, ["mixup"]))
def test_the_same_run_twice_is_equal_bit_for_bit(method, data, tmp_path, undisturbed):
    """Of the other methods the pieces below are a second run."""
    spec = short_spec(method)
    first = content(undisturbed(spec))
    torch.manual_seed(99)
    np.random.seed(99)
    assert first == content(train_small(spec, data, tmp_path / "again"))


@pytest.mark.slow
def test_another_seed_is_another_run(data, tmp_path, undisturbed):
    other = train_small(spec_of("fedavg", partition=PARTITION, seed=4), data, tmp_path)
    losses = [
        read_table(files.rounds)[0]["test_loss"].to_pylist()
        for files in (undisturbed(short_spec({"name": "fedavg"})), other)
    ]
    assert not set(losses[0]) & set(losses[1])


@pytest.mark.parametrize("method", by_name(REMEMBERING, ["fedcorr"]))
def test_a_run_asked_to_end_after_every_round_ends_the_same(method, data, tmp_path, undisturbed):
    whole = undisturbed(short_spec(method))
    resumes(method, data, tmp_path, whole)
    assert not (tmp_path / "pieces" / "run.pt").exists()
    # It trains in so many rounds that its warm-up ends, from whichever model the seed gives.
    assert json.loads(whole.provenance.read_text())["status"] == "finished"
    rounds = read_table(whole.rounds)[0].to_pylist()
    assert rounds[-1]["ordinary_rounds"] >= SETTING["schedule"]["rounds"]
    assert np.isfinite(rounds[-1]["test_loss"])
    assert all(row["samples_backward"] > 0 for row in rounds)


def test_provenance_names_the_machine_that_began_the_run(data, tmp_path, monkeypatch):
    spec, pieces = spec_of("fedavg"), tmp_path / "pieces"
    gpu = {"device": "NVIDIA H200", "torch": "2.11.0+cu130"}
    with monkeypatch.context() as patch:
        patch.setattr("noisyfl.runs.train._machine", lambda device: gpu)
        patch.setattr(Checkpoint, "after_round", lambda self, *_: self._ask_to_end(15, None))
        with pytest.raises(Interrupted):
            train_small(spec, data, pieces, checkpoint_seconds=0)
    lines = []
    files = train_small(spec, data, pieces, log=lines.append)
    there = "resuming after round 1, trained elsewhere until then (NVIDIA H200, 2.11.0+cu130)"
    assert there in lines
    provenance = read_provenance(files.provenance, identity(spec))
    assert provenance.as_given()["earlier"] == [{**gpu, "rounds": 1}]
    assert provenance.devices == ["NVIDIA H200", device_name()]


@pytest.mark.parametrize("method", by_name(INTERRUPTED, [], VARIED))
def test_sigterm_in_the_middle_of_rounds_changes_nothing(
    method, data, tmp_path, undisturbed, monkeypatch
):
    """The signal comes at random steps, and the run has not taken another one when it ends."""
    spec = short_spec(method)
    whole = content(undisturbed(spec))
    rng = np.random.default_rng(5)
    left = 0
    step = Optimizer.step

    def step_or_signal(self, loss, learns=""):
        nonlocal left
        assert left >= 0
        left -= 1
        if left < 0:
            signal.raise_signal(signal.SIGTERM)
        step(self, loss, learns)

    monkeypatch.setattr(Optimizer, "step", step_or_signal)
    interruptions = 0
    for _ in range(40):
        left = int(rng.integers(1, 12 + 12 * interruptions))  # a round may be longer
        try:
            files = train_small(spec, data, tmp_path / "pieces", checkpoint_seconds=0)
            break
        except Interrupted:
            interruptions += 1
    assert interruptions >= 2
    assert whole == content(files)


KILLER = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from noisyfl.core.artifacts import Results
from noisyfl.runs.train import Inputs, TrainingOptions, train_run

jobs = json.loads(sys.stdin.read())
rng = random.Random(11)

def train(job, root):
    train_run(
        job["spec"], Inputs(*map(Path, job["inputs"])), Results(root).run(job["run"]),
        root / f"{job['run']}.pt", TrainingOptions("cpu", checkpoint_seconds=0),
        log=lambda line: None,
    )

def child(job, root):
    process = os.fork()
    if not process:
        try:
            train(job, root)
            os._exit(0)
        finally:
            os._exit(1)
    return process

for job in jobs:
    kills, seconds = 0, job["seconds"]
    while True:
        process = child(job, Path(job["root"]))
        if kills < 3:
            time.sleep(rng.uniform(0.1, 0.7) * seconds)
            os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
        elif status:
            sys.exit(f"{job['run']}: the run failed")
        elif kills > 1:
            break
        else:  # It was too fast: the machine had more to do while the seconds were measured.
            shutil.rmtree(job["root"])
            kills, seconds = 0, seconds / 2
    print(kills, flush=True)
"""


def seconds_of(files):
    took = json.loads(files.provenance.read_text())
    return took["setup_seconds"] + took["training_seconds"]


@pytest.mark.storm
def test_runs_killed_at_random_moments_end_the_same(data, tmp_path, undisturbed):
    """Killed two or three times anywhere: in set-up, in a round, in a checkpoint."""
    specs = [short_spec(method) for method in INTERRUPTED]
    jobs = [
        {
            "spec": spec,
            "inputs": [str(path) for path in inputs(spec, data)],
            "run": identity(spec),
            "root": str(tmp_path / identity(spec)),
            "seconds": seconds_of(undisturbed(spec)),
        }
        for spec in specs
    ]
    done = subprocess.run(
        [sys.executable, "-c", KILLER],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
    )
    kills = [int(line) for line in done.stdout.splitlines()]
    assert len(kills) == len(jobs)
    assert min(kills) >= 2
    for spec in specs:
        killed = Results(tmp_path / identity(spec)).run(identity(spec))
        assert content(undisturbed(spec)) == content(killed)


@pytest.mark.slow
def test_a_checkpoint_of_something_else_is_refused(data, tmp_path, monkeypatch):
    spec = spec_of("fedavg")
    path = tmp_path / "run.pt"
    whole = content(train_small(spec, data, tmp_path / "whole"))

    def interrupt(spec):
        with monkeypatch.context() as patch:
            patch.setattr(
                Checkpoint,
                "after_round",
                lambda self, rounds, federation: self._ask_to_end(signal.SIGTERM, None),
            )
            with pytest.raises(Interrupted):
                train_small(spec, data, tmp_path)

    interrupt(spec_of("fedprox"))
    lines = []
    assert whole == content(train_small(spec, data, tmp_path, lines.append))
    aside = path.with_suffix(".refused")
    assert f"checkpoint of another spec, method set aside as {aside}; starting over" in lines
    assert aside.exists()

    for part, digest in (("source", "shared_digest"), ("method", "methods_digest")):
        interrupt(spec)
        lines = []
        with monkeypatch.context() as patch:
            patch.setattr(f"noisyfl.runs.train.{digest}", lambda *parts: "another")
            train_small(spec, data, tmp_path, lines.append)
        assert f"checkpoint of another {part} set aside as {aside}; starting over" in lines

    path.write_bytes(b"half a checkpo")
    lines = []
    train_small(spec, data, tmp_path, lines.append)
    assert any(line.startswith("checkpoint damaged (File is not a zip file)") for line in lines)
    assert path.with_suffix(".damaged").read_bytes() == b"half a checkpo"


def test_a_partition_of_another_spec_is_refused(data, tmp_path):
    spec, other = spec_of("fedavg"), spec_of("fedavg", seed=8)
    train_part, test_part, _ = inputs(spec, data)
    with pytest.raises(ValueError, match="the partition of another spec"):
        train_run(
            spec,
            Inputs(train_part, test_part, inputs(other, data)[2]),
            Results(tmp_path).run("x"),
            tmp_path / "run.pt",
            TrainingOptions(device="cpu"),
        )


def test_a_full_disk_leaves_no_half_artifact_and_is_waited_for(data, tmp_path, monkeypatch):
    spec = spec_of("fedavg", schedule={**SETTING["schedule"], "rounds": 1})
    files = Results(tmp_path).run(identity(spec))
    inputs(spec, data)
    found = []

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:

        def make_room(checkpoint, seconds, **_):
            found.append(sorted(path.name for path in files.folder.iterdir()))
            patch.undo()

        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
        patch.setattr("noisyfl.runs.train.Checkpoint.pause", make_room)
        train_small(spec, data, tmp_path)
    assert found == [["spec.json"]]
    assert all(path.exists() for path in files.all())
