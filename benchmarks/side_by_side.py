"""Several runs on one GPU at once: their speed together, with NVIDIA's MPS and without."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from tempfile import TemporaryDirectory

from benchmarks import ours
from benchmarks.cases import Case

TOGETHER = (1, 2, 4, 8)

CONTROL = "nvidia-cuda-mps-control"

PROBE = "import torch; torch.zeros(1, device='cuda')"

_barrier: Barrier


def rounds_an_hour(case: Case, device: str, precision: str, together: int, rounds: int) -> float:
    """Rounds per hour of all runs together, each evaluated after every round.

    Each run has a process of its own. They all start at once, with a round that warms up.

    Args:
        case: the federation that each run trains.
        device: ``cpu`` or ``cuda``.
        precision: of the schedule.
        together: how many runs.
        rounds: how many rounds of each run are measured.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(together)
    with ProcessPoolExecutor(together, context, _prepare, (barrier,)) as processes:
        turns = [processes.submit(_turn, case, device, precision, rounds) for _ in range(together)]
        return sum(turn.result() for turn in turns)


def _prepare(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _turn(case: Case, device: str, precision: str, rounds: int) -> float:
    work = case.work(device, rounds + 2)
    _barrier.wait(timeout=120)
    speed = ours.measure(case.model, case.dataset, work, precision=precision)
    return case.whole(speed, work).rounds_per_hour


@contextmanager
def mps() -> Iterator[bool]:
    """Start MPS for what is started in the block, and end it after; yields whether it started."""
    if shutil.which(CONTROL) is None:
        yield False
        return
    with TemporaryDirectory() as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            yield _started() and _serves()
        finally:
            subprocess.run([CONTROL], input="quit\n", text=True, check=False)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _started() -> bool:
    return subprocess.run([CONTROL, "-d"], check=False).returncode == 0


def _serves() -> bool:
    """Whether a process gets the GPU through MPS; it may hang where it does not."""
    try:
        return (
            subprocess.run([sys.executable, "-c", PROBE], check=False, timeout=60).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return False


def show(case: Case, device: str, precision: str, rounds: int) -> None:
    """Measure a case on one GPU, and print its table."""
    print(f"\nRuns an hour of one GPU, {precision}, {case.rounds} rounds a run, each evaluated:\n")
    print(f"| | {' | '.join(f'{count} side by side' for count in TOGETHER)} |")
    print("|---" * (1 + len(TOGETHER)) + "|")
    print(row("without MPS", _runs(case, device, precision, rounds)), flush=True)
    with mps() as started:
        measured: Sequence[float] = _runs(case, device, precision, rounds) if started else []
        print(row("with MPS", measured), flush=True)


def row(name: str, runs: Sequence[float]) -> str:
    """A line of the table, which says so if nothing was measured."""
    cells = [f"{each:,.2f}" for each in runs] or ["not started"] * len(TOGETHER)
    return f"| {name} | {' | '.join(cells)} |"


def _runs(case: Case, device: str, precision: str, rounds: int) -> list[float]:
    return [
        rounds_an_hour(case, device, precision, together, rounds) / case.rounds
        for together in TOGETHER
    ]
