"""Work that comes again and again, captured once as a CUDA graph and launched as one operation.

A graph repeats what was recorded, on the tensors that it was recorded on, and no Python. So what it
computes is held against the work itself before it is believed (:meth:`Replay.is_to_be_checked`).
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
"""Times that a step of one key runs as it is, on any slot, before it is captured, so that every
library has chosen its algorithms; and first steps of a slot, so that they have their workspaces."""

GRAPHS = 32
"""That a slot keeps; the one that was not used for longest makes room for a new one."""

TOLERANCES = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}
"""By precision: how far a replay may be from the step itself, as a share of what the step changes.
The order of sums on a GPU is not always the same."""

Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""From work on tensors that stay where they are to a way of doing it again. Captured work is not
done yet."""


class CudaGraphs:
    """Captures work on the current stream, as graphs that run one by one and share their memory."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._failed: list[torch.cuda.CUDAGraph] = []

    def __call__(self, work: Work) -> Work:
        """See :data:`Capture`."""
        graph = torch.cuda.CUDAGraph()
        # torch.cuda.graph would wait for all streams and give all cached memory back, each time.
        graph.capture_begin(self._pool, capture_error_mode="thread_local")
        collecting = gc.isenabled()
        # Nothing that lies about may be freed on a stream that is capturing.
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
        """End a capture whose work failed, whose error is the one to tell."""
        try:
            graph.capture_end()
        except RuntimeError:
            self._leave(graph)

    def _leave(self, graph: torch.cuda.CUDAGraph) -> None:
        """Go on without a pool whose capture has not ended: it takes no other capture, and asks
        the graph about every allocation.
        """
        self._failed.append(graph)
        self._pool = torch.cuda.graph_pool_handle()


@dataclass
class Replay:
    """Captured work: what it reads, how it is done again, and what a graph does not count.

    Attributes:
        inputs: tensors to fill before.
        again: does it.
        result: what it gives, filled by ``again``.
        forward: samples that it takes through a network.
        backward: those of them that a gradient goes back through.
        times: how often it was done.
    """

    inputs: dict[str, Tensor]
    again: Work
    result: Any = None
    forward: int = 0
    backward: int = 0
    times: int = 0

    def load(self, inputs: Mapping[str, Tensor]) -> None:
        """Fill in the inputs of the next time."""
        torch._foreach_copy_(list(self.inputs.values()), list(inputs.values()))
        self.times += 1

    def is_to_be_checked(self) -> bool:
        """Whether this time it is held against the work itself: the first time, the second, the
        fourth, and so on. What Python computed while it was captured is still right the first time.
        """
        return self.times & (self.times - 1) == 0


class GraphCache:
    """The captured work of one slot, by key: all that decides what the work does, values aside.

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
        """What is captured for a key."""
        if key in self._usage.given_up:
            self._replays.pop(key, None)
        replay = self._replays.get(key)
        if replay is not None:
            self._replays.move_to_end(key)
        return replay

    def is_due(self, key: Hashable) -> bool:
        """Whether work that comes now should be captured; if not it runs as it is."""
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
        """Run work of this key as it is from now on, on any slot."""
        self._replays.pop(key, None)
        if key not in self._usage.given_up:
            self._usage.given_up.add(key)
            self._usage.fall_back(f"{why}; such steps run one operation at a time")


def signature(tensors: Mapping[str, Tensor]) -> tuple:
    """What of named tensors decides whether captured work fits them."""
    return tuple((name, value.shape, value.dtype) for name, value in tensors.items())


def differing(
    before: Mapping[str, Sequence[Tensor]],
    one: Mapping[str, Sequence[Tensor]],
    other: Mapping[str, Sequence[Tensor]],
    tolerance: float,
) -> list[str]:
    """The kinds of tensors in which two outcomes of one step are not the same.

    A tensor may be off by a share of what the step changed in it. Where that is next to nothing
    (a bias that is normalised away) a share of the largest change of its kind counts, and always
    the last digits.

    Args:
        before: tensors by kind, before the step.
        one: the same after the step.
        other: after the step done otherwise.
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
        # A model that diverges does so either way.
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
