"""SCAFFOLD (Karimireddy et al., 2020): control variates correct each client's drift."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from noisyfl.core.options import option
from noisyfl.methods.registry import METHODS
from noisyfl.simulation.aggregation import flat, nonempty, parameters, plain_mean, replaced
from noisyfl.simulation.client_side import ClientSide, Cost
from noisyfl.simulation.clients import Client
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import LocalModel
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.updates import Batch, Memory, Update
from noisyfl.simulation.weights import Weights, size_in_bytes


@METHODS.register("scaffold")
class Scaffold(ServerSide, ClientSide):
    """Algorithm 1 with Option II. The control variates c of the server and c_i of each client, 0
    at first, are over the trainable weights; buffers are averaged.

    A client's own gradient, averaged over a local update, is what moved its model, divided by the
    learning rate and the number of steps. That holds without momentum. With momentum a step's
    gradient moves the model in later steps as well, and ``corrected`` divides by how much all of
    them did; for many steps that is K / (1 - momentum) in the place of K.
    """

    reference = (
        "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, "
        "ICML 2020"
    )
    partner = ""
    cost = Cost(effort=1.2, models_kept=1)

    server_learning_rate: float = option(1.0, doc="eta_g", above=0)
    momentum: Literal["corrected", "off", "as_written"] = option(
        "corrected",
        doc="corrected: the schedule's, and control variates that account for it; off: none; "
        "as_written: the schedule's, and control variates divided by the steps alone",
    )

    variants: ClassVar = {"without_momentum": {"momentum": "off"}}

    def local_schedule(self, round: int, schedule: Schedule) -> Schedule:
        """The round's schedule, without momentum if the option ``momentum`` is ``off``."""
        schedule = super().local_schedule(round, schedule)
        if self.momentum != "off":
            return schedule
        return schedule.model_copy(update={"momentum": 0.0})

    def memory(self, client: Client, federation: Federation) -> Memory:
        """``correction``, c - c_i, which is added to the gradient of every step."""
        control = _server_control(federation)
        return {"correction": control - _control(client, control)}

    def loss(self, model: LocalModel, batch: Batch) -> Tensor:
        """Cross-entropy + <c - c_i, y - x>, whose gradient is that of line 10.

        With the local model y and the received one x, the product is with y - x and not with y, so
        that the training loss starts as that of FedAvg.
        """
        drift = flat(model.weights) - flat(model.received)
        return super().loss(model, batch) + batch.memory["correction"].dot(drift)

    def after_updates(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Update the control variates of the participants and of the server (lines 12 and 17)."""
        schedule = self.local_schedule(round, federation.schedule)
        received = flat(federation.weights)
        control = _server_control(federation)
        total = torch.zeros_like(control)
        for update in updates:
            if not update.steps:
                continue
            drift = received - flat(update.weights)
            moved = schedule.learning_rate * self._effective_steps(update.steps, schedule)
            change = drift / moved - control
            update.client.state["control"] = _control(update.client, control) + change
            total += change
        federation.state["control"] = control + total / len(federation.clients)

    def _effective_steps(self, steps: int, schedule: Schedule) -> float:
        """How far a gradient that is the same in all steps moves the model, in learning rates times
        that gradient.
        """
        if self.momentum == "as_written":
            return steps
        kept = schedule.momentum
        return (steps - kept * (1 - kept**steps) / (1 - kept)) / (1 - kept)

    def aggregate(self, updates: list[Update], federation: Federation) -> Weights:
        """Line 17: x + eta_g times the plain mean of what the local updates changed."""
        counted = nonempty(updates)
        if not counted:
            return federation.weights
        mean = plain_mean(counted)
        moved = flat(federation.weights).lerp(flat(mean), self.server_learning_rate)
        return replaced(mean, moved)

    def exchange(self, updates: list[Update], federation: Federation) -> tuple[int, int]:
        """Bytes of a model and of a control variate for each participant, in each direction."""
        down, up = super().exchange(updates, federation)
        weights = federation.weights
        control = size_in_bytes(weights, parameters(weights)) * len(updates)
        return down + control, up + control


def _server_control(federation: Federation) -> Tensor:
    """The server's control variate c, a vector over the trainable weights; zeros at first."""
    control = federation.state.get("control")
    return torch.zeros_like(flat(federation.weights)) if control is None else control


def _control(client: Client, like: Tensor) -> Tensor:
    """The client's control variate c_i, on the device of ``like``; zeros at first."""
    control = client.state.get("control")
    return torch.zeros_like(like) if control is None else control.to(like.device)
