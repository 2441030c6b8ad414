"""Work that comes again and again, captured once as a CUDA graph and launched as one operation.

A graph repeats the recorded operations on the tensors that they were recorded on, and runs no
Python. So its results are compared with those of the work itself before they are trusted
(:meth:`Replay.is_to_be_checked`).
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noisyfl.simulation.usage import Usage

WARM_UP = 1
"""How many steps run one operation at a time before any is captured: of each key, on any slot, so
that all libraries have chosen their algorithms; and of each slot, so that they have their
workspaces there."""

GRAPHS = 32
"""How many graphs a slot keeps; a further one replaces the least recently used."""

TOLERANCES = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}
"""For each precision, how far the result of a replay may be from that of the step itself, as a
share of what the step changes. They differ since the order of sums on a GPU is not always the
same."""

Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""Captures work on tensors that stay in the same place, and returns a function that does the work.
Capturing it does not do it yet."""


class CudaGraphs:
    """Captures work on the current stream, as graphs that run one by one and share their memory."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._failed: list[torch.cuda.CUDAGraph] = []

    def __call__(self, work: Work) -> Work:
        """See :data:`Capture`."""
        graph = torch.cuda.CUDAGraph()
        # torch.cuda.graph would wait for all streams and free all cached memory, each time.
        graph.capture_begin(self._pool, capture_error_mode="thread_local")
        collecting = gc.isenabled()
        # The garbage collector must not free anything on a stream that is capturing.
        gc.disable()
        try:
            work()
        except BaseException:
            self._give_up(graph)
            raise
        finally:
            if collecting:
                gc.enable()
        try:
            graph.capture_end()
        except BaseException:
            self._leave(graph)
            raise
        return graph.replay

    def _give_up(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a capture whose work failed; an error here must not hide the error of the work."""
        try:
            graph.capture_end()
        except RuntimeError:
            self._leave(graph)

    def _leave(self, graph: torch.cuda.CUDAGraph) -> None:
        """Take a new memory pool in place of one whose capture could not be ended.

        Nothing else can be captured in the old pool. The graph is kept, since torch goes on to ask
        it about every allocation.
        """
        self._failed.append(graph)
        self._pool = torch.cuda.graph_pool_handle()


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
        times: how often the inputs were filled for a replay.
    """

    inputs: dict[str, Tensor]
    again: Work
    result: Any = None
    forward: int = 0
    backward: int = 0
    times: int = 0

    def load(self, inputs: Mapping[str, Tensor]) -> None:
        """Fill in the inputs of the next replay, and count it."""
        torch._foreach_copy_(list(self.inputs.values()), list(inputs.values()))
        self.times += 1

    def is_to_be_checked(self) -> bool:
        """Whether this replay is to be compared with the work itself: the first, the second, the
        fourth, the eighth, and so on. The first alone does not suffice, since what Python computed
        during the capture is still right then.
        """
        return self.times & (self.times - 1) == 0


class GraphCache:
    """The captured work of one slot, by key. A key holds all that decides what the work does,
    except for the values of tensors.

    Args:
        usage: shared by all slots.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._replays: OrderedDict[Hashable, Replay] = OrderedDict()
        self._eager = 0

    def __len__(self) -> int:
        return len(self._replays)

    def find(self, key: Hashable) -> Replay | None:
        """The captured work of a key, if there is any."""
        if key in self._usage.given_up:
            self._replays.pop(key, None)
        replay = self._replays.get(key)
        if replay is not None:
            self._replays.move_to_end(key)
        return replay

    def is_due(self, key: Hashable) -> bool:
        """Whether the next work of a key should be captured; if not, it runs as it is, and counts
        towards :data:`WARM_UP`.
        """
        if key in self._usage.given_up:
            return False
        if self._eager >= WARM_UP and self._usage.seen[key] >= WARM_UP:
            return True
        self._eager += 1
        self._usage.seen[key] += 1
        return False

    def add(self, key: Hashable, replay: Replay) -> None:
        """Keep captured work."""
        while len(self._replays) >= GRAPHS:
            self._replays.popitem(last=False)
        self._replays[key] = replay

    def give_up(self, key: Hashable, why: str) -> None:
        """Never capture or replay work of this key again, on any slot, and report why."""
        self._replays.pop(key, None)
        if key not in self._usage.given_up:
            self._usage.given_up.add(key)
            self._usage.fall_back(f"{why}; such steps run one operation at a time")


def signature(tensors: Mapping[str, Tensor]) -> tuple:
    """The names, shapes and dtypes of tensors, which decide whether captured work fits them."""
    return tuple((name, value.shape, value.dtype) for name, value in tensors.items())


def differing(
    before: Mapping[str, Sequence[Tensor]],
    one: Mapping[str, Sequence[Tensor]],
    other: Mapping[str, Sequence[Tensor]],
    tolerance: float,
) -> list[str]:
    """The kinds of tensors in which two outcomes of one step differ by more than they may.

    A tensor may differ by the share ``tolerance`` of the largest change that the step made in it.
    Where that change is next to nothing (a bias that is normalised away), a thousandth of the
    largest change of its kind takes its place. A difference in the last digits is always allowed.

    Args:
        before: tensors by kind, before the step.
        one: the same after the step.
        other: the same after the step was done in the other way.
        tolerance: the share.
    """
    wrong = {
        kind: _apart(before[kind], one[kind], other[kind], tolerance) for kind in one if one[kind]
    }
    if not wrong:
        return []
    return [
        kind
        for kind, apart in zip(wrong, torch.stack(list(wrong.values())).tolist(), strict=True)
        if apart
    ]


def _apart(
    before: Iterable[Tensor], one: Iterable[Tensor], other: Iterable[Tensor], tolerance: float
) -> Tensor:
    changes: list[Tensor] = []
    errors: list[Tensor] = []
    digits: list[Tensor] = []
    for tensors in zip(before, one, other, strict=True):
        kind = tensors[0].dtype if tensors[0].is_floating_point() else torch.float64
        # A model that diverges does so in both outcomes: NaN and infinity are compared as numbers.
        start, first, second = (each.to(kind).nan_to_num() for each in tensors)
        for values, value in (
            (changes, first - start),
            (errors, second - first),
            (digits, first * (8 * torch.finfo(kind).eps)),
        ):
            values.append(value.abs().amax().double())
    change, error, last = map(torch.stack, (changes, errors, digits))
    allowed = tolerance * torch.maximum(change, 1e-3 * change.max()) + last
    return (error > allowed).any()
