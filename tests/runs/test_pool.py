"""Several runs at once: how many, and a process that ends too early."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from noisyfl.core.artifacts import Results
from noisyfl.runs import devices, pool
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity
from small_jobs import job_in
from small_runs import SETTING, inputs, spec_of


@pytest.mark.parametrize(
    ("device", "visible", "at_once"),
    [
        ("auto", None, 24),
        ("cuda", "0,2", 6),
        ("auto", "0", 3),
        ("auto", "", 64),
        ("cuda:1", None, 3),
        ("cpu", None, 64),
    ],
)
def test_as_many_runs_as_share_the_gpus_that_may_be_taken(monkeypatch, device, visible, at_once):
    gpus = [devices.Gpu(str(n), f"GPU-{n}") for n in range(8)]
    monkeypatch.setattr(devices, "installed_gpus", lambda: gpus)
    monkeypatch.setattr(pool, "cores", lambda: 64)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert pool.most_at_once(device) == at_once


@pytest.mark.parametrize(("device", "at_once"), [("auto", 3), ("cuda", 3), ("cpu", 64)])
def test_parts_of_a_gpu_are_shared_as_one(monkeypatch, device, at_once):
    monkeypatch.setattr(devices, "installed_gpus", list)
    monkeypatch.setattr(pool, "cores", lambda: 64)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pool.most_at_once(device) == at_once


def test_a_run_that_fails_takes_its_process_with_it(monkeypatch):
    """Otherwise a broken CUDA would fail all further runs."""
    counts = (
        "import json, sys\nfor number, line in enumerate(sys.stdin):\n"
        "    error = 'CUDA error' if number or json.loads(line)['spec']['n'] == 1 else None\n"
        "    print(json.dumps({'error': error}), flush=True)"
    )
    popen = pool.subprocess.Popen
    monkeypatch.setattr(
        pool.subprocess,
        "Popen",
        lambda command, **more: popen([sys.executable, "-c", counts], **more),
    )
    jobs = [TrainingJob(spec={"n": n}, results="") for n in (1, 2)]
    found = [outcome.error for _, outcome in pool.train_all(jobs, 1)]
    assert found == ["CUDA error", None]


STARTER = """
import json, sys
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.pool import train_all
list(train_all([TrainingJob(**json.loads(sys.argv[1]))], 1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_runs_end_with_the_process_that_started_them(by, data, tmp_path):
    spec = spec_of("fedavg", schedule={**SETTING["schedule"], "rounds": 5000})
    inputs(spec, data)
    shutil.copytree(data.root, tmp_path / "results")
    results, run = Results(tmp_path / "results"), identity(spec)
    job = json.dumps(asdict(job_in(results, spec, checkpoint_seconds=3600)))
    starter = subprocess.Popen([sys.executable, "-c", STARTER, job])
    until(lambda: "  round 3/" in log_of(results, run))
    starter.send_signal(by)
    assert starter.wait(timeout=600) == -by
    until(lambda: "asked to end; its checkpoint is from after round" in log_of(results, run))
    assert results.checkpoint(run).exists()


def log_of(results, run):
    path = results.log(run)
    return path.read_text() if path.exists() else ""


def until(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("waited in vain")


def test_a_process_that_ends_between_two_runs_leaves_no_run_without_an_answer(monkeypatch):
    answers_once = "input(); print('{}', flush=True)"
    popen = pool.subprocess.Popen
    started = []

    def start(command, **more):
        started.append(popen([sys.executable, "-c", answers_once], **more))
        if len(started) == 1:
            return _WhichHasEnded(started[0])
        return started[-1]

    monkeypatch.setattr(pool.subprocess, "Popen", start)
    jobs = [TrainingJob(spec={"n": n}, results="") for n in range(3)]
    found = [outcome for _, outcome in pool.train_all(jobs, 1)]
    assert [outcome.error for outcome in found] == [
        None,
        "its process ended with exit code 0",
        None,
    ]


def test_a_process_that_cannot_be_started_fails_its_run(monkeypatch):
    def start(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(pool.subprocess, "Popen", start)
    found = [outcome for _, outcome in pool.train_all([TrainingJob(spec={}, results="")], 1)]
    (outcome,) = found
    assert "Resource temporarily unavailable" in outcome.error


def test_an_answer_that_is_cut_short_fails_its_run(monkeypatch):
    popen = pool.subprocess.Popen
    half = "input(); print('{\"error\": nu', end='', flush=True)"
    monkeypatch.setattr(
        pool.subprocess,
        "Popen",
        lambda command, **more: popen([sys.executable, "-c", half], **more),
    )
    (one,) = [outcome for _, outcome in pool.train_all([TrainingJob(spec={}, results="")], 1)]
    assert one.error.startswith("JSONDecodeError")


class _WhichHasEnded(SimpleNamespace):
    """A process whose second job comes after its end."""

    def __init__(self, process):
        super().__init__(process=process, stdin=self, stdout=process.stdout, written=0)

    def __getattr__(self, name):
        return getattr(self.process, name)

    def write(self, text):
        self.written += 1
        if self.written > 1:
            self.process.wait()
        self.process.stdin.write(text)

    def flush(self):
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
