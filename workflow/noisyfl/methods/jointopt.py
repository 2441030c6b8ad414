"""Joint Optimization (Tanaka et al., CVPR 2018): labels become the mean of recent predictions."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("jointopt")
class JointOpt(fl.ClientSide):
    """Weights and labels are learnt in turn, as a client side.

    The softmax outputs of training are kept, the last ones of each sample. After each local epoch
    from ``start_round`` on, a sample's label is their mean (the paper's soft labels); until then it
    is the given one. The second stage of the paper, retraining on the labels found, is left out,
    as in the papers that run it in a federation.
    """

    reference = (
        "Tanaka et al., Joint Optimization Framework for Learning with Noisy Labels, CVPR 2018"
    )
    cost = fl.Cost(effort=1.1)
    by_sample = ("outputs", "written")

    alpha: float = fl.option(1.2, doc="weight of the prior's divergence L_p", at_least=0)
    beta: float = fl.option(0.8, doc="weight of the entropy L_e", at_least=0)
    history: int = fl.option(10, doc="Q: softmax outputs kept of each sample", at_least=1)
    start_round: int = fl.option(
        100,
        doc="round, from 0, whose local epochs are the first to end in new labels",
        at_least=0,
        share_of=("rounds", 500),
    )
    underfilled: Literal["written", "history"] = fl.option(
        "written",
        doc="what the sum of fewer than Q outputs is divided by: their number, or Q (codes), "
        "which makes labels that sum to less than 1",
    )
    warm_up_loss: Literal["joint", "cross_entropy"] = fl.option(
        "joint",
        doc="before start_round: all three terms, or cross-entropy alone (FedCorr's baseline)",
    )
    local_epochs: int | None = fl.option(
        None, doc="local epochs from start_round on; null: the schedule's", at_least=1
    )

    variants: ClassVar = {
        "fedcorr": {"start_round": 20, "warm_up_loss": "cross_entropy", "local_epochs": 20},
        "fedrn": {"history": 15, "underfilled": "history"},
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The round in which the change of labels begins."""
        return {"the change of labels (start_round)": self.start_round}

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """The run's schedule; from ``start_round`` on, with ``local_epochs`` epochs if set."""
        current = super().local_schedule(round, schedule)
        if self.local_epochs is None or round < self.start_round:
            return current
        return current.model_copy(update={"local_epochs": self.local_epochs})

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``outputs`` [samples, Q, classes], ring buffers of softmax outputs, and ``written``
        [samples], the number of entries written so far.
        """
        if "outputs" in client.state:
            return {name: client.state[name] for name in ("outputs", "written")}
        weight = federation.weights["0.classifier.weight"]
        return {
            "outputs": weight.new_zeros(len(client), self.history, len(weight)),
            "written": torch.zeros_like(client.labels),
        }

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set for each step whether it learns from new labels, and whether the two terms beside
        cross-entropy count.
        """
        epoch = super().epoch(client, turn)
        started = turn.round >= self.start_round
        # The first local epoch to be followed by new labels still learns from the old ones.
        renewed = started and (turn.number > 0 or "renewed" in client.state)
        terms = float(started or self.warm_up_loss == "joint")
        count = len(epoch.steps)
        extras: dict[str, list] = {"renewed": [renewed] * count, "terms": [terms] * count}
        return fl.Epoch(epoch.steps, epoch.targets, extras)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """L_c + alpha L_p + beta L_e with a uniform prior.

        A sample occurs once in an epoch, so that its ring buffer, read before this step's output is
        written, is as it was when the last epoch ended.
        """
        logits = model(batch.images).logits
        log_softmax = logits.log_softmax(1)
        softmax = log_softmax.exp()
        outputs, written = batch.memory["outputs"], batch.memory["written"]
        seen = written[batch.positions]
        soft = self.soft_labels(outputs[batch.positions], seen)
        outputs[batch.positions, seen % self.history] = softmax.detach()
        written[batch.positions] = seen + 1

        classification = torch.where(
            batch["renewed"] & (seen > 0),
            -(soft * log_softmax).sum(1),
            fl.cross_entropy(logits, batch.target),
        ).mean()
        size, classes = softmax.shape
        log_mean = log_softmax.logsumexp(0) - math.log(size)
        prior = -(log_mean + math.log(classes)).mean()
        entropy = -(softmax * log_softmax).sum(1).mean()
        return classification + batch["terms"] * (self.alpha * prior + self.beta * entropy)

    def soft_labels(self, outputs: Tensor, written: Tensor) -> Tensor:
        """[n, classes], soft labels, from ring buffers [n, Q, classes] and the number of entries
        written to each so far [n].
        """
        if self.underfilled == "history":
            return outputs.mean(1)
        return outputs.sum(1) / written.clamp(1, self.history)[:, None]

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep the ring buffers; from ``start_round`` on, a client's labels become the classes with
        the largest entries of its soft labels.
        """
        for update in updates:
            client = update.client
            client.state.update(update.memory)
            if round < self.start_round or not update.steps:
                continue
            client.state["renewed"] = True
            seen = update.memory["written"]
            hard = self.soft_labels(update.memory["outputs"], seen).argmax(1)
            client.labels = torch.where(seen > 0, hard, client.labels)
            federation.report(client, label_accuracy=client.accuracy_of(client.labels))
