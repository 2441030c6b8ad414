"""Co-teaching (Han et al., NeurIPS 2018): two networks that pick samples for each other."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


class ForgetRate(fl.ClientSide):
    """A client side that leaves out a share of each batch: a given one, or the true noise level."""

    needs_level: ClassVar = {"forget_rate": None}

    forget_rate: float | None = fl.option(
        None, doc="tau: share of a batch left out; null: the true noise level", at_least=0, below=1
    )
    noise_level_of: Literal["federation", "client"] = fl.option(
        "federation",
        doc="whose true noise level that is: of all samples of the federation, or of the client's",
    )

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Tell the participants their forget rate."""
        option, count = f"{self.name}.forget_rate", len(participants)
        if self.forget_rate is not None:
            rates = [self.forget_rate] * count
        elif self.noise_level_of == "federation":
            rates = [fl.mean_noise_level(federation.clients, option)] * count
        else:
            rates = fl.known_noise_levels(participants, option)
        for client, rate in zip(participants, rates, strict=True):
            client.state["forget_rate"] = rate


@fl.METHODS.register("coteaching")
class CoTeaching(ForgetRate):
    """Each network learns from the samples of a batch whose losses the other finds smallest.

    Algorithm 1; an epoch of its forget-rate ramp is a round here, and the server averages the
    clients' first networks with each other, and the second ones too. The label precision and
    recall of a round are those of the first network's picks in the last local epoch.
    """

    reference = (
        "Han et al., Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy "
        "Labels, NeurIPS 2018"
    )
    networks = 2
    by_sample = ("picked",)

    ramp_rounds: int = fl.option(10, doc="T_k: rounds until the forget rate is reached", at_least=1)
    ramp: Literal["ratio", "linspace"] = fl.option(
        "ratio",
        doc="share of the forget rate in round t from 0: t / T_k (Algorithm 1), or t / (T_k - 1) "
        "(official code and FedRN's)",
    )
    double_division: bool = fl.option(
        False, doc="divide the mean loss by the number of picks once more (official code)"
    )
    tested: Literal["first", "second", "mean"] = fl.option(
        "first",
        doc="what is tested: the first network, the second, or the mean of both softmax outputs",
    )

    variants: ClassVar = {
        "official": {"ramp": "linspace", "double_division": True},
        "fedrn": {"forget_rate": 0.2, "ramp_rounds": 100, "ramp": "linspace"},
    }

    def rate(self, client: fl.Client, round: int) -> float:
        """1 - R(t), the share of a batch that is left out in a round."""
        steps = max(1, self.ramp_rounds - (self.ramp == "linspace"))
        return min(round / steps, 1.0) * client.state["forget_rate"]

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """Which samples the first network picked when it last saw them."""
        return {"picked": torch.zeros_like(client.labels, dtype=torch.bool)}

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set how many samples of each step count: R(t) of them, rounded down, at least one."""
        epoch = super().epoch(client, turn)
        share = 1 - self.rate(client, turn.round)
        kept = [max(1, fl.round_down(share * len(step))) for step in epoch.steps]
        return fl.Epoch(epoch.steps, epoch.targets, {"kept": kept})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """The losses of Algorithm 1's two updates in one sum, as the networks share no weight."""
        losses = [fl.cross_entropy(model(batch.images, n).logits, batch.target) for n in (0, 1)]
        first, second = (smallest(values, batch["kept"]) for values in losses)
        batch.memory["picked"][batch.positions] = first
        loss = fl.mean_where(losses[0], second) + fl.mean_where(losses[1], first)
        return loss / batch["kept"] if self.double_division else loss

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report the picks and the forget rate."""
        for update in updates:
            federation.report_selection(update.client, update.memory["picked"])
            federation.report(update.client, forget_rate=float(self.rate(update.client, round)))

    def predict(self, outputs: list[fl.Outputs], client: fl.Client | None) -> Tensor:
        """See the option ``tested``; the mean is returned as its logarithm."""
        if self.tested == "mean":
            both = torch.stack([network.logits.log_softmax(1) for network in outputs])
            return both.logsumexp(0) - math.log(2)
        return outputs[self.tested == "second"].logits


def smallest(losses: Tensor, count: Tensor | int) -> Tensor:
    """bool [n]: the ``count`` smallest of ``losses`` [n], the first of equal ones."""
    return losses.detach().argsort(stable=True).argsort() < count
