"""Executors do the heavy work of a round, for methods that never call a network by themselves.

``LoopExecutor`` is the plain one, the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisyfl.core.randomness import stream
from noisyfl.data.augmentation.augment import Draws, View
from noisyfl.simulation.client_side import ClientSide, Turn, epoch_of
from noisyfl.simulation.clients import Client
from noisyfl.simulation.model import LocalModel, Networks
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.outputs import Images, Outputs, Pass
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Epoch, Memory, Task, Update
from noisyfl.simulation.usage import Usage
from noisyfl.simulation.weights import Weights

NO_DRAWS = Draws(np.zeros((0, 0)), np.zeros((0, 0)))
"""The draws of a plain view, which needs no random numbers."""


class NoRoom(RuntimeError):
    """The device has too little memory even for the smallest amount of work at a time."""


class LoopExecutor:
    """One client after the other, one batch after the other."""

    def __init__(
        self,
        networks: Networks,
        train: Images,
        test: Images,
        view: View,
        schedule: Schedule,
        seed: int,
        device: torch.device,
    ) -> None:
        self.networks = networks
        self.train = train
        self.test = test
        self.view = view
        self.schedule = schedule
        self.seed = seed
        self.device = device
        self.usage = Usage()
        # By default torch rounds to TF32 in convolutions, and only there.
        tf32 = schedule.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32

    def facts(self) -> dict[str, Any]:
        """How the run is computed, for its provenance."""
        return {
            "precision": self.schedule.precision,
            "layout": "contiguous",
            "slots": 1,
            "captured_steps": self.usage.captured,
            "eager_steps": self.usage.eager,
            "fallbacks": list(self.usage.fallbacks),
        }

    def use_less_memory(self, why: str) -> None:
        """Prepare to repeat, with less memory, the work that the device had too little memory for.

        Raises:
            NoRoom: memory use cannot be reduced further.
        """
        raise NoRoom(f"no room on the device for one client at a time: {why}")

    def local_updates(
        self, tasks: list[Task], side: ClientSide, round: int, stage: str
    ) -> list[Update]:
        """The local updates of a round, in the order of the tasks."""
        return [self._local_update(task, side, round, stage) for task in tasks]

    def _local_update(self, task: Task, side: ClientSide, round: int, stage: str) -> Update:
        client = task.client
        self.networks.load_state_dict(task.weights)
        self.networks.train()
        model = LocalModel(self.networks, task.weights, self.schedule.precision)
        schedule = side.local_schedule(round, self.schedule)
        optimizer = Optimizer(model.weights, schedule)
        memory = {name: value.to(self.device, copy=True) for name, value in task.memory.items()}
        losses = []
        for number in range(schedule.local_epochs):
            turn = self._turn(self.networks, model, task, schedule, round, stage, number)
            epoch = epoch_of(side, client, turn, self.networks.fewest)
            if epoch.fresh_momentum:
                optimizer.reset(schedule)
            self._seed(turn)
            for batch in self._batches(client, epoch, turn, memory):
                loss = side.loss(model, batch)
                optimizer.step(loss, epoch.learns)
                losses.append(loss.detach())
        self.usage.eager += len(losses)
        return Update(
            client=client,
            weights={name: value.clone() for name, value in self.networks.state_dict().items()},
            memory=memory,
            size=side.size(client),
            steps=len(losses),
            loss=float(torch.stack(losses).mean()) if losses else float("nan"),
            forward=model.forward,
            backward=model.backward,
        )

    def _turn(
        self,
        networks: Networks,
        model: LocalModel,
        task: Task,
        schedule: Schedule,
        round: int,
        stage: str,
        number: int,
    ) -> Turn:
        client = task.client

        def outputs(purpose: str, network: int, view: str) -> Outputs:
            rng = turn.random_stream(purpose)
            model.forward += len(client)
            networks.eval()
            answer = self._outputs(networks, network, client, view, rng)
            networks.train()
            return answer

        size = schedule.batch_size
        turn = Turn(self.seed, round, stage, client.id, number, size, outputs, task.repeat)
        return turn

    def _seed(self, turn: Turn) -> None:
        """Seed torch's own generators; ``torch.manual_seed`` would format the stack for every kind
        of device that there is not.
        """
        seed = turn.torch_seed("dropout")
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed_all(seed)

    def _batches(self, client: Client, epoch: Epoch, turn: Turn, memory: Memory) -> Iterator[Batch]:
        if not epoch.steps:
            return
        sizes = [len(step) for step in epoch.steps]
        rng = turn.random_stream("augmentation")
        draws = [self.view.draw(kind, sum(sizes), rng, sizes) for kind in epoch.views]
        positions = torch.from_numpy(np.concatenate(epoch.steps)).to(self.device)
        indices = positions.split(sizes)
        pieces = self.train.pieces(client.rows[positions], sizes)
        ends = np.cumsum(sizes)
        for step, (index, pixels, end) in enumerate(zip(indices, pieces, ends, strict=True)):
            own = [drawn.part(end - len(index), end) for drawn in draws]
            views = tuple(self._views(epoch.views, pixels, own))
            yield Batch(views, index, epoch.targets[index], self._extras(epoch, step), memory)

    def _views(self, kinds: Sequence[str], pixels: Tensor, draws: Sequence[Draws]) -> list[Tensor]:
        """The views of some images; those that are sure to be equal are one tensor."""
        shown: list[Tensor] = []
        for number, (kind, drawn) in enumerate(zip(kinds, draws, strict=True)):
            first = kinds.index(kind)
            equal = first < number and self.view.is_fixed(kind)
            shown.append(shown[first] if equal else self._show(kind, pixels, drawn))
        return shown

    def _show(self, kind: str, pixels: Tensor, draws: Draws) -> Tensor:
        """The images of a view, in the networks' dtype."""
        return self.view.show(kind, pixels, draws).to(next(self.networks.parameters()).dtype)

    def _extras(self, epoch: Epoch, step: int) -> dict[str, Tensor]:
        return {
            name: torch.as_tensor(values[step], device=self.device)
            for name, values in epoch.extras.items()
        }

    def _outputs(
        self,
        networks: Networks,
        network: int,
        client: Client,
        kind: str,
        rng: np.random.Generator,
    ) -> Outputs:
        """A network's outputs on all samples of a client."""
        draws = self.view.draw(kind, len(client), rng)
        size = self.schedule.pass_batch_size
        return self._forward(
            networks,
            network,
            (
                self._show(kind, pixels, draws.part(start, start + size))
                for start, pixels in zip(
                    range(0, len(client), size), self.train.pieces(client.rows, size), strict=True
                )
            ),
        )

    @torch.no_grad()
    def _forward(self, networks: Networks, network: int, parts: Iterable[Tensor]) -> Outputs:
        precision = self.schedule.precision
        outputs = [networks.outputs(part, network, precision) for part in parts]
        return Outputs(
            torch.cat([part.logits for part in outputs]),
            torch.cat([part.features for part in outputs]),
        )

    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """The outputs of each request."""
        self.networks.eval()
        answers = []
        for request in requests:
            self.networks.load_state_dict(request.weights)
            rng = stream(self.seed, request.purpose, round, request.client.id)
            answers.append(
                self._outputs(self.networks, request.network, request.client, request.view, rng)
            )
        return answers

    def test_outputs(self, weights: Weights, network: int) -> Outputs:
        """The outputs of one of a model's networks on the test part."""
        self.networks.load_state_dict(weights)
        self.networks.eval()
        parts = self.test.parts(self.schedule.test_batch_size)
        return self._forward(
            self.networks, network, (self._show("plain", part, NO_DRAWS) for part in parts)
        )

    def outputs_of(self, images: Tensor, weights: Weights, network: int) -> Outputs:
        """The outputs of one of a model's networks on images that are in no part of the dataset,
        but come from the method: normalised, float [n, channels, height, width].
        """
        self.networks.load_state_dict(weights)
        self.networks.eval()
        images = images.to(self.device, next(self.networks.parameters()).dtype)
        return self._forward(self.networks, network, images.split(self.schedule.pass_batch_size))
