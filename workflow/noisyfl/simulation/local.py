"""What a client side and an executor tell each other: epochs, batches, passes and updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

Weights = dict[str, Tensor]
"""Everything a model is: parameters and buffers by name."""


@dataclass
class Client:
    """One client as the simulation holds it.

    Attributes:
        id: its number in the partition.
        rows: int64 [samples], its rows of the dataset, on the device.
        given: int64 [samples], the labels it was given.
        true: int64 [samples], the true labels. For measuring and for the oracle only.
        labels: int64 [samples], what it trains on: the given labels until a method corrects them.
        noise_level: share of the given labels that are wrong.
        state: what a method keeps on this client between rounds.
    """

    id: int
    rows: Tensor
    given: Tensor
    true: Tensor
    labels: Tensor = field(init=False)
    noise_level: float = field(init=False)
    state: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = self.given.clone()
        self.noise_level = float((self.given != self.true).double().mean())

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Epoch:
    """One local epoch, decided before it starts, so that an executor knows every shape.

    Attributes:
        steps: one int64 array a step, positions among the client's samples.
        targets: [samples], the label of every sample of the client.
        extras: whatever the loss needs beside, one value or array a step, by name.
    """

    steps: list[np.ndarray]
    targets: Tensor
    extras: Mapping[str, list] = field(default_factory=dict)


@dataclass
class Batch:
    """What a loss sees of one step.

    Attributes:
        target: [batch], the labels.
        extras: the step's entries of :attr:`Epoch.extras`, as tensors.
    """

    target: Tensor
    extras: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.extras[name]


@dataclass
class Network:
    """What a loss sees of the network in one step.

    Attributes:
        logits: [batch, classes].
        features: [batch, width], what the classifier saw.
        weights: the trainable parameters as they stand.
        received: the same parameters as the server sent them.
    """

    logits: Tensor
    features: Tensor
    weights: Weights
    received: Weights


@dataclass
class Update:
    """What one local update ended with.

    Attributes:
        client: who made it.
        weights: the local model.
        size: samples it counts for when the server averages.
        loss: mean training loss over the steps; NaN if there was none.
        trained: samples that went forward and backward.
    """

    client: Client
    weights: Weights
    size: int
    loss: float
    trained: int


@dataclass
class Pass:
    """A request: the outputs of a model on all samples of a client, in evaluation mode.

    Attributes:
        client: whose samples.
        weights: of which model.
        purpose: names the random stream of the augmented view.
    """

    client: Client
    weights: Weights
    purpose: str


@dataclass
class Outputs:
    """The answer to a :class:`Pass`: logits [samples, classes] and features [samples, width]."""

    logits: Tensor
    features: Tensor


def batches(positions: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """``positions`` in a new order, cut into batches of ``size``, the last one smaller.

    A last batch of a single sample sits this epoch out: batch normalisation cannot train on it.
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
