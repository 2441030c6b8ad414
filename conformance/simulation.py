"""Running our simulation on given weights, images, batches and random draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from noisyfl.data.augmentation.augment import Draws
from noisyfl.data.noisy_partition import ClientSamples, NoisyPartition
from noisyfl.methods import METHODS
from noisyfl.models.model import BodyNet
from noisyfl.simulation import client_side
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import Networks
from noisyfl.simulation.outputs import Images
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.server_side import local_updates
from noisyfl.simulation.weights import Weights

CLASSES, WIDTH, SHAPE = 4, 6, (1, 3, 3)
"""Number of classes and of features of the small network, and the channels, height and width of its
images."""


class Small(BodyNet):
    """A network whose weights are few enough to be recorded, with batch normalisation.

    Args:
        normalised: whether there is a batch normalisation.
    """

    def __init__(self, normalised: bool = True) -> None:
        norm = [nn.BatchNorm1d(WIDTH)] if normalised else []
        body = nn.Sequential(nn.Flatten(), nn.Linear(9, WIDTH), *norm, nn.ReLU())
        super().__init__(body, WIDTH, CLASSES)


class Named(nn.Module):
    """A network of ours whose classifier has the name by which FedRN's code recognises heads."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.body = ours.body
        self.linear = ours.classifier

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        return self.linear(self.body(images))


def weights_of(rng: np.random.RandomState, network: nn.Module) -> dict[str, Any]:
    """Random weights for a network, by name; statistics and counters keep their initial values."""
    return {
        name: rng.normal(0, 0.6, value.shape).astype(np.float32)
        if name in dict(network.named_parameters())
        else value.numpy()
        for name, value in network.state_dict().items()
    }


def loaded(network: nn.Module, weights: Mapping[str, Any]) -> Any:
    """The network with weights as :func:`weights_of` gives them."""
    like = network.state_dict()
    network.load_state_dict(
        {name: torch.as_tensor(np.array(weights[name]), dtype=like[name].dtype) for name in like}
    )
    return network


def images_of(rng: np.random.RandomState, samples: int) -> Any:
    """Random images, float32 [samples, channels, height, width]."""
    return rng.normal(size=(samples, *SHAPE)).astype(np.float32)


def tensor(value: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """A recorded value as a tensor."""
    return torch.tensor(np.array(value), dtype=dtype)


def integers(value: Any) -> Tensor:
    """A recorded value as a tensor of int64."""
    return tensor(value, torch.int64)


def method(name: str, **options: Any) -> Any:
    """A method of ours, built with options."""
    return METHODS.build({"name": name, **options}, "conformance")


class AsGiven:
    """A view that shows images as they are. Where there are several views of an image, its channels
    hold them one after the other.
    """

    def draw(self, kind: str, n: int, rng: Any, sizes: Sequence[int] | None = None) -> Draws:
        """The number of the view: a scripted stream draws them one after the other, from 0."""
        number = getattr(rng, "views", 0)
        if isinstance(rng, Scripted):
            rng.views += 1
        return Draws(np.full((n, 1), number), np.zeros((n, 0)))

    def is_fixed(self, kind: str) -> bool:
        """No: views of the same kind hold other images."""
        return False

    def show(self, kind: str, images: Tensor, draws: Draws) -> Tensor:
        """The drawn view of the images, float32."""
        number = int(draws.moves[0, 0]) if draws.moves.size else 0
        channels = SHAPE[0]
        first = number * channels % images.shape[1]
        return images[:, first : first + channels]


class Scripted:
    """A random generator that returns given answers, one after the other."""

    def __init__(self, answers: Any) -> None:
        self._answers = iter(answers)
        self.views = 0

    def permutation(self, of: Any) -> np.ndarray:
        """The next answer, reduced to the items that are to be permuted."""
        answer = np.asarray(next(self._answers))
        return answer[np.isin(answer, np.arange(of) if np.isscalar(of) else of)]

    def beta(self, a: float, b: float, size: int) -> np.ndarray:
        """The first ``size`` numbers of the next answer."""
        return np.asarray(next(self._answers))[:size]


def federation_of(
    networks: list[nn.Module],
    images: Any,
    given: list[Any],
    *,
    participants: int | None = None,
    **schedule: Any,
) -> Federation:
    """A federation whose clients hold consecutive parts of the images.

    Args:
        networks: those of the model, with the global weights.
        images: [samples, views times channels, height, width].
        given: labels of each client.
        participants: how many clients take part in a round; by default all.
        schedule: options of the schedule, besides rounds and participation.
    """
    device = torch.device("cpu")
    pixels = np.asarray(images, dtype=np.float32).transpose(0, 2, 3, 1)
    labels = [np.asarray(part, dtype=np.int64) for part in given]
    ends = np.cumsum([len(part) for part in labels])
    samples = [np.arange(end - len(part), end) for part, end in zip(labels, ends, strict=True)]
    clients = [ClientSamples(s, y, y) for s, y in zip(samples, labels, strict=True)]
    none = np.zeros(len(clients))
    options = {
        "rounds": 10,
        "participation": (participants or len(clients)) / len(clients),
        "local_epochs": 1,
        "batch_size": 4,
        "learning_rate": 0.1,
        **schedule,
    }
    plan = Schedule(**options)
    model = Networks(networks)
    every = Images(pixels, np.concatenate(labels), device)
    executor = LoopExecutor(model, every, every, AsGiven(), plan, 1, device)  # type: ignore[arg-type]
    weights: Weights = {name: value.clone() for name, value in model.state_dict().items()}
    partition = NoisyPartition({}, tuple(clients), none, none)
    return Federation(partition, plan, 1, executor, weights)


def scripted(draws: Mapping[str, list]) -> Any:
    """A context in which the random streams of local epochs return given answers.

    Args:
        draws: by the purpose of a stream, one list of answers for each time that it is opened.
    """
    left = {purpose: iter(times) for purpose, times in draws.items()}

    def told(seed: int, *name: Any) -> Any:
        return Scripted(next(left[name[0]])) if name[0] in left else Scripted([])

    return patch.object(client_side, "stream", told)


def rounds_of(
    side: Any,
    federation: Federation,
    first: int,
    last: int,
    draws: Mapping[str, list],
    server: Any = None,
    chosen: Any = None,
) -> Federation:
    """Run the rounds ``first`` to ``last - 1``, all with the same participants.

    Args:
        side: the client side.
        federation: its state before the rounds; it is changed in place, and returned.
        first: the first round, counted from 0.
        last: the round after the last one that is run.
        draws: see :func:`scripted`.
        server: the server side; FedAvg's by default.
        chosen: ids of the participants; by default all.
    """
    server = server or METHODS.build("fedavg", "conformance")
    everyone = federation.clients
    participants = everyone if chosen is None else [everyone[number] for number in chosen]
    with scripted(draws):
        for number in range(first, last):
            updates = local_updates(number, participants, server, side, federation)
            federation.weights = server.aggregate(updates, federation)
    return federation


def flat_names(weights: Mapping[str, Any], network: int = 0) -> dict[str, Any]:
    """The weights of one network of a model, by their names in that network, without counters."""
    start = f"{network}."
    return {
        name.removeprefix(start): value
        for name, value in weights.items()
        if name.startswith(start) and value.is_floating_point()
    }


def numbers_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of an official network, without counters."""
    return {name: value for name, value in state.items() if not name.endswith("_tracked")}
