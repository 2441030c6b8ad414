"""SCAFFOLD (Karimireddy et al., 2020): control variates correct each client's drift."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("scaffold")
class Scaffold(fl.ServerSide, fl.ClientSide):
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
    needs_sgd = True
    cost = fl.Cost(effort=1.2, models_kept=1)

    server_learning_rate: float = fl.option(1.0, doc="eta_g", above=0)
    momentum: Literal["corrected", "off", "as_written"] = fl.option(
        "corrected",
        doc="corrected: the schedule's, and control variates that account for it; off: none; "
        "as_written: the schedule's, and control variates divided by the steps alone",
    )

    variants: ClassVar = {"without_momentum": {"momentum": "off"}}

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """The round's schedule, without momentum if the option ``momentum`` is ``off``."""
        schedule = super().local_schedule(round, schedule)
        if self.momentum != "off":
            return schedule
        return schedule.model_copy(update={"momentum": 0.0})

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``correction``, c - c_i, which is added to the gradient of every step."""
        control = _server_control(federation)
        return {"correction": control - _control(client, control)}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Cross-entropy + <c - c_i, y - x>, whose gradient is that of line 10.

        With the local model y and the received one x, the product is with y - x and not with y, so
        that the training loss starts as that of FedAvg.
        """
        drift = fl.flat(model.weights) - fl.flat(model.received)
        return super().loss(model, batch) + batch.memory["correction"].dot(drift)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Update the control variates of the participants and of the server (lines 12 and 17)."""
        schedule = self.local_schedule(round, federation.schedule)
        received = fl.flat(federation.weights)
        control = _server_control(federation)
        total = torch.zeros_like(control)
        for update in updates:
            if not update.steps:
                continue
            drift = received - fl.flat(update.weights)
            moved = schedule.learning_rate * self._effective_steps(update.steps, schedule)
            change = drift / moved - control
            update.client.state["control"] = _control(update.client, control) + change
            total += change
        federation.state["control"] = control + total / len(federation.clients)

    def _effective_steps(self, steps: int, schedule: fl.Schedule) -> float:
        """How far a gradient that is the same in all steps moves the model, in learning rates times
        that gradient.
        """
        if self.momentum == "as_written":
            return steps
        kept = schedule.momentum
        return (steps - kept * (1 - kept**steps) / (1 - kept)) / (1 - kept)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """Line 17: x + eta_g times the plain mean of what the local updates changed."""
        counted = fl.nonempty(updates)
        mean = fl.plain_mean(counted)
        moved = fl.flat(federation.weights).lerp(fl.flat(mean), self.server_learning_rate)
        return fl.replaced(mean, moved)

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """Bytes of a model and of a control variate for each participant, in each direction."""
        down, up = super().exchange(updates, federation)
        weights = federation.weights
        control = fl.size_in_bytes(weights, fl.trainable_names(weights)) * len(updates)
        return down + control, up + control


def _server_control(federation: fl.Federation) -> Tensor:
    """The server's control variate c, a vector over the trainable weights; zeros at first."""
    control = federation.state.get("control")
    return torch.zeros_like(fl.flat(federation.weights)) if control is None else control


def _control(client: fl.Client, like: Tensor) -> Tensor:
    """The client's control variate c_i, on the device of ``like``; zeros at first."""
    control = client.state.get("control")
    return torch.zeros_like(like) if control is None else control.to(like.device)
