"""What would race on the streams of a GPU, where operations are done in no order but that in which
streams wait for each other.

An operation races where it reads what another stream may still be writing, writes what another one
may still be using, or is given memory that was freed while another one may still be using it.
"""

from collections import defaultdict

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from noisyfl.checks.fake_gpu import innermost_line, is_on_gpu
from noisyfl.checks.recorded_graphs import Operations, storage, tensors_in, written


class Race(AssertionError):
    """An operation does not wait for what it needs."""


class Streams(Operations):
    """Raises at a race while entered, on a :class:`FakeGpu` that is entered before."""

    def __init__(self, gpu):
        super().__init__()
        self.gpu = gpu
        self._blocks = {}
        self._shared, self._freed = defaultdict(set), defaultdict(list)  # by the stream that owns

    def _knows(self, stream, other, tick):
        return other is stream or max(stream.waited[other], self.gpu.host[other]) >= tick

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, stream = kwargs or {}, self.gpu.current
        outputs = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            read, made = tensors_in((args, kwargs)), tensors_in(outputs)
            if any(map(is_on_gpu, [*read, *made])):
                self._look(func, args, kwargs, read, made, stream)
        return outputs

    def _look(self, func, args, kwargs, read, made, stream):
        name = func._schema.name.removeprefix("aten::")
        stream.waited[stream] += 1
        tick = stream.waited[stream]
        given = set(map(storage, read))
        fresh = [each for each in made if storage(each) not in given]
        writes = set(map(storage, written(func, name, args, kwargs)))
        if fresh or writes or not made:
            for tensor in filter(is_on_gpu, read):
                self._use(tensor, stream, tick, storage(tensor) in writes, name)
        for tensor in fresh:
            self._allocate(tensor, stream, tick, name)

    def _use(self, tensor, stream, tick, writes, name):
        held = storage(tensor)
        block = self._blocks.get(held)
        if block is None or block["alive"].expired():
            block = self._block(tensor, self.gpu.default)
        writer = block["written"]
        if writer and not self._knows(stream, *writer):
            self._race(f"{name} reads what another stream may still be writing")
        if writes:
            if not all(self._knows(stream, *use) for use in block["uses"].items()):
                self._race(f"{name} writes what another stream may still be using")
            block["written"] = stream, tick
        block["uses"][stream] = tick
        if stream is not block["owner"]:
            self._shared[block["owner"]].add(held)

    def _race(self, words):
        raise Race(f"{words}, at {innermost_line()}")

    def _allocate(self, tensor, stream, tick, name):
        shared = self._shared[stream]
        for held in [each for each in shared if self._blocks[each]["alive"].expired()]:
            self._free(held)
        for uses in self._freed.pop(stream, ()):
            if not all(self._knows(stream, *use) for use in uses.items()):
                self._race(f"{name} is given memory that another stream may still be using")
        block = self._block(tensor, stream)
        block["written"], block["uses"] = (stream, tick), {stream: tick}

    def _block(self, tensor, owner):
        held = storage(tensor)
        self._free(held)
        alive = StorageWeakRef(tensor.untyped_storage())
        block = {"alive": alive, "owner": owner, "written": None, "uses": {}}
        self._blocks[held] = block
        return block

    def _free(self, held):
        """What one stream alone has used may be given to it again as soon as it is freed."""
        block = self._blocks.pop(held, None)
        if block and held in self._shared[block["owner"]]:
            self._shared[block["owner"]].remove(held)
            self._freed[block["owner"]].append(block["uses"])
