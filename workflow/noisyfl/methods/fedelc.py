"""FedELC (Jiang et al., CIKM 2024): noisy clients learn their labels together with the model."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional

import noisyfl.method as fl
from noisyfl.methods.fednoro import TwoStages, distance_aware


@fl.METHODS.register("fedelc")
class FedELC(TwoStages):
    """The first stage is FedNoRo's. In the second a noisy client holds label logits of each sample,
    at first K times the one-hot label, whose softmax is what the model learns; a step moves those
    of its batch down the same loss, at a rate of their own. After the local update they become K
    times the mean of their softmax and the local model's.
    """

    reference = (
        "Jiang et al., Tackling Noisy Clients in Federated Learning with End-to-end Label "
        "Correction, CIKM 2024"
    )
    cost = fl.Cost(effort=1.2)
    by_sample = ("label_logits",)

    warm_up_rounds: int = fl.option(
        20, doc="rounds before noisy clients are found", at_least=1, share_of=("rounds", 120)
    )
    label_scale: float = fl.option(10.0, doc="K: a one-hot label's logit", above=0)
    label_rate: float = fl.option(1000.0, doc="lambda: learning rate of label logits", at_least=0)
    label_batch: int | None = fl.option(
        64,
        doc="samples of whose mean loss label logits go down the gradient, as the code's batch "
        "has; null: as many as the batch has",
        at_least=1,
    )
    given_weight: float = fl.option(
        0.5, doc="alpha: holds label logits near the given label", at_least=0
    )
    entropy_weight: float = fl.option(
        0.2, doc="beta: weight of the predictions' entropy", at_least=0
    )

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """FedNoRo's ``log_prior``, and the client's ``label_logits`` [samples, classes]."""
        held = super().memory(client, federation)
        if "label_logits" in client.state:
            return {**held, "label_logits": client.state["label_logits"]}
        one_hot = functional.one_hot(client.given, federation.classes).to(held["log_prior"].dtype)
        return {**held, "label_logits": self.label_scale * one_hot}

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Take the given labels as targets, even where the client has learnt others, and mark the
        steps that learn labels: those of a noisy client in the second stage.
        """
        epoch = dataclasses.replace(super().epoch(client, turn), targets=client.given)
        if not self.correcting(client, turn.round):
            return epoch
        return dataclasses.replace(epoch, extras={"correcting": [True] * len(epoch.steps)})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """For a noisy client in the second stage, with C classes: KL(prediction || learnt label)
        / C + alpha cross-entropy of the given label and the learnt one + beta entropy of the
        prediction / C (PENCIL's loss).

        The gradient of the label logits is computed in closed form, and their step is taken here:
        a sample occurs only once in an epoch.
        """
        if "correcting" not in batch:
            return super().loss(model, batch)
        logits = model(batch.images).logits
        log_probability = logits.log_softmax(1)
        probability = log_probability.exp()
        count, classes = logits.shape
        learnt = batch.memory["label_logits"]
        own = learnt[batch.positions]
        log_label = own.log_softmax(1)
        held = self.pull_strength(
            functional.cross_entropy(logits, batch.target, reduction="none").detach()
        )

        entropy = -(probability * log_probability).sum(1).mean()
        divergence = -(probability * log_label).sum(1).mean() - entropy
        given = -(log_label.gather(1, batch.target[:, None])[:, 0] * held).mean()

        label = log_label.exp()
        one_hot = functional.one_hot(batch.target, classes)
        gradient = (label - probability.detach()) / classes
        gradient = gradient + self.given_weight * held[:, None] * (label - one_hot)
        among = count if self.label_batch is None else self.label_batch
        learnt[batch.positions] = own - self.label_rate * gradient / among
        return (divergence + self.entropy_weight * entropy) / classes + self.given_weight * given

    def pull_strength(self, losses: Tensor) -> Tensor:
        """[n], how strongly each sample's label logits are held near the given label.

        Args:
            losses: [n], cross-entropies of the given labels.
        """
        return torch.ones_like(losses)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Merge the noisy clients' label logits with the predictions of their local models."""
        noisy = [update for update in updates if self.correcting(update.client, round)]
        for update, outputs in federation.ask(noisy, "merging"):
            client = update.client
            said = outputs.logits.softmax(1)
            merged = (update.memory["label_logits"].softmax(1) + said) / 2
            client.state["label_logits"] = self.label_scale * merged
            client.labels = merged.argmax(1)
            federation.report(client, label_accuracy=client.accuracy_of(client.labels))

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """FedNoRo's distance-aware mean."""
        return distance_aware(updates, federation)
