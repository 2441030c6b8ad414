"""Executors do the heavy work of a round. ``LoopExecutor`` is the plain one, the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from noisyfl.data import augment
from noisyfl.randomness import stream, torch_seed
from noisyfl.schedule import Schedule
from noisyfl.simulation.client_side import ClientSide, Turn
from noisyfl.simulation.local import (
    Batch,
    Client,
    Epoch,
    Network,
    Outputs,
    Pass,
    Update,
    Weights,
)
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.sgd import SGD


class Executor(Protocol):
    """Trains clients and runs models for a method that never calls a network itself."""

    device: torch.device

    def local_updates(
        self, clients: list[Client], received: Weights, side: ClientSide, round: int, stage: str
    ) -> list[Update]:
        """The local updates of a round's participants, each from ``received``."""

    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """The outputs of each request, on the augmented view that training would see."""

    def evaluate(self, weights: Weights) -> dict[str, float]:
        """``test_accuracy`` (a share) and ``test_loss`` on the test part."""


class Images:
    """A part of a dataset on the device: uint8 [n, channels, height, width], and its labels."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, device: torch.device) -> None:
        self.pixels = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).contiguous()
        self.labels = torch.from_numpy(labels).to(device)


class LoopExecutor:
    """One client after the other, one batch after the other."""

    def __init__(
        self,
        module: nn.Module,
        train: Images,
        test: Images,
        view: augment.View,
        schedule: Schedule,
        seed: int,
        device: torch.device,
    ) -> None:
        self.module = module
        self._features = cast(Callable[[Tensor], Tensor], module.features)
        self._classifier = cast(nn.Linear, module.classifier)
        self.train = train
        self.test = test
        self.view = view
        self.schedule = schedule
        self.seed = seed
        self.device = device

    def local_updates(
        self, clients: list[Client], received: Weights, side: ClientSide, round: int, stage: str
    ) -> list[Update]:
        """See :class:`Executor`."""
        return [self._local_update(client, received, side, round, stage) for client in clients]

    def _local_update(
        self, client: Client, received: Weights, side: ClientSide, round: int, stage: str
    ) -> Update:
        module, schedule = self.module, self.schedule
        module.load_state_dict(received)
        module.train()
        weights: Weights = dict(module.named_parameters())
        anchor = {name: received[name] for name in weights}
        optimizer = SGD(
            list(weights.values()),
            schedule.learning_rate,
            schedule.momentum,
            schedule.weight_decay,
        )
        torch.manual_seed(torch_seed(self.seed, "dropout", round, client.id))
        losses, trained = [], 0
        for number in range(schedule.local_epochs):
            turn = Turn(self.seed, round, stage, client.id, number, schedule.batch_size)
            epoch = side.epoch(client, turn)
            rng = turn.dice("augmentation")
            for step, positions in enumerate(epoch.steps):
                index = torch.from_numpy(positions).to(self.device)
                images = self.view.training(self.train.pixels[client.rows[index]], rng)
                batch = Batch(epoch.targets[index], self._extras(epoch, step))
                features = self._features(side.inputs(images, batch))
                network = Network(self._classifier(features), features, weights, anchor)
                loss = side.loss(network, batch)
                optimizer.step(loss)
                losses.append(loss.detach())
                trained += len(positions)
        return Update(
            client=client,
            weights={name: value.clone() for name, value in module.state_dict().items()},
            size=len(side.positions(client)),
            loss=float(torch.stack(losses).mean()) if losses else float("nan"),
            trained=trained,
        )

    def _extras(self, epoch: Epoch, step: int) -> dict[str, Tensor]:
        return {
            name: torch.as_tensor(values[step], device=self.device)
            for name, values in epoch.extras.items()
        }

    @torch.no_grad()
    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """See :class:`Executor`."""
        answers = []
        for request in requests:
            self.module.load_state_dict(request.weights)
            self.module.eval()
            rng = stream(self.seed, request.purpose, round, request.client.id)
            features = torch.cat(
                [
                    self._features(self.view.training(self.train.pixels[rows], rng))
                    for rows in request.client.rows.split(self.schedule.pass_batch_size)
                ]
            )
            answers.append(Outputs(self._classifier(features), features))
        return answers

    @torch.no_grad()
    def evaluate(self, weights: Weights) -> dict[str, float]:
        """See :class:`Executor`."""
        self.module.load_state_dict(weights)
        self.module.eval()
        size = self.schedule.test_batch_size
        logits = torch.cat(
            [self.module(self.view.plain(part)) for part in self.test.pixels.split(size)]
        )
        labels = self.test.labels
        return {
            "test_accuracy": float((logits.argmax(1) == labels).double().mean()),
            "test_loss": float(cross_entropy(logits, labels).double().mean()),
        }
