"""CUDA graphs on a CPU: a capture records operations and undoes them, a replay repeats those alone.

A replay runs on the recorded tensors, and no Python of the work. What a real capture rejects (the
host reading a tensor, a size that depends on values) raises here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

READ = {
    *("_local_scalar_dense", "equal", "is_nonzero", "allclose"),
    *("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount"),
}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
NORMALIZING = {"native_batch_norm", "cudnn_batch_norm"}
"""These write their running statistics, though they do not declare it."""
NESTED = (list, tuple, dict)


class RecordedGraphs:
    """In the place of :class:`noisyfl.simulation.graphs.CudaGraphs`."""

    def __call__(self, work: Callable[[], Any]) -> Callable[[], None]:
        """What repeats the work that was captured."""
        recorder = Recorder()
        dice = torch.get_rng_state()
        try:
            with OneHot(), recorder:
                work()
        finally:
            recorder.undo()
            torch.set_rng_state(dice)
        return recorder.again


class Operations(TorchDispatchMode):
    """A base of what looks at operations, without torch's compiler: its import takes seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Recorder(Operations):
    """Notes operations, and what the tensors that they write held before."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, ...]] = []
        self.fresh: set[int] = set()
        self.before: dict[int, tuple[Tensor, Tensor]] = {}
        self.alive: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if waits_for_values(name, args):
            reason = "operation not permitted when stream is capturing"
            raise RuntimeError(f"CUDA error: {reason} ({name})")
        for tensor in written(func, name, args, kwargs):
            held = storage(tensor)
            if held not in self.fresh and held not in self.before:
                whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                self.before[held] = whole, whole.clone()
        given = set(map(storage, tensors_in((args, kwargs))))
        outputs = func(*args, **kwargs)
        results = [
            out.detach() if torch.is_tensor(out) and storage(out) not in given else None
            for out in flattened(outputs)
        ]
        self.fresh |= {storage(result) for result in results if result is not None}
        # A storage that is freed would lend its address to another storage.
        self.alive.append(outputs)
        if func._schema.is_mutable or any(result is not None for result in results):
            self.operations.append((func, *tree_map(_detached, (args, kwargs)), results))
        return outputs

    def undo(self) -> None:
        """Give back to all tensors what they held before."""
        for whole, before in self.before.values():
            whole.copy_(before)

    @torch.no_grad()
    def again(self) -> None:
        """Repeat the operations on the tensors that they were recorded with."""
        for func, args, kwargs, results in self.operations:
            outputs = flattened(func(*args, **kwargs))
            for output, result in zip(outputs, results, strict=True):
                if result is not None:
                    result.copy_(output)


class OneHot(TorchFunctionMode):
    """On a CPU, and only there, ``one_hot`` reads its input to check it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (functional.one_hot, torch._C._nn.one_hot):
            return one_hot(*args)
        return func(*args, **kwargs)


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """As torch's, without a look at the labels."""
    return labels.new_zeros((*labels.shape, classes)).scatter_(-1, labels[..., None], 1)


def waits_for_values(name: str, args: Any) -> bool:
    """Whether the host has to know the outcome of an operation before it goes on."""
    masks = name in INDEXING and any(
        index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    )
    repeats = name == "repeat_interleave" and torch.is_tensor(args[0])
    return name in READ or masks or repeats


def written(func: Any, name: str, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The tensors that an operation writes to.

    Args:
        name: of it, without its namespace.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    schema = func._schema.arguments
    values = [*zip(schema, args, strict=False)]
    values += [(each, kwargs[each.name]) for each in schema if each.name in kwargs]
    for declared, value in values:
        if declared.alias_info is not None and declared.alias_info.is_write:
            yield from tensors_in(value)
    if name in NORMALIZING and args[5]:
        yield from tensors_in(args[3:5])


def tensors_in(values: Any) -> list[Tensor]:
    """All tensors in lists, tuples and dictionaries, in order."""
    if isinstance(values, Tensor):
        return [values]
    found: list[Tensor] = []
    if isinstance(values, NESTED):
        for value in values.values() if isinstance(values, dict) else values:
            if isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, NESTED):
                found += tensors_in(value)
    return found


def flattened(values: Any) -> list[Any]:
    """All that is in lists, tuples and dictionaries, in order."""
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return [values]
    return [leaf for value in values for leaf in flattened(value)]


def storage(tensor: Tensor) -> int:
    """What names the memory that a tensor is in."""
    return tensor.untyped_storage()._cdata


def _detached(value: Any) -> Any:
    return value.detach() if torch.is_tensor(value) else value
