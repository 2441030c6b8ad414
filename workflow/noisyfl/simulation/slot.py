"""A stream slot: clients train in it one after the other, on a stream of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.graphs import (
    TOLERANCES,
    Capture,
    GraphCache,
    Replay,
    Work,
    differing,
    signature,
)
from noisyfl.simulation.model import LocalModel, Networks
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Epoch, Memory, Task, Update
from noisyfl.simulation.usage import Usage


class StreamSlot:
    """Networks and buffers that stay in the same place in memory, so that steps on them can be
    captured.

    Args:
        networks: what this slot trains.
        capture: what captures work; None if nothing is captured.
        usage: of the executor; all slots write to it.
    """

    def __init__(
        self,
        networks: Networks,
        schedule: Schedule,
        device: torch.device,
        capture: Capture | None,
        usage: Usage,
    ) -> None:
        self.networks = networks
        self._device = device
        self.memory: Memory = {}
        weights = {name: value.clone() for name, value in networks.state_dict().items()}
        self.model = LocalModel(networks, weights, schedule.precision)
        first = next(iter(weights.values()))
        rate = first.new_zeros(()) if capture else None
        self._optimizer = Optimizer(self.model.weights, schedule, rate)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._capture = capture
        self._usage = usage
        self._graphs = GraphCache(usage)
        self._precision = schedule.precision
        self._full = schedule.batch_size
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._steps = 0
        self._memories: dict[Hashable, Memory] = {}
        self._by_sample: tuple[str, ...] = ()

    # ---------------------------------------------------------------- the stream

    def open(self) -> None:
        """Begin a round's work, which waits for all earlier work on the default stream."""
        if self._stream:
            self._stream.wait_stream(torch.cuda.default_stream(self._device))

    def close(self) -> None:
        """End a round's work: all later work on the default stream waits for it."""
        if self._stream:
            torch.cuda.default_stream(self._device).wait_stream(self._stream)

    def entered(self) -> AbstractContextManager[Any]:
        """Operations within go to this slot's stream."""
        return torch.cuda.stream(self._stream) if self._stream else nullcontext()

    @contextmanager
    def _on_default_stream(self) -> Iterator[None]:
        """Context manager: operations within go to the default stream, after the slot's earlier
        ones and before its next ones.

        It is for temporary tensors. torch reuses freed memory only on the stream that allocated it,
        so that on the default stream all slots share the same memory by turns.
        """
        if not self._stream:
            yield
            return
        self.close()
        with torch.cuda.stream(torch.cuda.default_stream(self._device)):
            yield
        self.open()

    # ---------------------------------------------------------------- a local update

    def start(self, task: Task, schedule: Schedule, side: ClientSide, longest: int) -> None:
        """Begin a local update.

        Args:
            longest: the number of samples that entries of the memory by sample are made for; at
                least the client's.
        """
        self.networks.load_state_dict(task.weights)
        self.networks.train()
        self.model.receive(task.weights)
        self._optimizer.reset(schedule)
        self._by_sample = side.by_sample
        self._remember(task.memory, longest)
        self._loss.zero_()
        self._steps = self.model.forward = self.model.backward = 0

    def _remember(self, memory: Memory, longest: int) -> None:
        """Copy a memory to the tensors that captured steps use for its names, shapes and dtypes."""
        shapes = {
            name: (longest, *value.shape[1:]) if name in self._by_sample else tuple(value.shape)
            for name, value in memory.items()
        }
        kind = tuple((name, shape, memory[name].dtype) for name, shape in shapes.items())
        if kind not in self._memories:
            self._memories[kind] = {
                name: torch.zeros(shape, dtype=memory[name].dtype, device=self._device)
                for name, shape in shapes.items()
            }
        # A copy, as a loss may put other tensors into it.
        self.memory = dict(self._memories[kind])
        for name, value in memory.items():
            # What a method keeps on the host is fetched while the host goes on.
            self._client_part(name, value).copy_(value, non_blocking=True)

    def _client_part(self, name: str, like: Tensor) -> Tensor:
        """The part of an entry of the memory that belongs to the client, without the entry's extra
        length.
        """
        held = self.memory[name]
        return held[: len(like)] if name in self._by_sample else held

    def forget_momentum(self) -> None:
        """Reset the optimizer: no momentum or moments."""
        self._optimizer.reset(self._optimizer.schedule)

    def finish(self, task: Task, size: float) -> tuple[Update, Tensor]:
        """End a local update without waiting for the device. The training loss, summed over all
        steps, is returned beside the update, as a tensor on the device.
        """
        update = Update(
            client=task.client,
            weights={name: value.clone() for name, value in self.networks.state_dict().items()},
            memory={
                name: self._client_part(name, value).clone() for name, value in task.memory.items()
            },
            size=size,
            steps=self._steps,
            loss=float("nan"),
            forward=self.model.forward,
            backward=self.model.backward,
        )
        return update, self._loss.clone()

    # ---------------------------------------------------------------- steps

    def step(self, side: ClientSide, batch: Batch, epoch: Epoch) -> None:
        """Make a step of an epoch, by a replay of captured work where there is one.

        Args:
            side: the client side, whose loss is minimised.
        """
        self._steps += 1
        learns = epoch.learns
        if self._capture is None or not epoch.repeatable:
            self._step_as_it_is(side, batch, learns)
            return
        inputs = _tensors(batch)
        key = (side, self._optimizer.reads, learns, signature(inputs), signature(self.memory))
        replay = self._graphs.find(key)
        if replay is None and self._graphs.is_due(key):
            replay = self._captured_step(self._capture, key, side, batch, learns)
        if replay is None:
            self._step_as_it_is(side, batch, learns)
            return
        replay.load(inputs)
        if self._graphs.is_to_be_checked(key):
            self._check(replay, key, side, batch, learns)
            return
        replay.again()
        self.model.forward += replay.forward
        self.model.backward += replay.backward
        self._usage.captured += 1

    def _step_as_it_is(self, side: ClientSide, batch: Batch, learns: str | tuple[str, ...]) -> None:
        self._usage.eager += 1
        self._descend(side, batch, learns)

    def _descend(self, side: ClientSide, batch: Batch, learns: str | tuple[str, ...]) -> None:
        self._tune(len(batch.positions) == self._full)
        loss = side.loss(self.model, batch)
        self._optimizer.step(loss, learns)
        self._loss += loss.detach()

    def _tune(self, often: bool) -> None:
        """Let cuDNN try all its algorithms for batch sizes that come often; for others, the trial
        takes longer than the best algorithm saves.
        """
        if self._stream:
            torch.backends.cudnn.benchmark = often

    def _captured_step(
        self,
        capture: Capture,
        key: Hashable,
        side: ClientSide,
        batch: Batch,
        learns: str | tuple[str, ...],
    ) -> Replay | None:
        """Capture a step on copies of the batch's tensors, which later steps fill again."""
        held = Batch(
            views=tuple(view.clone() for view in batch.views),
            positions=batch.positions.clone(),
            target=batch.target.clone(),
            extras={name: value.clone() for name, value in batch.extras.items()},
            memory=dict(self.memory),
        )
        model, inputs = self.model, _tensors(held)
        before = model.forward, model.backward
        replay = self._captured(
            capture, key, _words(side, batch), inputs, lambda: self._descend(side, held, learns)
        )
        if replay is not None:
            replay.forward, replay.backward = model.forward - before[0], model.backward - before[1]
        model.forward, model.backward = before
        return replay

    def _captured(
        self, capture: Capture, key: Hashable, words: str, inputs: dict[str, Tensor], work: Work
    ) -> Replay | None:
        """Capture work on inputs that stay in place; None if that fails, which is reported."""
        try:
            replay = Replay(inputs, capture(work))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # The end of a broken capture fails too; the first error says why.
            first = error.__context__ if isinstance(error.__context__, RuntimeError) else error
            reason = str(first).partition("\n")[0]
            self._graphs.give_up(key, f"{words} cannot be captured as a CUDA graph ({reason})")
            return None
        self._graphs.add(key, replay)
        return replay

    def _check(
        self,
        replay: Replay,
        key: Hashable,
        side: ClientSide,
        batch: Batch,
        learns: str | tuple[str, ...],
    ) -> None:
        """Make a step from the same start one operation at a time, and twice as a replay. If the
        outcomes differ, keep that of the former, and stop replaying such steps.
        """
        held, dice = dict(self.memory), self._random_state()
        with self._on_default_stream():
            before = _copied(self._mutable_tensors())
        self._descend(side, batch, learns)
        with self._on_default_stream():
            right = _copied(self._mutable_tensors())
            # The loss may have replaced tensors of the memory; a replay uses those that it was
            # captured with.
            self.memory.update(held)
            _restore(self._mutable_tensors(), before)
        self._set_random_state(dice)
        replay.again()
        with self._on_default_stream():
            first = _copied(self._mutable_tensors())
            _restore(self._mutable_tensors(), before)
        self._set_random_state(dice)
        replay.again()
        with self._on_default_stream():
            second = self._mutable_tensors()
            wrong = differing(before, right, first, second, TOLERANCES[self._precision])
            if wrong:
                _restore(self._mutable_tensors(), right)
        if wrong:
            self._usage.eager += 1
            self._graphs.give_up(
                key,
                f"the replay of {_words(side, batch)} ends with other {' and '.join(wrong)} than "
                "the work itself",
            )
        else:
            self._usage.captured += 1

    def _mutable_tensors(self) -> dict[str, list[Tensor]]:
        """All that a step may change, by kind."""
        return {
            "weights": list(self.model.weights.values()),
            **{name: list(kept.values()) for name, kept in self._optimizer.state.items()},
            "buffers": list(self.networks.buffers()),
            "memory": list(self.memory.values()),
            "loss": [self._loss],
        }

    def _random_state(self) -> Tensor:
        """The state of the generator that dropout draws from."""
        return torch.cuda.get_rng_state(self._device) if self._stream else torch.get_rng_state()

    def _set_random_state(self, state: Tensor) -> None:
        if self._stream:
            torch.cuda.set_rng_state(state, self._device)
        else:
            torch.set_rng_state(state)

    # ---------------------------------------------------------------- evaluation

    @torch.no_grad()
    def outputs(self, images: Tensor, network: int) -> Outputs:
        """A network's outputs, in evaluation mode, on a batch of images; its forward pass is
        captured, since batches of this size come often.
        """
        self._tune(True)

        def work(images: Tensor) -> Outputs:
            return self.networks.outputs(images, network, self._precision)

        key = ("outputs", network, images.shape, images.dtype)
        words = f"a test of {_shape(images)} images"
        replay = self._graphs.find(key)
        if replay is None and self._capture is not None and self._graphs.is_due(key):
            held = images.clone()
            results: list[Outputs] = []
            replay = self._captured(
                self._capture, key, words, {"images": held}, lambda: results.append(work(held))
            )
            if replay is not None:
                replay.result = results[0]
        if replay is None:
            return work(images)
        replay.load({"images": images})
        replay.again()
        answer = Outputs(replay.result.logits.clone(), replay.result.features.clone())
        if not self._graphs.is_to_be_checked(key):
            return answer
        right = work(images)
        nothing = Outputs(torch.zeros_like(right.logits), torch.zeros_like(right.features))
        zero, one, other = (
            {kind: [value] for kind, value in vars(each).items()}
            for each in (nothing, right, answer)
        )
        wrong = differing(zero, one, other, other, TOLERANCES[self._precision])
        if wrong:
            self._graphs.give_up(key, f"the replay of {words} gives other {' and '.join(wrong)}")
        return right


def _tensors(batch: Batch) -> dict[str, Tensor]:
    views = {f"view {number}": view for number, view in enumerate(batch.views)}
    extras = {f"extra {name}": value for name, value in batch.extras.items()}
    return {**views, "positions": batch.positions, "target": batch.target, **extras}


def _words(side: ClientSide, batch: Batch) -> str:
    name = getattr(side, "name", type(side).__name__)
    return f"a step of {name} on {_shape(batch.images)} images"


def _shape(images: Tensor) -> str:
    return "x".join(map(str, images.shape))


def _copied(tensors: Mapping[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    return {kind: [value.detach().clone() for value in values] for kind, values in tensors.items()}


@torch.no_grad()
def _restore(tensors: Mapping[str, list[Tensor]], copies: Mapping[str, list[Tensor]]) -> None:
    for kind, values in tensors.items():
        if values:
            torch._foreach_copy_(values, copies[kind])
