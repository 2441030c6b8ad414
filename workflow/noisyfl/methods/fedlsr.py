"""FedLSR (Jiang et al., CIKM 2022): two views get similar, confident predictions."""

from __future__ import annotations

import dataclasses
from typing import Literal

from torch import Tensor

import noisyfl.method as fl

LEAST = 1e-6
"""Lower bound that probabilities are clamped to (official code)."""


@fl.METHODS.register("fedlsr")
class FedLSR(fl.ClientSide):
    """Cross-entropy of the sharpened mixture of both views' predictions, + gamma times the
    Jensen-Shannon divergence between them (self-distillation), + lambda_e times their entropy.
    gamma grows over the first rounds. The share of the mixture is drawn for each step.
    """

    reference = (
        "Jiang et al., Towards Federated Learning against Noisy Labels via Local "
        "Self-Regularization, CIKM 2022"
    )
    cost = fl.Cost(effort=2.0)

    gamma: float = fl.option(0.4, doc="weight of self-distillation", at_least=0)
    entropy_weight: float = fl.option(0.6, doc="lambda_e: weight of the entropy", at_least=0)
    temperature: float = fl.option(1 / 3, doc="T_d: of the predictions that are compared", above=0)
    ramp_rounds: int = fl.option(
        20, doc="T_w: rounds until gamma is reached", at_least=0, share_of=("rounds", 100)
    )
    loss_form: Literal["double_softmax", "cross_entropy"] = fl.option(
        "double_softmax",
        doc="what cross-entropy and entropy are of: probabilities taken for logits, and the first "
        "view's entropy alone (official code), or the probabilities themselves, and both views'",
    )
    first_view: Literal["plain", "weak"] = fl.option(
        "plain",
        doc="the image beside the augmented one: as it is (official code), or as in training",
    )
    second_view: Literal["mild", "strong", "weak"] = fl.option(
        "mild",
        doc="the augmented image: turned, or mirrored and in other colours, alike in a batch "
        "(paper, official code); RandAugment's and cutout's; or as in training",
    )

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Ask for two views, and set the first view's share in the mixture, and gamma, for each
        step.
        """
        epoch = super().epoch(client, turn)
        count = len(epoch.steps)
        grown = min(1.0, turn.round / self.ramp_rounds) if self.ramp_rounds else 1.0
        shares = turn.random_stream("mixture").uniform(size=count)
        extras = {"share": shares.tolist(), "gamma": [self.gamma * grown] * count}
        return dataclasses.replace(epoch, extras=extras, views=(self.first_view, self.second_view))

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class."""
        logits = [model(view).logits for view in batch.views]
        first, second = (values.softmax(1) for values in logits)
        mixture = batch["share"] * first + (1 - batch["share"]) * second
        sharpened = mixture.square() / mixture.square().sum(1, keepdim=True)
        predictions = [(values / self.temperature).softmax(1).clamp(LEAST, 1) for values in logits]
        if self.loss_form == "double_softmax":
            supervised = fl.cross_entropy(sharpened, batch.target).mean()
            entropy = entropy_of(predictions[0].softmax(1))
        else:
            chosen = sharpened.gather(1, batch.target[:, None])
            supervised = -chosen.clamp(min=LEAST).log().mean()
            entropy = (entropy_of(predictions[0]) + entropy_of(predictions[1])) / 2
        apart = batch["gamma"] * jensen_shannon(*predictions)
        return supervised + apart + self.entropy_weight * entropy


def entropy_of(probability: Tensor) -> Tensor:
    """The mean entropy of distributions [n, classes], all positive."""
    return -(probability * probability.log()).sum(1).mean()


def jensen_shannon(one: Tensor, other: Tensor) -> Tensor:
    """The terms of the Jensen-Shannon divergence of distributions [n, classes], averaged over
    samples and classes.
    """
    middle = ((one + other) / 2).log()
    parts = [(part * (part.log() - middle)).mean() for part in (one, other)]
    return (parts[0] + parts[1]) / 2
