"""Several runs at once on this machine, each in a process of its own."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict

import torch

from noisyfl.core.plugins import loaded_files
from noisyfl.data.datasets.images import threads as cores
from noisyfl.runs.devices import SEATS, usable_gpus
from noisyfl.runs.job import Outcome, TrainingJob


def most_at_once(device: str) -> int:
    """How many runs this machine trains at once: one a core, or as many as share its GPUs."""
    gpus = 0
    if device in ("auto", "cuda"):
        # Parts of a GPU (MIG) have no seats: all runs use the first one that torch sees.
        gpus = len(usable_gpus(lambda line: None)) or int(torch.cuda.is_available())
    elif device.startswith("cuda"):
        gpus = 1
    return min(cores(), SEATS * gpus) if gpus else cores()


def train_all(jobs: Sequence[TrainingJob], at_once: int) -> Iterator[tuple[TrainingJob, Outcome]]:
    """Train runs, several at once; yield each with how it ended, as soon as it has.

    The processes load the plugins that this one has loaded. If the caller stops, or is interrupted,
    the runs under way save their checkpoints and end.

    Args:
        jobs: their training jobs; each starts when a process is free.
        at_once: how many processes.
    """
    waiting: queue.SimpleQueue[TrainingJob] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: queue.SimpleQueue[tuple[TrainingJob, Outcome]] = queue.SimpleQueue()
    workers = [_Worker(waiting, done) for _ in range(min(at_once, len(jobs)))]
    for worker in workers:
        worker.start()
    try:
        for _ in jobs:
            yield done.get()
    finally:
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join()


class _Worker(threading.Thread):
    """A thread that hands jobs to a process, and starts another process if that is killed or a run
    fails: some errors of CUDA last as long as the process.
    """

    def __init__(
        self,
        waiting: queue.SimpleQueue[TrainingJob],
        done: queue.SimpleQueue[tuple[TrainingJob, Outcome]],
    ) -> None:
        super().__init__(daemon=True)
        self.waiting, self.done = waiting, done
        self.process: subprocess.Popen[str] | None = None
        self.lock, self.ended = threading.Lock(), False

    def run(self) -> None:
        while not self.ended:
            try:
                job = self.waiting.get_nowait()
            except queue.Empty:
                break
            try:
                outcome = self._train(job)
            except (OSError, ValueError) as error:  # no process starts, or its answer is cut short
                self._close()
                outcome = Outcome(f"{type(error).__name__}: {error}")
            self.done.put((job, outcome))
        self._close()

    def end(self) -> None:
        """Let the run under way, if there is one, save its checkpoint and end."""
        with self.lock:
            self.ended = True
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)

    def _train(self, job: TrainingJob) -> Outcome:
        with self.lock:
            if self.ended:
                return Outcome("not begun", interrupted=True)
            if self.process is None:
                self.process = self._start()
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(job)) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            answer = ""
        else:
            answer = process.stdout.readline()
        if answer:
            outcome = Outcome(**json.loads(answer))
            if outcome.error is not None:
                self._close()
            return outcome
        self._close()
        return Outcome(f"its process ended with exit code {process.wait()}", self.ended)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "noisyfl.runs.worker", *loaded_files()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C comes to this process alone, which passes it on
        )

    def _close(self) -> None:
        """Let the process end, as its input does."""
        with self.lock:
            process, self.process = self.process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # of a process that has ended
                        pipe.close()
            process.wait()
