"""The server side of a method: who takes part, how updates are combined, what is corrected.

The base class is FedAvg. Like a client side, a server side is a frozen component.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from noisyfl.core.randomness import stream
from noisyfl.simulation.client_side import ClientSide, Side
from noisyfl.simulation.clients import Client
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.outputs import Predictor
from noisyfl.simulation.returned import check_memory, check_weights
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Task, Update
from noisyfl.simulation.weights import Weights, average, size_in_bytes


class ServerSide(Side):
    """Which clients take part in a round, and what becomes of their updates."""

    is_server: ClassVar[bool] = True
    partner: ClassVar[Literal["", "client", "server"]] = "client"

    def with_partner(self, partner: Side) -> tuple[ServerSide, ClientSide]:
        """The sides of the combination of this method with the one that stands behind it."""
        assert isinstance(partner, ClientSide)
        return self, partner

    def sides(
        self, round: int, client: ClientSide, federation: Federation
    ) -> tuple[ServerSide, ClientSide]:
        """The sides that carry out a round: this server side and ``client``, unless the method
        turns into another method during the run.

        These sides select, train, combine and are tested. The number of rounds, the stage that is
        recorded for each and the local updates that it counts for come from the run's own server
        side.

        Args:
            round: counted from 0.
        """
        return self, client

    def own_schedule(self, schedule: Schedule, clients: int) -> Schedule:
        """The method's own schedule, derived from the run's, for a number of clients."""
        return schedule

    def begin(self, federation: Federation) -> None:
        """Change the federation before its first round, and before a checkpoint is restored."""

    def rounds(self, federation: Federation) -> int:
        """How many rounds the method runs."""
        return federation.schedule.rounds

    def counted_updates(self, round: int, federation: Federation) -> int:
        """The number of local updates that a round counts for; an ordinary round counts for
        ``federation.participants``.

        This makes methods with different rounds comparable, and has them evaluated equally often.
        """
        return federation.participants

    def stage(self, round: int, federation: Federation) -> str:
        """The name of the stage that a round belongs to."""
        return "training"

    def select(self, round: int, federation: Federation) -> np.ndarray:
        """The ids of the round's participants: uniform, without replacement."""
        return uniform(round, federation, np.arange(len(federation.clients)))

    def start(self, client: Client, federation: Federation) -> Weights:
        """The model that a participant's local update starts from: the global one."""
        return federation.weights

    def aggregate(self, updates: list[Update], federation: Federation) -> Weights:
        """The next global model: the mean of the local ones, weighted by size (FedAvg, Eq. 1).

        Asked only if a participant had something to train on; else the model stays as it was.
        """
        return average([u.weights for u in updates], [float(u.size) for u in updates])

    def exchange(self, updates: list[Update], federation: Federation) -> tuple[int, int]:
        """Bytes that a round sends down to the clients and up to the server: a model for each
        update, both ways.
        """
        size = size_in_bytes(federation.weights) * len(updates)
        return size, size

    def predictors(self, federation: Federation) -> list[Predictor]:
        """The models whose mean accuracy on the test part is the method's: the global one."""
        return [Predictor(federation.weights)]

    def passes_of_test(self, changed: float) -> float:
        """How often an evaluation passes the test part through each network of a model, on average;
        for estimates.

        Args:
            changed: clients, on average, that took part since the evaluation before.
        """
        return 1.0

    def after_round(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Make the method's estimates and corrections that follow the new global model; by default
        none.
        """


def uniform(round: int, federation: Federation, pool: np.ndarray) -> np.ndarray:
    """The round's participants, drawn uniformly from ``pool``: as many as in an ordinary round, or
    all of the pool if it is smaller.
    """
    count = min(federation.participants, len(pool))
    rng = stream(federation.seed, "selection", round)
    return rng.choice(pool, size=count, replace=False)


def sweep(round: int, clients: int, size: int) -> tuple[int, range]:
    """Which sweep over all clients a round belongs to, from 0, and the places that its participants
    have in the order of that sweep; its last round may have fewer than ``size``.
    """
    number, part = divmod(round, math.ceil(clients / size))
    return number, range(clients)[part * size : (part + 1) * size]


def local_updates(
    round: int,
    participants: list[Client],
    server: ServerSide,
    client: ClientSide,
    federation: Federation,
) -> list[Update]:
    """Make a round's local updates, with all that the client side does before and after them.

    Args:
        round: counted from 0.
    """
    client.before_round(round, participants, federation)
    ids = [participant.id for participant in participants]
    tasks = []
    for place, participant in enumerate(participants):
        start = server.start(participant, federation)
        start = client.received(participant, start, federation)
        check_weights(start, federation.weights, "start, received")
        memory = client.memory(participant, federation)
        check_memory(memory, client.by_sample, len(participant))
        tasks.append(Task(participant, start, memory, ids[:place].count(participant.id)))
    stage = server.stage(round, federation)
    updates = federation.executor.local_updates(tasks, client, round, stage)
    client.after_updates(round, updates, federation)
    return updates
