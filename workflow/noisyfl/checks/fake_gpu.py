"""A GPU that is not there: its tensors live on the CPU, and know that they would be on a GPU.

Their values are real, so that complete runs can be compared. As on a GPU, an operation on
tensors of both devices raises, and while ``torch.cuda.set_sync_debug_mode`` is ``error``, so does
one that the host would have to wait for; both name the line of noisyfl. torch's own functions are
called as they are, with their checks of arguments: it is the driver below them that is fake.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from noisyfl.checks.recorded_graphs import (
    INDEXING,
    Operations,
    RecordedGraphs,
    one_hot,
    storage,
    tensors_in,
    waits_for_values,
)

DEVICE = torch.device("cuda", 0)
DIVISIONS = {"div": torch.ops.aten.mul.Tensor, "div_": torch.ops.aten.mul_.Tensor}
"""By a number that the host knows, a GPU multiplies by the rounded reciprocal."""
COPIES = {"copy_", "_to_copy", "_foreach_copy_", "set_"}
SCALARS_REFUSED = {
    *("cat", "stack", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_"),
    *("index_select", "index_copy_", "index_add_", "mm", "bmm", "addmm", "dot"),
}
"""These do not even take a scalar of the other device."""
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
CONVOLUTIONS = {"convolution", "convolution_backward"}
NOT_NAMED = tuple(str(Path(module).parent) for module in (torch.__file__, __file__))
"""Folders of files whose lines are not to blame: torch's, and this subpackage."""
ERROR = 2
"""torch's number of the mode in which an operation that waits raises."""


class Stream:
    """In the place of ``torch.cuda.Stream``. It counts its operations, and knows up to which count
    of every other stream it has waited.
    """

    device, device_index, device_type = DEVICE, DEVICE.index, 1

    def __init__(self, number: int) -> None:
        self.stream_id = number
        self.waited: Counter[Stream] = Counter()

    def wait_stream(self, other: Stream) -> None:
        """As torch's."""
        self.waited |= other.waited


class FakeGpu(Operations):
    """The GPU, there while entered. It looks at each operation below torch's functions.

    Attributes:
        current: the stream that operations go to.
        host: up to which count of each stream's operations the host has waited.
    """

    def __init__(self) -> None:
        super().__init__()
        self.streams, self.host = [Stream(0)], Counter[Stream]()
        self.current = self.default = self.streams[0]
        self._sync_mode, self._replaying = 0, False
        self._making: bool | None = None
        self._calls = Calls(self)

    def __enter__(self) -> FakeGpu:
        self._patches = ExitStack()
        self._start_driver()
        super().__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._calls.__exit__(*error)
        super().__exit__(*error)
        self._patches.close()

    def _start_driver(self) -> None:
        properties = SimpleNamespace(total_memory=80 * 10**9)

        def put(owner: Any, name: str, value: Any) -> None:
            self._patches.enter_context(patch.object(owner, name, value, create=True))

        put(torch.cuda, "_initialized", True)
        put(torch.cuda, "default_generators", (torch.default_generator,))
        put(torch.cuda, "_get_device_properties", lambda _: properties)
        put(torch.cuda, "_cached_device_count", 1)
        put(torch.cuda, "_exchange_device", lambda _: DEVICE.index)
        put(torch.cuda, "_maybe_exchange_device", lambda _: DEVICE.index)
        put(torch.cuda, "Stream", self._stream)
        answers = {
            "getDeviceCount": lambda: 1,
            "getDevice": lambda: DEVICE.index,
            "getDefaultStream": lambda _: (0, DEVICE.index, Stream.device_type),
            "getCurrentStream": lambda _: (self.current.stream_id, DEVICE.index, 1),
            "setStream": self._set_stream,
            "getMemoryFraction": lambda _: 1.0,
            "memoryStats": lambda _: {},
            "emptyCache": lambda: None,
            "synchronize": lambda: self.wait("synchronize"),
            "set_sync_debug_mode": lambda mode: setattr(self, "_sync_mode", mode),
            "get_sync_debug_mode": lambda: self._sync_mode,
        }
        for name, answer in answers.items():
            put(torch._C, f"_cuda_{name}", answer)

    def _stream(
        self, device: Any = None, priority: int = 0, stream_id: int | None = None, **_: Any
    ) -> Stream:
        if stream_id is None:
            self.streams.append(Stream(len(self.streams)))
        return self.streams[-1 if stream_id is None else stream_id]

    def _set_stream(self, stream_id: int, **_: Any) -> None:
        self.current = self.streams[stream_id]

    def graphs(self) -> Callable[[Callable[[], Any]], Callable[[], None]]:
        """What captures work on this GPU: a recorder whose replays are not looked at again."""
        record = RecordedGraphs()

        def capture(work: Callable[[], Any]) -> Callable[[], None]:
            again = record(work)

            def replay() -> None:
                self._replaying = True
                try:
                    with torch._C.DisableTorchFunction():
                        again()
                finally:
                    self._replaying = False

            return replay

        return capture

    @contextmanager
    def making(self, on_gpu: bool | None) -> Iterator[None]:
        """Context manager: tensors that are made within are on the GPU, or are not."""
        before, self._making = self._making, on_gpu
        try:
            yield
        finally:
            self._making = before

    def wait(self, what: str) -> None:
        """The host waits for the stream."""
        if self._sync_mode == ERROR:
            raise RuntimeError(
                f"called a synchronizing CUDA operation: {what} at {innermost_line()}"
            )
        self.host |= self.current.waited

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return self._do(func, args, kwargs or {})

    def _do(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self._replaying:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        given = tensors_in((args, kwargs))
        there = [*map(is_on_gpu, given)]
        if any(there):
            self._check(name, given, there, args, kwargs)
            args = _in_tf32(name, args)
            if name in DIVISIONS and not kwargs and _divides_by_known(*args):
                value, by = args
                func, args = DIVISIONS[name], (value, 1 / torch.as_tensor(by, dtype=value.dtype))
        outputs = func(*args, **kwargs)
        known = set(map(storage, given))
        on_gpu = any(there) if self._making is None else self._making
        for made in tensors_in(outputs):
            if storage(made) not in known:
                made.untyped_storage().on_gpu = on_gpu  # type: ignore[attr-defined]
        return outputs

    def _check(
        self, name: str, given: list[Tensor], there: list[bool], args: Any, kwargs: Any
    ) -> None:
        if name in COPIES:
            blocking = name != "set_" and not (kwargs.get("non_blocking") or True in args[2:])
            if not all(there) and blocking:
                self.wait(name)
        elif name in INDEXING and there[0] and not all(there):
            if not all(map(is_on_gpu, tensors_in(args[1]))):
                self.wait(f"{name} by places on the host")
            _refuse_beside(name, given[-1:] if name != "index" else [])
        else:
            _refuse_beside(name, [each for each, on in zip(given, there, strict=True) if not on])
            if name[-1] == "_" and not there[0]:
                _refuse(name)
        if waits_for_values(name, args):
            self.wait(name)


class Calls(TorchFunctionMode):
    """Calls that name a device, or ask for it; no operation below them would know of a GPU."""

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        found = ANSWERS.get(getattr(func, "__self__", None) if _is_getter(func) else func)
        if found is not None:
            return found(self.gpu, *args, **kwargs)
        kwargs.pop("pin_memory", None)
        device = kwargs.pop("device", None)
        if device is None:
            # Beside a tensor of the GPU, what torch makes for itself is there too.
            any_there = any(map(is_on_gpu, tensors_in((args, kwargs))))
            with self.gpu.making(any_there or None):
                return func(*args, **kwargs)
        if func in (torch.tensor, torch.as_tensor):
            return _to(self.gpu, func(*args, **kwargs), device)
        with self.gpu.making(torch.device(device).type == "cuda"):
            return func(*args, device="cpu", **kwargs)


def _to(gpu: FakeGpu, tensor: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """As ``Tensor.to``."""
    device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
    kept: Any = {} if layout is None else {"memory_format": layout}
    dtype = dtype or tensor.dtype
    here = is_on_gpu(tensor)
    there = here if device is None else device.type == "cuda"
    if args and torch.is_tensor(args[0]):
        there = is_on_gpu(args[0])
    if here == there:
        return tensor.to(dtype, copy=copy, **kept)
    if not non_blocking:
        gpu.wait("a copy from one device to the other")
    with gpu.making(there):
        return tensor.to(dtype, copy=True, **kept)


def _new_tensor(gpu: FakeGpu, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return _to(gpu, tensor.new_tensor(*args, **kwargs), "cuda" if is_on_gpu(tensor) else "cpu")


def _of_host(tensor: Tensor) -> Any:
    """The tensor, if numpy can read it."""
    if is_on_gpu(tensor):
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy at {innermost_line()}")
    return tensor


ANSWERS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.device: lambda gpu, tensor: DEVICE if is_on_gpu(tensor) else torch.device("cpu"),
    torch.Tensor.is_cuda: lambda gpu, tensor: is_on_gpu(tensor),
    torch.Tensor.to: _to,
    torch.Tensor.cpu: lambda gpu, tensor: _to(gpu, tensor, "cpu"),
    torch.Tensor.cuda: lambda gpu, tensor, device="cuda": _to(gpu, tensor, device),
    torch.Tensor.new_tensor: _new_tensor,
    torch.Tensor.tolist: lambda gpu, tensor: _to(gpu, tensor, "cpu").tolist(),
    torch.Tensor.numpy: lambda gpu, tensor, **how: _of_host(tensor).numpy(**how),
    torch.Tensor.__array__: lambda gpu, tensor, *dtype, **how: _of_host(tensor).__array__(
        *dtype, **how
    ),
    torch.Tensor.__deepcopy__: lambda gpu, tensor, memo: tensor.detach().clone(),
    torch.Tensor.pin_memory: lambda gpu, tensor: tensor.clone(),
    functional.one_hot: lambda gpu, *args: one_hot(*args),
}


def _is_getter(func: Any) -> bool:
    return getattr(func, "__name__", "") == "__get__"


def is_on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on the fake GPU."""
    return getattr(tensor.untyped_storage(), "on_gpu", False)


def _refuse_beside(name: str, tensors: list[Tensor]) -> None:
    """Raise if tensors of the CPU may not be combined with those of the GPU."""
    if any(each.ndim or name in SCALARS_REFUSED for each in tensors if not is_on_gpu(each)):
        _refuse(name)


def _refuse(name: str) -> None:
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found {DEVICE} and cpu: {name} at "
        f"{innermost_line()}"
    )


def _in_tf32(name: str, args: Any) -> Any:
    """The factors of a product, rounded as tensor cores do where they may."""
    matrices = name in PRODUCTS and torch.backends.cuda.matmul.allow_tf32
    if matrices or (name in CONVOLUTIONS and torch.backends.cudnn.allow_tf32):
        return tree_map(_rounded, args)
    return args


def _divides_by_known(value: Tensor, by: Any) -> bool:
    """Whether floats are divided by a number that the host knows."""
    known = not torch.is_tensor(by) or (not by.ndim and not is_on_gpu(by))
    return known and torch.is_tensor(value) and value.is_floating_point()


def _rounded(value: Any) -> Any:
    if not torch.is_tensor(value) or value.dtype != torch.float32:
        return value
    return ((value.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def innermost_line() -> str:
    """The innermost line of what is neither torch's nor part of this GPU."""
    watching = (sys.modules[each.__module__].__file__ for each in Operations.__subclasses__())
    skipped = (*NOT_NAMED, *map(str, watching))
    frame: Any = sys._getframe()
    while frame and frame.f_code.co_filename.startswith(skipped):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "no line"
