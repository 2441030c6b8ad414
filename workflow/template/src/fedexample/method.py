"""Fedexample: what it does, in one line.

It trains as FedAvg. Change the hooks that the method is about, and delete the others: a hook that
is not here is FedAvg's, and a method without a server side, or without a client side, names the
other base class alone. docs/add-a-method.md has all hooks, and what they are given.
"""

from __future__ import annotations

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("fedexample")
class Fedexample(fl.ServerSide, fl.ClientSide):
    """What it minimises, and how models are combined, with the paper's equation numbers."""

    reference = "authors, title, venue and year"
    revision = 0  # while it is being written, so that every edit makes new runs; then 1

    strength: float = fl.option(
        1.0, doc="an option of the method; this one does nothing", at_least=0
    )

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """What the participants find out before they train, by passes."""

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """Tensors that the loss reads and writes, by name."""
        return super().memory(client, federation)

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """The samples of each step, their targets, and what else the loss needs of a step."""
        return super().epoch(client, turn)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """What a step descends on; a loss of logits and labels alone overrides ``losses``."""
        return super().loss(model, batch)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """What the participants keep of their local updates."""

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The next global model."""
        return super().aggregate(updates, federation)

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """What is estimated, corrected and reported once the new global model stands."""
