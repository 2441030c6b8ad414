"""The client side of a method: what a local update minimises.

As it stands here it is plain cross-entropy on the labels. A side is a frozen component: its fields
are the hyperparameters. What changes during a run lives in the federation and its clients, where a
checkpoint finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from noisyfl.randomness import stream
from noisyfl.simulation.local import Batch, Client, Epoch, Network, batches
from noisyfl.simulation.losses import cross_entropy


@dataclass(frozen=True)
class Turn:
    """One local epoch of one client, before it starts.

    Attributes:
        stage: the name of the round's stage.
        number: of the epoch in the round, from 0.
    """

    seed: int
    round: int
    stage: str
    client: int
    number: int
    batch_size: int

    def dice(self, purpose: str) -> np.random.Generator:
        """The turn's own random stream for a purpose."""
        return stream(self.seed, purpose, self.round, self.client, self.number)


class Side:
    """What both sides declare.

    Attributes:
        name: set by the registry.
        revision: raised when the arithmetic changes; runs of older revisions go stale.
        reference: where the method comes from.
        variants: named sets of options, as the papers' ablations have them.
    """

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    reference: ClassVar[str]
    variants: ClassVar[dict[str, dict]] = {}


class ClientSide(Side):
    """What a local update minimises, written for one client and one batch."""

    def positions(self, client: Client) -> np.ndarray:
        """The samples that a local update trains on: positions among the client's own."""
        return np.arange(len(client))

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """Decide one local epoch."""
        steps = batches(self.positions(client), turn.batch_size, turn.dice("batches"))
        return Epoch(steps, client.labels)

    def inputs(self, images: Tensor, batch: Batch) -> Tensor:
        """What the network is shown instead of ``images`` [batch, channels, height, width]."""
        return images

    def loss(self, network: Network, batch: Batch) -> Tensor:
        """The scalar that a step descends on."""
        return cross_entropy(network.logits, batch.target).mean()
