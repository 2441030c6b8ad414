"""How long and how a federation trains: the part of a run's spec that every method shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from noisyfl.core.options import BadInput, option
from noisyfl.core.registry import Component
from noisyfl.core.rounding import round_down


class Schedule(Component):
    """Rounds, participation and the local optimizer, which is new in every round."""

    rounds: int = option(doc="number of ordinary rounds", at_least=1)
    participation: float = option(
        doc="share of clients in an ordinary round; rounded down, at least one client",
        above=0,
        at_most=1,
    )
    local_epochs: int = option(doc="epochs of a local update", at_least=1)
    batch_size: int = option(doc="samples of a local step", at_least=1)
    optimizer: Literal["sgd", "adam", "adamw"] = option(
        "sgd",
        doc="of local updates; adam and adamw have torch's defaults (betas 0.9 and 0.999) and need "
        "a smaller learning rate, such as 0.001",
        added_later=True,
    )
    learning_rate: float = option(doc="in the first round", above=0)
    decay: Literal["steps", "cosine"] = option(
        "steps",
        doc="of the learning rate; steps: as decay_every says; cosine: along half a cosine, to 0 "
        "after all of the method's local updates",
        added_later=True,
    )
    decay_every: int | None = option(
        None,
        doc="rounds of the method after which the learning rate is multiplied by decay_factor; one "
        "with fewer clients than ordinarily counts for its share; null: never",
        at_least=1,
    )
    decay_factor: float = option(0.1, doc="see decay_every", above=0, below=1, added_later=True)
    momentum: float = option(
        0.0, doc="of SGD; reset before every local update", at_least=0, below=1
    )
    weight_decay: float = option(
        0.0, doc="on every parameter; of adamw, apart from the gradient", at_least=0
    )
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

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if options do not fit together."""
        super().verify(context)
        if context.get("partial"):
            return
        if self.momentum and self.optimizer != "sgd":
            raise BadInput(
                f"got {self.momentum:g}, expected 0 with {self.optimizer}, which has none of SGD's",
                "momentum",
            )
        if self.decay == "cosine" and self.decay_every is not None:
            raise BadInput(f"got {self.decay_every}, expected none with cosine", "decay_every")
        if self.decay_factor != 0.1 and self.decay_every is None:
            raise BadInput(
                f"got {self.decay_factor:g} without decay_every, expected after how many rounds",
                "decay_factor",
            )

    def rate_after(self, rounds: float, share: float) -> float:
        """The learning rate after so many rounds of the method, which are this share of its local
        updates.
        """
        if self.decay == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * share)) / 2
        if self.decay_every is None:
            return self.learning_rate
        times = round_down(rounds / self.decay_every)
        return self.learning_rate / (1 / self.decay_factor) ** times

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
