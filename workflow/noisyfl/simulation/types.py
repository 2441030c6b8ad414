"""What a client side and an executor tell each other: epochs, batches, passes and updates."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from noisyfl.core.options import BadInput
from noisyfl.simulation.usage import Usage

Weights = dict[str, Tensor]
"""All tensors of a model, parameters and buffers, by name. Names in a model's first network start
with ``0.``, in its second with ``1.``.
"""

Memory = dict[str, Tensor]
"""What a loss keeps beside the weights during a local update, by name."""


@dataclass
class Client:
    """One client as the simulation holds it.

    Attributes:
        id: its number in the partition.
        rows: int64 [samples], its rows of the dataset, on the device.
        given: int64 [samples], the labels it was given.
        true: int64 [samples], the true labels; -1 where nobody knows them. For measuring and for
            the oracle only.
        labels: int64 [samples], what it trains on: the given labels until a method corrects them.
        noise_level: share of the given labels that are wrong; NaN where the true ones are not
            known.
        truth_known: whether the true labels of all its samples are known.
        state: what a method keeps on this client between rounds: numbers, tensors, and whole
            models (:data:`Weights`).
    """

    id: int
    rows: Tensor
    given: Tensor
    true: Tensor
    labels: Tensor = field(init=False)
    noise_level: float = field(init=False)
    truth_known: bool = field(init=False)
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = self.given.clone()
        self.truth_known = not bool((self.true < 0).any())
        wrong = float((self.given != self.true).double().mean())
        self.noise_level = wrong if self.truth_known else math.nan

    def __len__(self) -> int:
        return len(self.rows)

    def accuracy_of(self, labels: Tensor, among: Tensor | None = None) -> float:
        """The share of labels that are the true ones; NaN if there are no labels, or if the true
        ones are not known.

        Args:
            labels: int64 [samples].
            among: bool [samples], the samples that count; by default all.
        """
        right = labels == self.true
        if among is not None:
            right = right[among]
        return float(right.double().mean()) if self.truth_known and len(right) else math.nan


@dataclass
class Epoch:
    """One local epoch, decided before it starts, so that an executor knows every shape.

    Attributes:
        steps: one int64 array a step, positions among the client's samples.
        targets: [samples, ...], what the loss calls the target of every sample of the client.
        extras: whatever else the loss needs, by name: one value or array for each step. Everything
            that changes from step to step or from round to round has to be passed here, since an
            executor may trace the loss once and repeat it.
        views: how the images of a step are shown, each as
            :meth:`noisyfl.data.augmentation.augment.View.show` names it; a loss may want several
            views of the same images.
        learns: the prefix, or several, of the names of the weights that are trained; by default
            all weights are.
        fresh_momentum: whether momentum starts anew with this epoch, and not only with the local
            update.
        repeatable: whether steps of equal shapes do the same work, whatever the values; if not, an
            executor does not trace them.
    """

    steps: list[np.ndarray]
    targets: Tensor
    extras: Mapping[str, list] = field(default_factory=dict)
    views: tuple[str, ...] = ("weak",)
    learns: str | tuple[str, ...] = ""
    fresh_momentum: bool = False
    repeatable: bool = True


@dataclass
class Batch:
    """What a loss sees of one step.

    Attributes:
        views: the step's images, once for each of :attr:`Epoch.views`: float
            [batch, channels, height, width].
        positions: int64 [batch], which of the client's samples they are.
        target: [batch, ...], the targets of these samples.
        extras: the step's entries of :attr:`Epoch.extras`, as tensors.
        memory: what the loss may keep from step to step: it reads it, and writes to it in place.
    """

    views: tuple[Tensor, ...]
    positions: Tensor
    target: Tensor
    extras: dict[str, Tensor]
    memory: Memory

    @property
    def images(self) -> Tensor:
        """The first view."""
        return self.views[0]

    def __getitem__(self, name: str) -> Tensor:
        return self.extras[name]

    def __contains__(self, name: str) -> bool:
        return name in self.extras


@dataclass
class Task:
    """One local update to be made.

    Attributes:
        client: who makes it.
        weights: the model that it starts from.
        memory: what :attr:`Batch.memory` holds at the start; not modified.
        repeat: how many updates the same client makes before this one in the same round, where it
            was drawn several times; each has random streams of its own.
    """

    client: Client
    weights: Weights
    memory: Memory = field(default_factory=dict)
    repeat: int = 0


@dataclass
class Tested:
    """A model that a method is tested by.

    Attributes:
        weights: the model.
        client: the client whose model it is; None if it is the federation's.
    """

    weights: Weights
    client: Client | None = None


class Network:
    """A network of a model that is tested; equal to another if their tensors are the same objects.

    Such are the global one beside each client's own, and a client's own since it last took part.
    Nothing writes to a model's tensors in place, so that equal networks have equal outputs. The
    tensors are not kept alive: a network whose tensors are gone equals no other.

    Args:
        number: of the network in its model.
        tensors: its weights and buffers.
    """

    def __init__(self, number: int, tensors: Sequence[Tensor]) -> None:
        self.number = number
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._hash = hash((number, *map(id, tensors)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network) or hash(self) != hash(other):
            return False
        pairs = zip(self._tensors, other._tensors, strict=True)
        return all(one() is not None and one() is another() for one, another in pairs)


@dataclass
class Update:
    """What one local update ended with.

    Attributes:
        client: who made it.
        weights: the local model.
        memory: what :attr:`Batch.memory` held at the end.
        size: the weight of the update when the server averages, usually its number of samples.
        steps: steps taken.
        loss: mean training loss over the steps; NaN if there was none.
        forward: samples that went through a network.
        backward: those of them that a gradient went back through.
    """

    client: Client
    weights: Weights
    memory: Memory
    size: float
    steps: int
    loss: float
    forward: int
    backward: int


@dataclass
class Pass:
    """A request: the outputs of a model on all samples of a client, in evaluation mode.

    Attributes:
        client: the client whose samples are shown.
        weights: the model.
        purpose: names the random stream of the augmented view.
        network: which of the model's networks.
        view: how the images are shown, as in :attr:`Epoch.views`.
    """

    client: Client
    weights: Weights
    purpose: str
    network: int = 0
    view: str = "weak"


@dataclass
class Outputs:
    """A network's outputs on images: logits [batch, classes], and features [batch, width], which
    are the input of its classifier.
    """

    logits: Tensor
    features: Tensor


class Images:
    """A part of a dataset on the device.

    Attributes:
        pixels: uint8 [n, channels, height, width].
        labels: int64 [n].
        shape: of an image: channels, height, width.
    """

    pixels: Tensor
    labels: Tensor
    shape: tuple[int, ...]

    def __init__(self, images: np.ndarray, labels: np.ndarray, device: torch.device) -> None:
        self.pixels = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).contiguous()
        self.labels = torch.from_numpy(labels).to(device)
        self.shape = tuple(self.pixels.shape[1:])

    def pieces(self, rows: Tensor, sizes: int | list[int]) -> Iterator[Tensor]:
        """Yield the images of some rows, in order, one piece at a time.

        Args:
            rows: int64 [m], on the device.
            sizes: the number of images in each piece; a single number is for all pieces but the
                last one, which takes the rest.
        """
        for part in rows.split(sizes):
            yield self.pixels[part]

    def parts(self, size: int) -> Iterator[Tensor]:
        """All images in order, ``size`` at a time."""
        yield from self.pixels.split(size)


class Executor(Protocol):
    """Trains clients and runs models for a method that never calls a network by itself.

    The argument ``side`` is a client side. Its type is not named here, since the module of client
    sides imports this one.
    """

    device: torch.device
    test: Images
    usage: Usage

    def local_updates(self, tasks: list[Task], side: Any, round: int, stage: str) -> list[Update]:
        """The local updates of a round, in the order of the tasks.

        Args:
            tasks: one a participant.
            side: the client side, whose loss is minimised.
            round: counted from 0.
            stage: the method's name for the stage that the round belongs to.
        """

    def passes(self, requests: list[Pass], round: int) -> list[Outputs]:
        """The outputs of each request."""

    def test_outputs(self, weights: Weights, network: int) -> Outputs:
        """The outputs of one of a model's networks on the test part."""

    def outputs_of(self, images: Tensor, weights: Weights, network: int) -> Outputs:
        """The outputs of one of a model's networks on images that are in no part of the dataset,
        but come from the method: normalised, float [n, channels, height, width].

        Args:
            images: those of the method.
            weights: of the model.
            network: which of the model's networks.
        """

    def facts(self) -> dict[str, Any]:
        """How the run is computed, for its provenance."""

    def use_less_memory(self, why: str) -> None:
        """Prepare to repeat, with less memory, the work that the device had too little memory for.

        Args:
            why: how much memory was asked for, and how much there is.

        Raises:
            NoRoom: memory use cannot be reduced further (:mod:`noisyfl.simulation.executor`).
        """


def known_noise_levels(clients: Sequence[Client], option: str) -> list[float]:
    """The true noise level of each client, for a method that assumes it to be known.

    Args:
        clients: whose levels are returned.
        option: the option that stands for the levels, which the error message names: where the
            levels are not known, it needs a number.

    Raises:
        BadInput: the true labels are not known.
    """
    if not all(client.truth_known for client in clients):
        raise BadInput(
            f"{option}: its value stands for the true noise level, and the true labels of this "
            "dataset are not known; expected a number"
        )
    return [client.noise_level for client in clients]


def mean_noise_level(clients: Sequence[Client], option: str) -> float:
    """The share of all given labels that are wrong; see :func:`known_noise_levels`."""
    levels = known_noise_levels(clients, option)
    wrong = sum(level * len(client) for level, client in zip(levels, clients, strict=True))
    return wrong / sum(map(len, clients))


def batches(positions: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """``positions`` in a new order, cut into batches of ``size``; the last one may be smaller.

    A last batch of a single sample is left out of the epoch: batch normalisation cannot train on
    it where a channel has one value, and all networks follow the same rule.

    Args:
        positions: int64 [n].
        size: of a batch.
        rng: draws the order.
    """
    order = rng.permutation(positions)
    steps = [order[start : start + size] for start in range(0, len(order), size)]
    if len(steps) > 1 and len(steps[-1]) == 1:
        steps.pop()
    return steps


def average(weights: list[Weights], shares: list[float]) -> Weights:
    """The weighted mean of models, buffers included; counters are taken from the first.

    Args:
        weights: the models, at least one.
        shares: a non-negative number for each, with a positive sum.
    """
    total = sum(shares)
    mean: Weights = {}
    for name, first in weights[0].items():
        if not first.is_floating_point():
            mean[name] = first.clone()
            continue
        mean[name] = torch.zeros_like(first)
        for model, share in zip(weights, shares, strict=True):
            mean[name].add_(model[name], alpha=share / total)
    return mean


def size_in_bytes(weights: Weights, names: Sequence[str] | None = None) -> int:
    """Bytes of the named weights; by default of all, as a model is sent."""
    chosen = list(weights) if names is None else names
    return sum(weights[name].numel() * weights[name].element_size() for name in chosen)
