"""Early-learning regularisation (Liu et al., 2020): predictions stay near early ones."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

import noisyfl.method as fl

LEAST = 1e-4
"""Probabilities are kept at least this far from 0 and 1 (official code)."""


@fl.METHODS.register("elr")
class EarlyLearning(fl.ClientSide):
    """Cross-entropy + lambda mean log(1 - <t, p>), where t is a sample's running mean of its
    probabilities p (Eqs. 6 and 9). A client keeps the means of its samples between rounds.
    """

    reference = (
        "Liu et al., Early-Learning Regularization Prevents Memorization of Noisy Labels, "
        "NeurIPS 2020"
    )
    by_sample = ("targets",)

    target_momentum: float = fl.option(
        0.7, doc="beta: what the running mean keeps in an epoch", at_least=0, below=1
    )
    weight: float = fl.option(3.0, doc="lambda, of the regulariser; 7 on CIFAR-100", at_least=0)

    variants: ClassVar = {
        "asymmetric": {"target_momentum": 0.9, "weight": 1.0},
        "cifar100": {"target_momentum": 0.9, "weight": 7.0},
    }

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``targets`` [samples, classes], zeros at first."""
        if "targets" in client.state:
            return {"targets": client.state["targets"]}
        weight = federation.weights["0.classifier.weight"]
        return {"targets": weight.new_zeros(len(client), federation.classes)}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class; the running mean is updated before it is used."""
        logits = model(batch.images).logits
        probability = logits.softmax(1).clamp(LEAST, 1 - LEAST)
        said = probability.detach() / probability.detach().sum(1, keepdim=True)
        targets, keep = batch.memory["targets"], self.target_momentum
        target = keep * targets[batch.positions] + (1 - keep) * said
        targets[batch.positions] = target
        agreement = (target * probability).sum(1)
        supervised = fl.cross_entropy(logits, batch.target).mean()
        return supervised + self.weight * (1 - agreement).log().mean()

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep the running means of the participants' samples."""
        for update in updates:
            update.client.state["targets"] = update.memory["targets"]
