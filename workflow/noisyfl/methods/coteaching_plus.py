"""Co-teaching+ (Yu et al., 2019): co-teaching on what the two networks disagree about."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.coteaching import CoTeaching, smallest


@fl.METHODS.register("coteaching_plus")
class CoTeachingPlus(CoTeaching):
    """Co-teaching, but after a warm-up the networks pick only among those samples of a batch for
    which they predict different classes (Algorithm 1). The share of these that is left out is the
    share that co-teaching leaves out of the batch. The picks that are reported are among them too.
    """

    reference = (
        "Yu et al., How does Disagreement Help Generalization against Label Corruption?, ICML 2019"
    )

    warm_up_rounds: int = fl.option(
        20, doc="rounds of co-teaching before", at_least=0, share_of=("rounds", 200)
    )
    double_softmax: bool = fl.option(
        False,
        doc="after the warm-up, cross-entropy takes softmax outputs for logits (official code)",
    )
    full_agreement: Literal["nothing", "all"] = fl.option(
        "nothing",
        doc="what a batch teaches that the networks agree on: nothing (Algorithm 1), or all of it "
        "(official code, while epoch times batch is below 5000)",
    )

    variants: ClassVar = {
        "official": {
            "ramp": "linspace",
            "double_division": True,
            "double_softmax": True,
            "full_agreement": "all",
        },
    }

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set for each step, and for every number of samples that the networks may disagree on, how
        many of these count; in the warm-up, as co-teaching.
        """
        if turn.round < self.warm_up_rounds:
            return super().epoch(client, turn)
        epoch = fl.ClientSide.epoch(self, client, turn)
        share = 1 - self.rate(client, turn.round)
        kept = [
            [min(of, max(1, fl.round_down(share * of))) for of in range(len(step) + 1)]
            for step in epoch.steps
        ]
        return fl.Epoch(epoch.steps, epoch.targets, {"kept_of": kept})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class; a network that is taught nothing has a loss of 0."""
        if "kept_of" not in batch:
            return super().loss(model, batch)
        logits = [model(batch.images, network).logits for network in (0, 1)]
        disagreed = logits[0].argmax(1) != logits[1].argmax(1)
        if self.double_softmax:
            logits = [values.softmax(1) for values in logits]
        losses = [fl.cross_entropy(values, batch.target) for values in logits]
        kept = batch["kept_of"].gather(0, disagreed.sum()[None])
        picks = [
            smallest(values.detach().masked_fill(~disagreed, torch.inf), kept) for values in losses
        ]
        batch.memory["picked"][batch.positions] = picks[0]
        count = picks[0].sum().clamp(min=1)
        if self.full_agreement == "all":
            picks = [pick | ~disagreed.any() for pick in picks]
        loss = fl.mean_where(losses[0], picks[1]) + fl.mean_where(losses[1], picks[0])
        return loss / count if self.double_division else loss
