"""FedDyn (Acar et al., 2021): a regulariser for each client that learns from its drift."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("feddyn")
class FedDyn(fl.ServerSide, fl.ClientSide):
    """Algorithm 1, with the sums of drifts in the place of gradients.

    A client keeps d_k, the sum of theta_k - theta over its local updates: its gradient in the paper
    is -alpha d_k. The server keeps the mean of d_k over *all* clients: the paper's h is -alpha
    times that. They are over the trainable weights; buffers are averaged. A local update descends
    on L_k + alpha (<d_k, theta_k> + ||theta_k - theta||^2 / 2) (Eq. 1).
    """

    reference = "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021"
    partner = ""
    cost = fl.Cost(effort=1.2, models_kept=1)

    alpha: float = fl.option(0.01, doc="weight of the regulariser", above=0)
    alpha_by_size: bool = fl.option(
        False,
        doc="divide a client's alpha by its size over the mean size (code); the paper has one for "
        "all",
    )
    clip_norm: float | None = fl.option(
        10.0, doc="largest norm of a step's gradient (code); null: the schedule's", above=0
    )
    momentum: bool = fl.option(False, doc="use the schedule's momentum; paper and code have none")
    tested_model: Literal["average", "server"] = fl.option(
        "average",
        doc="average: the mean of the participants' models (the code plots that of all clients' "
        "last ones); server: the model that is sent, drift included",
    )

    variants: ClassVar = {"server_model": {"tested_model": "server"}}

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """The round's schedule, with gradients clipped and, by default, without momentum."""
        schedule = super().local_schedule(round, schedule)
        clip = schedule.clip_norm if self.clip_norm is None else self.clip_norm
        momentum = schedule.momentum if self.momentum else 0.0
        return schedule.model_copy(update={"momentum": momentum, "clip_norm": clip})

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """d_k, and the client's alpha."""
        alpha = self.alpha
        if self.alpha_by_size:
            mean = sum(map(len, federation.clients)) / len(federation.clients)
            alpha *= mean / max(1, len(client))
        like = fl.flat(federation.weights)
        return {"drift": _drift(client.state, like), "alpha": like.new_tensor(alpha)}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Eq. 1, less <d_k, theta>, which is the same in all steps."""
        memory = batch.memory
        moved = fl.flat(model.weights) - fl.flat(model.received)
        penalty = memory["drift"].dot(moved) + moved.dot(moved) / 2
        return super().loss(model, batch) + memory["alpha"] * penalty

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Add each participant's drift in this round to its d_k."""
        sent = fl.flat(federation.weights)
        for update in fl.nonempty(updates):
            state = update.client.state
            state["drift"] = _drift(state, sent) + fl.flat(update.weights) - sent

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The mean of the participants' models, plus the mean drift of all clients."""
        counted = fl.nonempty(updates)
        mean = fl.plain_mean(counted)
        sent = fl.flat(federation.weights)
        share = len(counted) / len(federation.clients)
        drift = _drift(federation.state, sent) + share * (fl.flat(mean) - sent)
        federation.state["drift"] = drift
        if self.tested_model == "average":
            federation.state["average"] = mean
        return fl.replaced(mean, fl.flat(mean) + drift)

    def predictors(self, federation: fl.Federation) -> list[fl.Predictor]:
        """See the option ``tested_model``."""
        return [fl.Predictor(federation.state.get("average", federation.weights))]


def _drift(state: dict, like: Tensor) -> Tensor:
    """The accumulated drift that a state holds, zeros at first, on the device of ``like``."""
    drift = state.get("drift")
    return torch.zeros_like(like) if drift is None else drift.to(like.device)
