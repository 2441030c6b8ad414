"""The fast executor on a GPU compared with the loop on a CPU, whether a GPU is there or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch

from noisyfl.checks.fake_gpu import DEVICE, FakeGpu
from noisyfl.checks.small_run import (
    SETTING,
    Failed,
    Method,
    check_alike,
    rounds_of,
    spec_of,
)
from noisyfl.core.artifacts import Results
from noisyfl.data.augmentation import mild
from noisyfl.runs.train import EXECUTORS
from noisyfl.simulation import slot
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.usage import Usage

Gpu = Literal["fake", "real"]

PARTITION = "dirichlet(alpha=5, clients=6, samples=240)"
SCHEDULE: dict[str, Any] = {
    **SETTING["schedule"],
    "rounds": 6,
    "decay_every": 4,
    "evaluate_every": 3,
    "test_batch_size": 90,
}
"""All that is captured is replayed unchecked too, at another learning rate than it was captured at,
and in several whole batches of an evaluation.
"""

MAY_WAIT = {slot: "differing", mild: "_changed"}
"""What may wait within: a replay is compared a few times only; torchvision's rotation sends its
matrix to the GPU.
"""


@contextmanager
def sync_mode(mode: str) -> Iterator[None]:
    """Context manager: within, what makes the host wait for the GPU raises (``error``) or not
    (``default``).
    """
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _in_mode(mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        with sync_mode(mode):
            return function(*given)

    return call


class Hurried(FastExecutor):
    """Its host does not wait in a local update, but to decide an epoch, or in a step that does not
    repeat.
    """

    def _new_slot(self, networks: Any) -> Any:
        made: Any = super()._new_slot(networks)
        made.start, made.finish = _in_mode("error", made.start), _in_mode("error", made.finish)
        return made

    def _batches(self, client: Any, epoch: Any, turn: Any, memory: Any) -> Any:
        torch.cuda.set_sync_debug_mode("error" if epoch.repeatable else "default")
        yield from super()._batches(client, epoch, turn, memory)
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def a_gpu(kind: Gpu) -> Iterator[tuple[torch.device, dict[str, Any]]]:
    """Context manager: a device, and options of the executor on it. On the fake one it is
    :class:`Hurried`.
    """
    options = {"channels_last": True}
    if kind == "real":
        yield DEVICE, options
        return
    with ExitStack() as patches:
        for module, name in MAY_WAIT.items():
            waiting = _in_mode("default", getattr(module, name))
            patches.enter_context(patch.object(module, name, waiting))
        patches.enter_context(patch.dict(EXECUTORS, {"fast": Hurried}))
        gpu = patches.enter_context(FakeGpu())
        yield DEVICE, {**options, "capturing": gpu.graphs}


def compare_with_loop(
    method: Method, data: Results, folder: Path, kind: Gpu = "fake"
) -> tuple[Federation, Usage]:
    """Check that the fast executor on a GPU ends with what the loop on a CPU ends with, in float64;
    and that nothing mixes devices, waits where it may not, or cannot be captured.

    Returns:
        The federation after its rounds by the loop, and what the fast executor captured.

    Raises:
        Failed: something is otherwise.
    """
    torch.set_default_dtype(torch.float64)
    tolerance = 1e-6 if kind == "real" else 1e-9
    spec = spec_of(method, partition=PARTITION, schedule=SCHEDULE)
    loop = rounds_of(spec, data, folder, "loop")
    with a_gpu(kind) as (device, options):
        quick = rounds_of(spec, data, folder, "fast", device, slots=2, **options)
        usage = quick.executor.usage
        if usage.fallbacks:
            raise Failed("; ".join(usage.fallbacks))
        if not usage.captured:
            raise Failed("nothing was captured")
        check_alike(loop, quick, tolerance)
    return loop, usage
