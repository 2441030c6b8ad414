"""Several runs at once: how many, and a process that ends too early."""

import errno
import sys
from types import SimpleNamespace

import pytest

from noisyfl.runs import devices, pool
from noisyfl.runs.job import TrainingJob


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
