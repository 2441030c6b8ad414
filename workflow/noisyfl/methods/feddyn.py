"""FedDyn (Acar et al., 2021): a regulariser for each client that learns from its drift."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from noisyfl.core.options import option
from noisyfl.methods.registry import METHODS
from noisyfl.simulation.aggregation import flat, nonempty, plain_mean, replaced
from noisyfl.simulation.client_side import ClientSide, Cost
from noisyfl.simulation.clients import Client
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import LocalModel
from noisyfl.simulation.outputs import Predictor
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.updates import Batch, Memory, Update
from noisyfl.simulation.weights import Weights


@METHODS.register("feddyn")
class FedDyn(ServerSide, ClientSide):
    """Algorithm 1, with the sums of drifts in the place of gradients.

    A client keeps d_k, the sum of theta_k - theta over its local updates: its gradient in the paper
    is -alpha d_k. The server keeps the mean of d_k over *all* clients: the paper's h is -alpha
    times that. They are over the trainable weights; buffers are averaged. A local update descends
    on L_k + alpha (<d_k, theta_k> + ||theta_k - theta||^2 / 2) (Eq. 1).
    """

    reference = "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021"
    partner = ""
    cost = Cost(effort=1.2, models_kept=1)

    alpha: float = option(0.01, doc="weight of the regulariser", above=0)
    alpha_by_size: bool = option(
        False,
        doc="divide a client's alpha by its size over the mean size (code); the paper has one for "
        "all",
    )
    clip_norm: float | None = option(
        10.0, doc="largest norm of a step's gradient (code); null: the schedule's", above=0
    )
    momentum: bool = option(False, doc="use the schedule's momentum; paper and code have none")
    tested_model: Literal["average", "server"] = option(
        "average",
        doc="average: the mean of the participants' models (the code plots that of all clients' "
        "last ones); server: the model that is sent, drift included",
    )

    variants: ClassVar = {"server_model": {"tested_model": "server"}}

    def local_schedule(self, round: int, schedule: Schedule) -> Schedule:
        """The round's schedule, with gradients clipped and, by default, without momentum."""
        schedule = super().local_schedule(round, schedule)
        clip = schedule.clip_norm if self.clip_norm is None else self.clip_norm
        momentum = schedule.momentum if self.momentum else 0.0
        return schedule.model_copy(update={"momentum": momentum, "clip_norm": clip})

    def memory(self, client: Client, federation: Federation) -> Memory:
        """d_k, and the client's alpha."""
        alpha = self.alpha
        if self.alpha_by_size:
            mean = sum(map(len, federation.clients)) / len(federation.clients)
            alpha *= mean / max(1, len(client))
        like = flat(federation.weights)
        return {"drift": _drift(client.state, like), "alpha": like.new_tensor(alpha)}

    def loss(self, model: LocalModel, batch: Batch) -> Tensor:
        """Eq. 1, less <d_k, theta>, which is the same in all steps."""
        memory = batch.memory
        moved = flat(model.weights) - flat(model.received)
        penalty = memory["drift"].dot(moved) + moved.dot(moved) / 2
        return super().loss(model, batch) + memory["alpha"] * penalty

    def after_updates(self, round: int, updates: list[Update], federation: Federation) -> None:
        """Add each participant's drift in this round to its d_k."""
        sent = flat(federation.weights)
        for update in nonempty(updates):
            state = update.client.state
            state["drift"] = _drift(state, sent) + flat(update.weights) - sent

    def aggregate(self, updates: list[Update], federation: Federation) -> Weights:
        """The mean of the participants' models, plus the mean drift of all clients."""
        counted = nonempty(updates)
        if not counted:
            return federation.weights
        mean = plain_mean(counted)
        sent = flat(federation.weights)
        share = len(counted) / len(federation.clients)
        drift = _drift(federation.state, sent) + share * (flat(mean) - sent)
        federation.state["drift"] = drift
        if self.tested_model == "average":
            federation.state["average"] = mean
        return replaced(mean, flat(mean) + drift)

    def predictors(self, federation: Federation) -> list[Predictor]:
        """See the option ``tested_model``."""
        return [Predictor(federation.state.get("average", federation.weights))]


def _drift(state: dict, like: Tensor) -> Tensor:
    """The accumulated drift that a state holds, zeros at first, on the device of ``like``."""
    drift = state.get("drift")
    return torch.zeros_like(like) if drift is None else drift.to(like.device)
