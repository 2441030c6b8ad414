"""The two sides a method is made of. As they stand here they are FedAvg with cross-entropy.

A side is a frozen component: its fields are the hyperparameters. What changes during a run lives
in the federation and its clients, where a checkpoint finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor

from noisyfl.randomness import stream
from noisyfl.simulation.local import (
    Batch,
    Client,
    Epoch,
    Network,
    Update,
    Weights,
    average,
    batches,
)
from noisyfl.simulation.losses import cross_entropy

if TYPE_CHECKING:
    from noisyfl.simulation.federation import Federation


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


class ServerSide(Side):
    """Which clients take part in a round, and what becomes of their updates."""

    def rounds(self, federation: Federation) -> int:
        """How many rounds the method runs."""
        return federation.schedule.rounds

    def slots(self, round: int, federation: Federation) -> int:
        """Local updates that a round counts for, ``federation.participants`` if it is ordinary.

        Counted so, methods whose rounds differ can be compared, and evaluated equally often.
        """
        return federation.participants

    def stage(self, round: int, federation: Federation) -> str:
        """The name of the stage that a round belongs to."""
        return "training"

    def select(self, round: int, federation: Federation) -> np.ndarray:
        """The ids of the round's participants: uniform, without replacement."""
        return uniform(round, federation, np.arange(len(federation.clients)))

    def aggregate(self, updates: list[Update], received: Weights) -> Weights:
        """The next global model: the mean of the local ones, weighted by size (FedAvg, Eq. 1).

        Stays as it was if no participant had anything to train on.
        """
        if not any(update.size for update in updates):
            return received
        return average([u.weights for u in updates], [float(u.size) for u in updates])

    def after_round(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Whatever the method estimates or corrects once the new global model stands."""


def uniform(round: int, federation: Federation, pool: np.ndarray) -> np.ndarray:
    """The round's participants drawn uniformly from ``pool``, at most an ordinary round's many."""
    count = min(federation.participants, len(pool))
    rng = stream(federation.seed, "selection", round)
    return rng.choice(pool, size=count, replace=False)
