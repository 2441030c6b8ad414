"""Dynamic bootstrapping (Arazo et al., ICML 2019): a mixture of losses says how far to trust each
label.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import noisyfl.method as fl
from noisyfl.methods.estimators.beta_mixture import fit_two_betas

TAIL = 5
"""Percent of the losses that are left out of the mixture at each end (official code)."""

CELLS = 100
"""The entries of the table of probabilities, by the scaled loss (official code)."""

INSIDE, LEAST = 1e-3, 1e-4
"""Scaled losses outside of 0 to 1 become this far from 0 or 1; a step keeps the probability that a
label is wrong at least ``LEAST`` from 0 and 1 (official code).
"""

COLDEST = 1e-3
"""The last temperature of predictions that become hard (official code)."""

WRONG = "wrong_label"
"""Key of a client's state: float64 [samples], the probability that each label is wrong."""


@fl.METHODS.register("dynamic_bootstrapping")
class DynamicBootstrapping(fl.ClientSide):
    """Mixup, whose targets are (1 - w) label + w prediction after a warm-up (M-DYR).

    w is the probability that a sample's label is wrong: the posterior, given its loss, of the
    component with the larger losses in a mixture of two beta distributions. Before each local epoch
    a client fits the mixture to the losses of its samples under the local model. A prediction is
    that for the image before mixing: the softmax output (M-DYR-S), or its largest class (variant
    ``hard``, M-DYR-H). A penalty spreads the mean prediction of a batch over the classes.

    With dynamic mixup (variant ``dynamic``, MD-DYR-SH) an image's share in its mixture is that of
    1 - w, both images' targets count equally, and predictions turn from soft to hard.
    """

    reference = (
        "Arazo et al., Unsupervised Label Noise Modeling and Loss Correction, ICML 2019; rounds "
        "after FedNoisy (Liang et al., arXiv 2306.11650, 2023)"
    )
    cost = fl.Cost(effort=1.7)

    prediction: Literal["soft", "hard", "soft_to_hard"] = fl.option(
        "soft",
        doc="what replaces a label: the softmax output, its largest class, or the softmax output, "
        "at a temperature that falls from 1 to 0.001",
    )
    mixing: Literal["static", "dynamic"] = fl.option(
        "static",
        doc="shares of images in a mixture: drawn, or by how likely their labels are right",
    )
    warm_up_rounds: int = fl.option(
        105, doc="rounds of mixup alone", at_least=1, share_of=("rounds", 300)
    )
    guided_rounds: int = fl.option(
        5,
        doc="then, with dynamic mixup, rounds in which only the images' shares depend on w",
        at_least=0,
        share_of=("rounds", 300),
    )
    hard_round: int = fl.option(
        200,
        doc="round in which predictions that turn from soft to hard are hard",
        at_least=1,
        share_of=("rounds", 300),
    )
    mixup_alpha: float = fl.option(32.0, doc="of the Beta distribution of shares", above=0)
    prior_weight: float = fl.option(
        1.0, doc="of the penalty that spreads predictions over the classes", at_least=0
    )
    mixture_iterations: int = fl.option(10, doc="iterations of a mixture's fit", at_least=1)

    variants: ClassVar = {
        "hard": {"prediction": "hard"},
        "dynamic": {"mixing": "dynamic", "prediction": "soft_to_hard"},
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The end of the warm-up, and that of dynamic mixup alone."""
        starts = {"the mixture of losses (warm_up_rounds)": self.warm_up_rounds}
        if self.mixing == "dynamic":
            starts["the correction of labels (guided_rounds)"] = self.first_corrected
        return starts

    @property
    def first_corrected(self) -> int:
        """The first round in which predictions replace labels in part."""
        guided = self.guided_rounds if self.mixing == "dynamic" else 0
        return self.warm_up_rounds + guided

    def temperature(self, round: int) -> float:
        """Of the predictions' softmax in a round, counted from 0: it falls linearly."""
        if self.prediction != "soft_to_hard":
            return 1.0
        last = self.hard_round - self.first_corrected - 1
        done = min(round - self.first_corrected, last) / last if last > 0 else 1.0
        return 1 - (1 - COLDEST) * done

    # ---------------------------------------------------------------- a local epoch

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Draw what mixup needs and, after the warm-up, fit the mixture of losses."""
        epoch = super().epoch(client, turn)
        count = len(epoch.steps)
        extras = fl.mixup_draws(epoch.steps, turn, self.mixup_alpha)
        if turn.round >= self.warm_up_rounds:
            logits = turn.outputs("mixture", 0, "weak").logits
            losses = fl.cross_entropy(logits, client.labels).double().cpu().numpy()
            table, low, spread = self.probabilities(losses)
            wrong = looked_up(torch.from_numpy(table), torch.from_numpy(losses), low, spread)
            client.state[WRONG] = wrong.to(client.labels.device)
            extras["table"] = [table.astype(np.float32)] * count
            extras["low"], extras["spread"] = [low] * count, [spread] * count
        if turn.round >= self.first_corrected:
            extras["temperature"] = [self.temperature(turn.round)] * count
        return fl.Epoch(epoch.steps, epoch.targets, extras)

    def probabilities(self, losses: np.ndarray) -> tuple[np.ndarray, float, float]:
        """The probability that a label is wrong, by its loss: a table, float64 [CELLS], and the
        loss and the spread of losses that it begins at and covers.

        The mixture leaves out the smallest and the largest losses. From its largest probability on,
        the table does not fall. If losses are not finite, or hardly differ, all labels are right.

        Args:
            losses: float64 [samples].
        """
        nothing = np.zeros(CELLS), 0.0, 1.0
        if not np.isfinite(losses).all():
            return nothing
        smallest, largest = np.percentile(losses, [TAIL, 100 - TAIL])
        low = float(smallest + 1e-5)
        spread = float(largest - low + 1e-6)
        kept = losses[(losses >= smallest) & (losses <= largest)]
        scaled = (kept - low) / spread if spread > 0 else kept[:0]
        scaled = np.where(scaled >= 1, 1 - INSIDE, np.where(scaled <= 0, INSIDE, scaled))
        if len(np.unique(scaled)) < 2:
            return nothing
        mixture = fit_two_betas(scaled, self.mixture_iterations)
        table = mixture.posterior(np.linspace(1e-12, 1 - 1e-12, CELLS))
        table[table.argmax() :] = table.max()
        return table, low, spread

    # ---------------------------------------------------------------- a step

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Mixup's loss in the warm-up; then see the class.

        Predictions come from a pass in training mode, losses from one in evaluation mode, both
        under the current model (official code).
        """
        if "table" not in batch:
            return fl.mixed_losses(model(fl.mixed_images(batch)).logits, batch).mean()
        index, corrected = batch["mixup_index"], "temperature" in batch
        said = model.look(batch.images).logits if corrected else None
        tested = model.look(batch.images, evaluating=True).logits
        losses = fl.cross_entropy(tested, batch.target)
        wrong = looked_up(batch["table"], losses, batch["low"], batch["spread"])
        wrong = wrong.clamp(LEAST, 1 - LEAST).to(tested.dtype)

        logits = model(self.mixed(batch, wrong)).logits
        if said is None:
            return fl.mixed_losses(logits, batch).mean()
        target = functional.one_hot(batch.target, logits.shape[1]).to(logits.dtype)
        target = (1 - wrong)[:, None] * target + wrong[:, None] * self.replacement(said, batch)
        share = batch["share"] if self.mixing == "static" else 0.5
        mixed = share * target + (1 - share) * target[index]
        log_probability = logits.log_softmax(1)
        log_mean = log_probability.logsumexp(0) - math.log(len(logits))
        prior = -math.log(logits.shape[1]) - log_mean.mean()
        return -(mixed * log_probability).sum(1).mean() + self.prior_weight * prior

    def replacement(self, logits: Tensor, batch: fl.Batch) -> Tensor:
        """What replaces labels, [batch, classes], see the option ``prediction``."""
        if self.prediction == "hard":
            return functional.one_hot(logits.argmax(1), logits.shape[1]).to(logits.dtype)
        return (logits / batch["temperature"]).softmax(1)

    def mixed(self, batch: fl.Batch, wrong: Tensor) -> Tensor:
        """The batch's images, mixed; with dynamic mixup, an image counts for the probability that
        its label is right.
        """
        if self.mixing == "static":
            return fl.mixed_images(batch)
        right, index = 1 - wrong, batch["mixup_index"]
        share = (right / (right + right[index]))[:, None, None, None]
        return share * batch.images + (1 - share) * batch.images[index]

    # ---------------------------------------------------------------- afterwards

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report the samples whose labels the last local epoch's mixture finds right."""
        for client in (update.client for update in updates):
            if WRONG in client.state:
                right = client.state.pop(WRONG) <= 0.5
                federation.report_selection(client, right)
                federation.report(client, estimated_noise_level=float((~right).double().mean()))


def looked_up(table: Tensor, losses: Tensor, low: Tensor | float, spread: Tensor | float) -> Tensor:
    """The probability that each label is wrong, [n].

    Args:
        table: see :meth:`DynamicBootstrapping.probabilities`, also for the other two.
        losses: [n].
        low: the loss that the table begins at.
        spread: the spread of losses that it covers.
    """
    scaled = ((losses - low) / spread).clamp(INSIDE, 1 - INSIDE)
    return table[(CELLS * scaled).long().clamp(0, CELLS - 1)]
