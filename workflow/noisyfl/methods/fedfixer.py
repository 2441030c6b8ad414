"""FedFixer (Ji et al., AAAI 2024): the global model and a personal one pick samples for each other.

The code that is meant is the first author's, in which the method is called FedTwin
(ResearchFL/HeteroFedNoisyLabelLearning).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

import noisyfl.method as fl

GLOBAL, PERSONAL = "0.", "1."
"""Prefixes of the names of weights: those of the global model w, which is exchanged, and those of
the personal model theta, which is not.
"""

LEAST = 1e-8
"""Added to probabilities in the regulariser (code)."""


@fl.METHODS.register("fedfixer")
class FedFixer(fl.ServerSide, fl.ClientSide):
    """A local update begins with both models as the global one. Of each batch the personal model
    learns what the global one selects as clean, then the global model what the personal one selects
    as clean, and each is pulled towards the other. A sample is clean whose cross-entropy is at
    most the mean over all classes in the place of its label.

    The loss is cross-entropy less beta times that mean (confidence regulariser). beta grows from 0,
    and the learning rate is divided by 1 + beta. A client counts for as many samples as its global
    model learnt in an epoch. SGD is plain, as in the code: without momentum and weight decay.
    """

    reference = (
        "Ji et al., FedFixer: Mitigating Heterogeneous Label Noise in Federated Learning, AAAI 2024"
    )
    revision = 2
    networks = 2
    cost = fl.Cost(effort=2.0)
    by_sample = ("picked",)
    partner = ""

    selection_round: int = fl.option(
        10, doc="last round, from 0, that learns all samples", at_least=1, share_of=("rounds", 300)
    )
    beta: float = fl.option(2.0, doc="weight of the confidence regulariser once grown", at_least=0)
    pull: float = fl.option(15.0, doc="lambda: of the distance between both models", at_least=0)
    personal_steps: int = fl.option(
        1, doc="K: the personal model's steps on a batch for one of the global's", at_least=1
    )

    variants: ClassVar = {"official": {"personal_steps": 5}}

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """Plain SGD."""
        current = super().local_schedule(round, schedule)
        return current.model_copy(update={"momentum": 0.0, "weight_decay": 0.0})

    def received(
        self, client: fl.Client, weights: fl.Weights, federation: fl.Federation
    ) -> fl.Weights:
        """The received global model, as both the global and the personal one."""
        own = {name: value for name, value in weights.items() if name.startswith(GLOBAL)}
        return {**own, **{PERSONAL + n.removeprefix(GLOBAL): value for n, value in own.items()}}

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``picked`` [samples], whether the global model learnt a sample when it last saw it, and
        ``learnt``, how many samples it learnt over all its steps.
        """
        device = client.labels.device
        return {
            "picked": torch.zeros_like(client.labels, dtype=torch.bool),
            "learnt": torch.zeros((), dtype=torch.int64, device=device),
        }

    def grown(self, round: int, number: int, epochs: int) -> float:
        """The weight beta in a local epoch: 0 for the first ``selection_round`` / 5 rounds, then
        growing linearly from epoch to epoch, to its full value in the last one of another
        ``selection_round`` rounds (code).

        Args:
            round: counted from 0.
            number: of the epoch in the round, from 0.
        """
        done = (round - self.selection_round // 5) * epochs + number
        return self.beta * min(max(done / max(self.selection_round * epochs - 1, 1), 0.0), 1.0)

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Tell the participants how many local epochs a round has."""
        epochs = self.local_schedule(round, federation.schedule).local_epochs
        for client in participants:
            client.state["local_epochs"] = epochs

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Take each batch K times for the personal model, then once for the global one."""
        epoch = super().epoch(client, turn)
        times = self.personal_steps + 1
        count = times * len(epoch.steps)
        extras: dict[str, list] = {
            "personal": ([1.0] * self.personal_steps + [0.0]) * len(epoch.steps),
            "beta": [self.grown(turn.round, turn.number, client.state["local_epochs"])] * count,
            "selecting": [turn.round > self.selection_round] * count,
        }
        steps = [step for step in epoch.steps for _ in range(times)]
        return fl.Epoch(steps, epoch.targets, extras)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class. A step trains one of the models, and the other's gradient is 0."""
        logits = [model(batch.images, network).logits for network in (0, 1)]
        clean = [confidence(values, batch.target, 1.0) <= 0 for values in logits]
        picks = [mask | ~batch["selecting"] for mask in clean]
        beta, personal = batch["beta"], batch["personal"]
        own = fl.mean_where(confidence(logits[0], batch.target, beta), picks[1])
        other = fl.mean_where(confidence(logits[1], batch.target, beta), picks[0])

        ends = personal < 1
        picked = batch.memory["picked"]
        picked[batch.positions] = torch.where(ends, picks[1], picked[batch.positions])
        batch.memory["learnt"] += torch.where(ends, picks[1].sum(), 0)

        w, theta = (_network(model.weights, network) for network in (GLOBAL, PERSONAL))
        of_personal = personal * (other + self.pull / 2 * fl.squared_distance(theta, _detached(w)))
        of_global = (1 - personal) * (
            own + self.pull / 2 * fl.squared_distance(w, _detached(theta))
        )
        return (of_personal + of_global) / (1 + beta)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Weight each update by the samples that its global model learnt in an epoch, and report
        which samples these are.
        """
        epochs = self.local_schedule(round, federation.schedule).local_epochs
        for update in updates:
            update.size = float(update.memory["learnt"]) / epochs
            if round > self.selection_round:
                federation.report_selection(update.client, update.memory["picked"])

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """Bytes of the global models alone; the personal ones are not sent."""
        names = [name for name in federation.weights if name.startswith(GLOBAL)]
        size = fl.size_in_bytes(federation.weights, names) * len(updates)
        return size, size


def _network(weights: fl.Weights, begin: str) -> fl.Weights:
    """The weights of one network, without the prefix, so that both networks have the same names."""
    return {
        name.removeprefix(begin): value for name, value in weights.items() if name.startswith(begin)
    }


def _detached(weights: fl.Weights) -> fl.Weights:
    """The same weights, through which no gradient flows."""
    return {name: value.detach() for name, value in weights.items()}


def confidence(logits: Tensor, target: Tensor, beta: Tensor | float) -> Tensor:
    """[n], cross-entropy less beta times its mean over all classes taken as the label.

    The mean is bounded, so that minimising the difference does not make predictions grow for ever.

    Args:
        logits: [n, classes].
        target: labels, int64 [n].
    """
    return fl.cross_entropy(logits, target) + beta * (logits.softmax(1) + LEAST).log().mean(1)
