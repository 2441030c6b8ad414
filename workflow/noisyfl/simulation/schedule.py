"""How long and how a federation trains: the part of a run's spec that every method shares."""

from __future__ import annotations

import math
from typing import Literal

from noisyfl.core.options import option
from noisyfl.core.registry import Component
from noisyfl.core.rounding import round_down


class Schedule(Component):
    """Rounds, participation and the local optimizer (SGD with momentum, new in every round)."""

    rounds: int = option(doc="number of ordinary rounds", at_least=1)
    participation: float = option(
        doc="share of clients in an ordinary round; rounded down, at least one client",
        above=0,
        at_most=1,
    )
    local_epochs: int = option(doc="epochs of a local update", at_least=1)
    batch_size: int = option(doc="samples of a local step", at_least=1)
    learning_rate: float = option(doc="of SGD, in the first round", above=0)
    decay_every: int | None = option(
        None, doc="rounds after which the learning rate is divided by ten; null: never", at_least=1
    )
    momentum: float = option(
        0.0, doc="of SGD; reset before every local update", at_least=0, below=1
    )
    weight_decay: float = option(0.0, doc="of SGD, on every parameter", at_least=0)
    clip_norm: float | None = option(
        None, doc="maximum norm of the whole gradient of a step; null: no limit", above=0
    )
    evaluate_every: int = option(1, doc="ordinary rounds between two evaluations", at_least=1)
    evaluate_last: int = option(
        0,
        doc="number of last ordinary rounds that are all evaluated",
        at_least=0,
    )
    test_batch_size: int = option(
        500,
        doc="samples of a batch in evaluation; part of the result where a model normalises by the "
        "batch it is given (cnn4conv)",
        at_least=1,
    )
    precision: Literal["float32", "tf32", "bfloat16"] = option(
        "float32",
        doc="what training computes with; tf32 rounds the factors of products on a GPU, bfloat16 "
        "computes the networks in half as many bits",
    )
    pass_batch_size: int = option(
        500,
        doc="samples of a batch in the passes that methods request; part of the result too",
        at_least=1,
    )

    def in_round(self, round: int) -> Schedule:
        """The same with the learning rate of a round, counted from 0."""
        if self.decay_every is None:
            return self
        rate = self.learning_rate / 10 ** (round // self.decay_every)
        return self.model_copy(update={"learning_rate": rate})

    def evaluations(self, ordinary_rounds: float) -> int:
        """How many evaluations are due once so many ordinary rounds' local updates are done."""
        if not self.evaluate_last:
            return round_down(ordinary_rounds / self.evaluate_every)
        sparse = max(0, self.rounds - self.evaluate_last)
        return round_down(min(ordinary_rounds, sparse) / self.evaluate_every) + round_down(
            max(0, ordinary_rounds - sparse)
        )

    def rounds_of_all(self, clients: int) -> int:
        """Rounds in which all clients train that have as many local updates as the schedule's, to
        the nearest number, at least one.
        """
        updates = self.rounds * self.participants(clients)
        return max(1, math.floor(updates / clients + 0.5))

    def participants(self, clients: int) -> int:
        """Clients in an ordinary round: the share of all, rounded down, at least one."""
        return max(1, round_down(self.participation * clients))
