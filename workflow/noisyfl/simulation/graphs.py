"""Repeated work, captured once as a CUDA graph and launched as one operation.

A graph repeats the recorded operations on the tensors that they were recorded on, and runs no
Python. So its results are compared with those of the work itself before they are trusted
(:meth:`GraphCache.is_to_be_checked`).
"""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noisyfl.simulation.usage import Usage

WARM_UP = 1
"""How many steps run one operation at a time before any is captured: of each key, on any slot, so
that all libraries have chosen their algorithms; and of each slot, so that they have their
workspaces there."""

CHECKS = 2
"""How many replays of a key are compared with the work itself at least. One does not suffice,
since what Python computed during the capture is still right then."""

REPLAY_TOLERANCE = 10
"""How many times as far as two replays of the same work a replay and the work may be apart."""

TOLERANCES = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}
"""For each precision, how far the result of a replay may be from that of the step itself, as a
share of what the step changes. They differ since the order of sums on a GPU is not always the
same."""

Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""Captures work on tensors that stay in the same place, and returns a function that does the work.
Capturing it does not do it yet."""


def free_unused_memory(device: torch.device) -> None:
    """Give back what torch keeps of a GPU though nothing uses it; on a CPU do nothing.

    Slots and models refer to each other, so that only the garbage collector frees them. cuBLAS has
    workspaces for each stream that was ever used, up to 64 MiB a stream: they may go only if no
    captured graph uses them any longer.
    """
    if device.type == "cuda":
        gc.collect()
        torch.cuda.synchronize(device)
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


class CudaGraphs:
    """Captures work on the current stream, as graphs that run one by one and share their memory.

    Once a capture could not be ended, nothing else is captured: the GPU may still be capturing.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._keeper: torch.cuda.CUDAGraph | None = None
        self._failed: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> Work:
        """See :data:`Capture`.

        Raises:
            torch.OutOfMemoryError: the GPU has too little memory for the work.
            RuntimeError: the work cannot be captured, or an earlier capture could not be ended.
        """
        if self._keeper is None:
            # A graph of nothing: torch gives a pool up with its last graph, for good.
            self._keeper = self._captured(lambda: None)
        with suppress(torch.OutOfMemoryError):
            return self._captured(work).replay
        # Here no traceback keeps the tensors of the first attempt alive. Blocks that torch has
        # cached outside of the pool cannot be freed during a capture.
        torch.cuda.empty_cache()
        return self._captured(work).replay

    def _captured(self, work: Work) -> torch.cuda.CUDAGraph:
        if self._failed is not None:
            raise RuntimeError("an earlier capture could not be ended")
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        # The garbage collector must not free anything on a stream that is capturing.
        gc.disable()
        try:
            # torch.cuda.graph would wait for all streams and free all cached memory, each time.
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                self._end(graph)
        finally:
            if collecting:
                gc.enable()
        return graph

    def _end(self, graph: torch.cuda.CUDAGraph) -> None:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                graph.capture_end()
        except RuntimeError:
            self._failed = graph  # kept alive, since torch may ask it about every allocation
            # Until torch knows that the capture is over it frees no cached memory. Some versions
            # end it themselves, and fail to do it twice; older ones call it otherwise.
            with suppress(RuntimeError, AttributeError):
                torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self._pool)
            # The random generator still takes itself to be captured, and would reject the next
            # dropout that is not; an empty capture that ends well sets it right.
            with suppress(RuntimeError), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The CUDA Graph is empty")
                empty = torch.cuda.CUDAGraph()
                empty.capture_begin(
                    torch.cuda.graph_pool_handle(), capture_error_mode="thread_local"
                )
                empty.capture_end()
            raise


@dataclass
class Replay:
    """Captured work: its inputs, the function that repeats it, and the counts that the Python code
    would make.

    Attributes:
        inputs: tensors to fill before each replay.
        again: the function that repeats the work.
        result: the outputs of the work, overwritten by ``again``.
        forward: samples that the work takes through a network.
        backward: those of them that a gradient goes back through.
    """

    inputs: dict[str, Tensor]
    again: Work
    result: Any = None
    forward: int = 0
    backward: int = 0

    def load(self, inputs: Mapping[str, Tensor]) -> None:
        """Fill in the inputs of the next replay."""
        torch._foreach_copy_(list(self.inputs.values()), list(inputs.values()))


class GraphCache:
    """The captured work of one slot, by key. A key holds all that decides what the work does,
    except for the values of tensors.

    Args:
        usage: shared by all slots.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._replays: dict[Hashable, Replay] = {}
        self._eager = 0

    def __len__(self) -> int:
        return len(self._replays)

    def find(self, key: Hashable) -> Replay | None:
        """The captured work of a key, if there is any."""
        if self.is_given_up(key):
            self._replays.pop(key, None)
        return self._replays.get(key)

    def is_due(self, key: Hashable) -> bool:
        """Whether the next work of a key should be captured; if not, it runs as it is, and counts
        towards :data:`WARM_UP`.
        """
        if self.is_given_up(key):
            return False
        if self._eager >= WARM_UP and self._usage.runs[key] >= WARM_UP:
            return True
        self._eager += 1
        self._usage.runs[key] += 1
        return False

    def add(self, key: Hashable, replay: Replay) -> None:
        """Keep captured work."""
        self._replays[key] = replay

    def is_to_be_checked(self, key: Hashable) -> bool:
        """Whether the next replay of a key is to be compared with the work itself, as the first
        :data:`CHECKS` on any slot are.
        """
        self._usage.checked[key] += 1
        return self._usage.checked[key] <= CHECKS

    def is_given_up(self, key: Hashable) -> bool:
        """Whether work of this key is never captured again."""
        return key in self._usage.given_up

    def give_up(self, key: Hashable, why: str) -> None:
        """Never capture or replay work of this key again, on any slot, and report why."""
        self._replays.pop(key, None)
        if not self.is_given_up(key):
            self._usage.given_up.add(key)
            self._usage.fall_back(f"{why}; such work is no longer replayed")


def signature(tensors: Mapping[str, Tensor]) -> tuple:
    """The names, shapes and dtypes of tensors, which decide whether captured work fits them."""
    return tuple((name, value.shape, value.dtype) for name, value in tensors.items())


def differing(
    start: Mapping[str, Sequence[Tensor]],
    one: Mapping[str, Sequence[Tensor]],
    other: Mapping[str, Sequence[Tensor]],
    again: Mapping[str, Sequence[Tensor]],
    tolerance: float,
) -> list[str]:
    """The kinds of tensors in which two outcomes of the same work differ by more than they may.

    A tensor may differ by the share ``tolerance`` of the largest change that the work made in it.
    Where that change is next to nothing (a bias that is normalised away), a thousandth of the
    largest change of its kind replaces it. A difference in the last digits is always allowed,
    and so are :data:`REPLAY_TOLERANCE` times the one between two outcomes of the other way.

    Args:
        start: tensors by kind, before the work.
        one: the same after the work.
        other: the same after the work was done in the other way.
        again: the same after it was done in the other way once more.
        tolerance: the share.
    """
    wrong = {
        kind: _apart(start[kind], one[kind], other[kind], again[kind], tolerance)
        for kind in one
        if one[kind]
    }
    if not wrong:
        return []
    return [
        kind
        for kind, apart in zip(wrong, torch.stack(list(wrong.values())).tolist(), strict=True)
        if apart
    ]


def _apart(
    start: Sequence[Tensor],
    one: Sequence[Tensor],
    other: Sequence[Tensor],
    again: Sequence[Tensor],
    tolerance: float,
) -> Tensor:
    """Whether one of the tensors of a kind differs by more than it may: bool, on the device."""
    start, first, second, third = (
        list(map(_as_float, tensors)) for tensors in (start, one, other, again)
    )
    change, error, replays = (
        _largest(torch._foreach_sub(*pair))
        for pair in ((first, start), (second, first), (third, second))
    )
    size = _largest(first)
    digits = torch.tensor(
        [8 * torch.finfo(value.dtype).eps for value in first], dtype=torch.float64
    ).to(size.device, non_blocking=True)
    largest = change.nan_to_num(posinf=0.0).max()
    allowed = tolerance * torch.maximum(change, 1e-3 * largest) + size * digits
    allowed += REPLAY_TOLERANCE * replays.nan_to_num()
    # A model that diverges does so in both outcomes; else what is not a number is an error.
    return (~(error <= allowed) & size.isfinite()).any()


def _largest(tensors: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    """The largest absolute value of each tensor, float64 [tensors]."""
    return torch.stack([each.double() for each in torch._foreach_norm(tensors, math.inf)])


def _as_float(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_floating_point() else tensor.double()
