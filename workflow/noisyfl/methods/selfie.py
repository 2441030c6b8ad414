"""SELFIE (Song et al., ICML 2019): samples whose predictions are steady get new labels."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.coteaching import ForgetRate, smallest

EMPTY = -1
"""In the place of a class: there is no prediction, or no new label, yet."""


@fl.METHODS.register("selfie")
class Selfie(ForgetRate):
    """A step learns from the small losses of its batch, and from its refurbishable samples: they
    go through the network once more, without the others, so that these do not enter the batch
    statistics.

    A sample is refurbishable where the last q predictions of its class hardly differ; its label is
    then the one most often predicted, and it keeps it. The restarts of the paper are left out, as
    in FedRN. The label precision and recall of a round are those of the small losses in the last
    local epoch (of all samples in the warm-up), against the labels before refurbishing.
    """

    reference = "Song et al., SELFIE: Refurbishing Unclean Samples for Robust DL, ICML 2019"
    revision = 2
    cost = fl.Cost(effort=1.4)
    by_sample = ("predictions", "written", "refurbished", "picked")

    uncertainty: float = fl.option(
        0.05,
        doc="epsilon: entropy of the predictions, over the largest possible, up to which a sample "
        "is refurbishable",
        at_least=0,
        at_most=1,
    )
    history: int = fl.option(15, doc="q: predictions kept of each sample", at_least=1)
    warm_up_rounds: int = fl.option(
        100,
        doc="first rounds, of plain cross-entropy; predictions are kept",
        at_least=0,
        share_of=("rounds", 500),
    )
    empty_entries: Literal["wait", "class_zero"] = fl.option(
        "wait",
        doc="a history of fewer than q predictions: its sample is not refurbishable yet, or class "
        "0 stands for what is missing (codes)",
    )
    current_prediction: Literal["after", "before"] = fl.option(
        "after",
        doc="a step's predictions enter the history after its samples are judged (official code), "
        "or before (FedRN's)",
    )
    own_forward: bool = fl.option(
        True,
        doc="losses and predictions are of a forward pass of the whole batch before the one of the "
        "chosen samples that is learnt from (codes), or of the same one; differs where there is "
        "dropout or batch normalisation",
    )

    variants: ClassVar = {
        "official": {"empty_entries": "class_zero"},
        "fedrn": {
            "forget_rate": 0.2,
            "empty_entries": "class_zero",
            "current_prediction": "before",
        },
    }

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``predictions`` [samples, q], a ring buffer of predicted classes for each sample;
        ``written`` [samples], the number of entries written so far; ``refurbished`` [samples], the
        new label if there is one; ``picked`` [samples], whether the loss was small.
        """
        kept = ("predictions", "written", "refurbished")
        picked = torch.zeros_like(client.labels, dtype=torch.bool)
        if "predictions" in client.state:
            return {"picked": picked, **{name: client.state[name] for name in kept}}
        start = EMPTY if self.empty_entries == "wait" else 0
        return {
            "picked": picked,
            "predictions": client.labels.new_full((len(client), self.history), start),
            "written": torch.zeros_like(client.labels),
            "refurbished": torch.full_like(client.labels, EMPTY),
        }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The round in which the choice of small losses, and with it refurbishing, begins."""
        return {"the choice of small losses (warm_up_rounds)": self.warm_up_rounds}

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """After the warm-up, set how many losses of each batch count as small: a share of 1 - tau,
        rounded up; at least two, since batch normalisation cannot train on one value a channel.
        """
        epoch = super().epoch(client, turn)
        if turn.round < self.warm_up_rounds:
            return epoch
        share = 1 - client.state["forget_rate"]
        kept = [max(min(2, len(step)), fl.round_up(share * len(step))) for step in epoch.steps]
        # The losses decide how many samples the second forward pass has.
        repeatable = not self.own_forward
        return fl.Epoch(epoch.steps, epoch.targets, {"kept": kept}, repeatable=repeatable)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Mean cross-entropy over the samples with small losses and the refurbishable ones; in the
        warm-up, over all.
        """
        memory, positions = batch.memory, batch.positions
        if "kept" not in batch:
            logits = model(batch.images).logits
            self._remember(logits, batch)
            memory["picked"][positions] = torch.ones_like(positions, dtype=torch.bool)
            return fl.cross_entropy(logits, batch.target).mean()
        forward = model.look if self.own_forward else model
        logits = forward(batch.images).logits
        small = smallest(fl.cross_entropy(logits, batch.target), batch["kept"])
        if self.current_prediction == "before":
            self._remember(logits, batch)
        label, steady = self.refurbish(memory["predictions"][positions], logits.shape[1])
        label = torch.where(steady, label, memory["refurbished"][positions])
        if self.current_prediction == "after":
            self._remember(logits, batch)
        memory["refurbished"][positions] = label
        memory["picked"][positions] = small
        refurbished = label != EMPTY
        target = torch.where(refurbished, label, batch.target)
        chosen = small | refurbished
        if not self.own_forward:
            return fl.mean_where(fl.cross_entropy(logits, target), chosen)
        return fl.cross_entropy(model(batch.images[chosen]).logits, target[chosen]).mean()

    def _remember(self, logits: Tensor, batch: fl.Batch) -> None:
        written = batch.memory["written"]
        seen = written[batch.positions]
        batch.memory["predictions"][batch.positions, seen % self.history] = logits.argmax(1)
        written[batch.positions] = seen + 1

    def refurbish(self, predictions: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """The label most often predicted, and whether a sample is refurbishable.

        Args:
            predictions: [n, q], the last q predictions of each sample.
            classes: the number of classes.

        Returns:
            int64 [n] and bool [n].
        """
        every = torch.arange(classes, device=predictions.device)
        counts = (predictions[:, :, None] == every).sum(1)
        entropy = torch.special.entr(counts / self.history).sum(1) / math.log(classes)
        full = counts.sum(1) == self.history
        return counts.argmax(1), full & (entropy <= self.uncertainty)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep the histories; report the small losses and the new labels."""
        for update in updates:
            client, memory = update.client, dict(update.memory)
            federation.report_selection(client, memory.pop("picked"))
            client.state.update(memory)
            if round < self.warm_up_rounds:
                continue
            refurbished = memory["refurbished"] != EMPTY
            estimates = {"refurbished": float(refurbished.double().mean())}
            if refurbished.any():
                right = client.accuracy_of(memory["refurbished"], refurbished)
                estimates["refurbished_accuracy"] = right
            federation.report(client, **estimates)
            federation.report_labels(client, memory["refurbished"])
