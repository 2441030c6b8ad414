"""The fast executor: computes what the loop executor computes, in less time.

Images are prepared an epoch at a time, in the memory layout in which convolutions are fastest. On a
GPU several clients train at once, each on a slot of its own, and a step that comes again and again
is captured as a CUDA graph, which is launched as one operation and not as hundreds.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisyfl.data.augmentation.augment import View
from noisyfl.simulation.client_side import ClientSide, Turn, epoch_of
from noisyfl.simulation.clients import Client
from noisyfl.simulation.executor import NO_DRAWS, LoopExecutor
from noisyfl.simulation.graphs import Capture, CudaGraphs, free_unused_memory
from noisyfl.simulation.model import Networks
from noisyfl.simulation.outputs import Images, Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.slot import StreamSlot
from noisyfl.simulation.stream_slots import LARGE_IMAGE, SHOWN_AT_ONCE, STREAM_SLOTS
from noisyfl.simulation.updates import Batch, Epoch, Memory, Task, Update
from noisyfl.simulation.weights import Weights, to_device

SMALL_IMAGE = 16
"""Side, in pixels, up to which torch's own convolutions are faster on a CPU than oneDNN's."""


class FastExecutor(LoopExecutor):
    """The executor that the module describes; on a CPU it has one slot and captures nothing.

    Args:
        networks: the networks of the model, as for :class:`LoopExecutor`.
        view: how images are shown.
        slots: the largest number of slots, where several are possible; by default
            :data:`~noisyfl.simulation.stream_slots.STREAM_SLOTS` on a GPU, and one on a CPU.
        channels_last: whether images and weights are laid out channels last; by default on a GPU
            for tf32 and bfloat16, and on a CPU for all but small images.
        capturing: called for each slot, returns what captures its work, or None to capture nothing;
            by default CUDA graphs on a GPU, except for large images.
    """

    def __init__(
        self,
        networks: Networks,
        train: Images,
        test: Images,
        view: View,
        schedule: Schedule,
        seed: int,
        device: torch.device,
        slots: int | None = None,
        channels_last: bool | None = None,
        capturing: Callable[[], Capture | None] | None = None,
    ) -> None:
        super().__init__(networks, train, test, view, schedule, seed, device)
        on_gpu = device.type == "cuda"
        small = min(view.shape[:2]) <= SMALL_IMAGE
        if not on_gpu:
            # oneDNN prepares every convolution again, which takes longer than the convolution
            # itself if there are few pixels.
            torch.backends.mkldnn.enabled = not small  # type: ignore[assignment]
        large = max(view.shape[:2]) > LARGE_IMAGE
        # A step on large images takes longer than its launches, so that a graph would save no time,
        # and would need the step's memory a second time.
        self._capturing = capturing or (CudaGraphs if on_gpu and not large else None)
        if channels_last is None:
            # Tensor cores, which tf32 and bfloat16 use, read a pixel's channels together.
            channels_last = schedule.precision != "float32" if on_gpu else not small
        if channels_last:
            networks.lay_out_channels_last()
        # Clients whose steps draw from the device's only generator train one at a time.
        alone = large or draws_numbers(networks, view.shape)
        self._most_slots = 1 if alone else (slots or (STREAM_SLOTS if on_gpu else 1))
        self._slots = [self._new_slot(networks)]
        self._longest = 1

    def _new_slot(self, networks: Networks) -> StreamSlot:
        capture = self._capturing() if self._capturing else None
        return StreamSlot(networks, self.schedule, self.device, capture, self.usage)

    def facts(self) -> dict[str, Any]:
        """See :class:`LoopExecutor`."""
        return {
            **super().facts(),
            "layout": "channels_last" if self.networks.channels_last else "contiguous",
            "slots": len(self._slots),
        }

    # ---------------------------------------------------------------- training

    def local_updates(
        self, tasks: list[Task], side: ClientSide, round: int, stage: str
    ) -> list[Update]:
        """See :class:`LoopExecutor`. The host waits once for all losses."""
        pairs = self.launch(tasks, side, round, stage)
        totals = torch.stack([total for _, total in pairs]).tolist() if pairs else []
        for (update, _), total in zip(pairs, totals, strict=True):
            update.loss = total / update.steps if update.steps else math.nan
        return [update for update, _ in pairs]

    def launch(
        self, tasks: list[Task], side: ClientSide, round: int, stage: str
    ) -> list[tuple[Update, Tensor]]:
        """Launch the work of local updates on the device, without waiting for it. Each update is
        returned with the sum of its steps' losses. The slots take turns, an epoch at a time.

        Args:
            side: the client side, whose loss is minimised.
            round: counted from 0.
            stage: the method's name for the stage that the round belongs to.
        """
        count = min(len(tasks), self._most_slots)
        while len(self._slots) < count:
            self._slots.append(self._new_slot(copy.deepcopy(self.networks)))
        sizes = [len(task.client) for task in tasks]
        # Rounded up to a power of 2, so that steps with a memory by sample are captured for few
        # sizes only.
        longest = max(sizes, default=1)
        self._longest = max(self._longest, 1 << (longest - 1).bit_length())
        slots, updates = self._slots[:count], dict[int, tuple[Update, Tensor]]()
        works = [
            self._on_slot(slot, tasks, places, side, round, stage, updates)
            for slot, places in zip(slots, distribute(sizes, count), strict=True)
        ]
        for slot in slots:
            slot.open()
        while works:
            works = [work for work in works if next(work, True) is None]
        for slot in slots:
            slot.close()
        return [updates[place] for place in range(len(tasks))]

    def _on_slot(
        self,
        slot: StreamSlot,
        tasks: list[Task],
        places: list[int],
        side: ClientSide,
        round: int,
        stage: str,
        updates: dict[int, tuple[Update, Tensor]],
    ) -> Iterator[None]:
        """Launch the local updates of some of the tasks, one after the other, and put them into
        ``updates``. It yields after each epoch, so that the other slots get their work in between,
        and never waits for the device.
        """
        schedule = side.local_schedule(round, self.schedule)
        for place in places:
            task = tasks[place]
            client = task.client
            with slot.entered():
                slot.start(task, schedule, side, self._longest)
            for number in range(schedule.local_epochs):
                with slot.entered():
                    turn = self._turn(
                        slot.networks, slot.model, task, schedule, round, stage, number
                    )
                    epoch = epoch_of(side, client, turn, self.networks.fewest)
                    if epoch.fresh_momentum:
                        slot.forget_momentum()
                    self._seed(turn)
                    for batch in self._batches(client, epoch, turn, slot.memory):
                        slot.step(side, batch, epoch)
                yield
            with slot.entered():
                updates[place] = slot.finish(task, side.size(client))

    def _batches(self, client: Client, epoch: Epoch, turn: Turn, memory: Memory) -> Iterator[Batch]:
        """The batches of an epoch, whose images are prepared for many steps at once."""
        if not epoch.steps:
            return
        sizes = [len(step) for step in epoch.steps]
        index = to_device(torch.from_numpy(np.concatenate(epoch.steps)), self.device)
        rows, targets = client.rows[index], epoch.targets[index]
        extras = {name: self._all_steps(values) for name, values in epoch.extras.items()}
        rng = turn.random_stream("augmentation")
        draws = [self.view.draw(kind, sum(sizes), rng, sizes) for kind in epoch.views]
        step = 0
        most = SHOWN_AT_ONCE // (self._most_slots * math.prod(self.train.shape))
        parts = list(step_ranges(sizes, most))
        pieces = self.train.pieces(rows, [last - first for first, last in parts])
        for (first, last), pixels in zip(parts, pieces, strict=True):
            own = [drawn.part(first, last) for drawn in draws]
            shown = self._views(epoch.views, pixels, own)
            start = first
            while start < last:
                end = start + sizes[step]
                yield Batch(
                    views=tuple(images[start - first : end - first] for images in shown),
                    positions=index[start:end],
                    target=targets[start:end],
                    extras={name: values[step] for name, values in extras.items()},
                    memory=memory,
                )
                start, step = end, step + 1

    def _all_steps(self, values: list) -> list[Tensor]:
        """The extras of all steps, brought to the device at once."""
        tensors = [torch.as_tensor(value) for value in values]
        if tensors[0].ndim == 0:
            return list(to_device(torch.stack(tensors), self.device).unbind())
        sizes = [len(tensor) for tensor in tensors]
        return list(to_device(torch.cat(tensors), self.device).split(sizes))

    # ---------------------------------------------------------------- evaluation

    def _forward(self, networks: Networks, network: int, parts: Iterable[Tensor]) -> Outputs:
        if self.device.type == "cuda":
            # Clients have many different sizes, and cuDNN would try all its algorithms for each.
            torch.backends.cudnn.benchmark = False
        return super()._forward(networks, network, parts)

    def test_outputs(self, weights: Weights, network: int) -> Outputs:
        """See :class:`LoopExecutor`. The forward pass of whole batches is captured, since some
        methods test a model of every client.
        """
        if self._capturing is None:
            return super().test_outputs(weights, network)
        slot, size = self._slots[0], self.schedule.test_batch_size
        answers = []
        slot.open()
        with slot.entered():
            self.networks.load_state_dict(weights)
            self.networks.eval()
            for part in self.test.parts(size):
                shown = self._show("plain", part, NO_DRAWS)
                answers.append(
                    slot.outputs(shown, network)
                    if len(part) == size
                    else self._forward(self.networks, network, [shown])
                )
        slot.close()
        return Outputs(
            torch.cat([answer.logits for answer in answers]),
            torch.cat([answer.features for answer in answers]),
        )

    # ---------------------------------------------------------------- memory

    def use_less_memory(self, why: str) -> None:
        """See :class:`LoopExecutor`. Halves the number of clients that train at once."""
        if len(self._slots) == 1:
            super().use_less_memory(why)
        self._most_slots = len(self._slots) // 2
        self.usage.fall_back(
            f"no room for {len(self._slots)} clients at once, {self._most_slots} from now on: {why}"
        )
        networks = [slot.networks for slot in self._slots[: self._most_slots]]
        # Captured steps have memory of their own, which is freed with the slots.
        self._slots = []
        free_unused_memory(self.device)
        self._slots = [self._new_slot(each) for each in networks]


def distribute(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """The tasks of each slot, as places in ``sizes``. Tasks are assigned from the largest to the
    smallest, each to the slot with the least to do.
    """
    places: list[list[int]] = [[] for _ in range(slots)]
    load = [0] * slots
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        idlest = load.index(min(load))
        places[idlest].append(place)
        load[idlest] += sizes[place]
    return places


def step_ranges(sizes: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of samples that are prepared together: whole steps, with at most ``most``
    samples in all, unless a single step has more.
    """
    first = last = 0
    for size in sizes:
        if last > first and last + size - first > most:
            yield first, last
            first = last
        last += size
    yield first, last


def draws_numbers(networks: Networks, shape: Sequence[int]) -> bool:
    """Whether training draws random numbers, as dropout does, from the device's only generator.

    Args:
        shape: of an image: height, width, channels.
    """
    height, width, channels = shape
    device = next(networks.parameters()).device
    on_gpu = device.type == "cuda"
    state = torch.cuda.get_rng_state if on_gpu else torch.get_rng_state
    trial = copy.deepcopy(networks).train()
    with torch.random.fork_rng(devices=[device] if on_gpu else []), torch.no_grad():
        before = state()
        trial.outputs(torch.zeros(2, channels, height, width, device=device), 0, "float32")
        return not torch.equal(before, state())
