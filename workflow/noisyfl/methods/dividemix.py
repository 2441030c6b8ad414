"""DivideMix (Li et al., ICLR 2020): two networks split the samples for each other and learn from
the doubtful ones without their labels.

Equation and algorithm numbers are the paper's. Where the official code does otherwise the choice is
an option.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import noisyfl.method as fl
from noisyfl.methods.estimators.mixture import fit_two

TOLERANCE, REGULARISATION = 1e-2, 5e-4
"""The settings of a mixture's fit in the official code."""

SPLIT = "dividemix"
"""The key, in a client's state during a round, of the probability that each label is clean, as each
of the two networks estimates it: float64 [2, samples]."""

LEARNS = ("first learns", "second learns")
"""Names of extras: the one that a batch has says whether the first or the second network learns."""


@fl.METHODS.register("dividemix")
class DivideMix(fl.ClientSide):
    """A local epoch is Algorithm 1's: both networks split the client's samples, then each learns
    with the other's split, the first one before the second.

    A local epoch of the schedule is two of the simulation, one for each network. A step has
    ``batch_size`` samples selected as clean, and as many others, each in two views. Labels are
    guessed in four passes, one for each view of each part, so that batch normalisation sees what it
    sees in the codes; the mixed images are one pass. Warm-up and ramp count rounds. Where a split
    leaves one side empty, the network learns all labels as in the warm-up.
    """

    reference = (
        "Li et al., DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR 2020"
    )
    revision = 2
    networks = 2
    cost = fl.Cost(effort=3.5)

    warm_up_rounds: int = fl.option(
        10, doc="rounds of plain cross-entropy", at_least=0, share_of=("rounds", 50)
    )
    local_epochs: int | None = fl.option(
        None, doc="local epochs after the warm-up; null: the schedule's", at_least=1
    )
    clean_threshold: float = fl.option(
        0.5, doc="tau: probability above which a sample is clean", at_least=0, at_most=1
    )
    temperature: float = fl.option(0.5, doc="T of the sharpening", above=0)
    mixup_alpha: float = fl.option(4.0, doc="alpha of MixMatch's Beta distribution", above=0)
    unlabelled_weight: float = fl.option(
        25.0, doc="lambda_u; the paper takes 0 to 150 by dataset and noise", at_least=0
    )
    ramp_rounds: int = fl.option(
        16, doc="rounds after the warm-up until lambda_u is reached", at_least=0
    )
    prior_weight: float = fl.option(
        1.0, doc="lambda_r, of the penalty that spreads predictions over the classes", at_least=0
    )
    confidence_penalty: bool = fl.option(
        False, doc="negative entropy in the warm-up, which the paper has for asymmetric noise"
    )
    squared_error: Literal["mean", "sum"] = fl.option(
        "mean", doc="over the classes: their mean (code), or their sum (Eq. 10)"
    )
    mixture_iterations: int = fl.option(
        10, doc="most iterations of a mixture's fit: 10 in the code, 100 in FedRN's", at_least=1
    )
    split_view: Literal["plain", "weak"] = fl.option(
        "plain",
        doc="the images whose losses are split: plain (code), or as in training (FedRN's code)",
    )
    own_guess: Literal["training", "evaluation"] = fl.option(
        "training", doc="mode in which the network that learns guesses labels (code: training)"
    )
    unlabelled_batches: Literal["filled", "short"] = fl.option(
        "filled",
        doc="how many samples without label a step has: as many as with one (Algorithm 1), or what "
        "a pass over them in batches has left, so that the last batch is short (codes)",
    )
    momentum: Literal["update", "epoch"] = fl.option(
        "update",
        doc="after the warm-up, where momentum starts at zero: in a local update, or for each "
        "network in each local epoch (FedRN's code)",
    )
    tested: Literal["sum", "mean", "first"] = fl.option(
        "sum",
        doc="what is tested: the sum of both networks' logits (code), their mean softmax, or the "
        "first network",
    )

    variants: ClassVar = {
        "fedrn": {
            "warm_up_rounds": 100,
            "mixture_iterations": 100,
            "split_view": "weak",
            "unlabelled_batches": "short",
            "momentum": "epoch",
            "tested": "first",
        },
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The split of samples."""
        return {"the split of samples (warm_up_rounds)": self.warm_up_rounds}

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """Two epochs for each local epoch: one for each network."""
        schedule = super().local_schedule(round, schedule)
        epochs = schedule.local_epochs
        if self.local_epochs is not None and round >= self.warm_up_rounds:
            epochs = self.local_epochs
        return schedule.model_copy(update={"local_epochs": 2 * epochs})

    def epochs_of_round(self, round: int, schedule: fl.Schedule) -> int:
        """Half of the epochs, as each network learns in every other one."""
        return self.local_schedule(round, schedule).local_epochs // 2

    # ---------------------------------------------------------------- the split

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Half of an epoch of Algorithm 1: one network learns."""
        network = turn.number % 2
        if turn.round < self.warm_up_rounds:
            return self._plain(client, turn, network)
        if network == 0:
            splits = [self._clean_probability(client, turn, other) for other in (0, 1)]
            client.state[SPLIT] = torch.stack(splits)
        probability = client.state[SPLIT][1 - network].cpu().numpy()
        clean = probability > self.clean_threshold
        if clean.all() or not clean.any():
            return self._plain(client, turn, network)

        labelled = fl.batches(np.flatnonzero(clean), turn.batch_size, turn.random_stream("batches"))
        sizes = [len(step) for step in labelled]
        unlabelled = self._unlabelled(np.flatnonzero(~clean), sizes, turn)
        steps = [np.concatenate(pair) for pair in zip(labelled, unlabelled, strict=True)]
        rng = turn.random_stream("mixup")
        shares = rng.beta(self.mixup_alpha, self.mixup_alpha, size=len(sizes))
        ramp = min(1.0, (turn.round - self.warm_up_rounds) / max(self.ramp_rounds, 1))
        weight = self.unlabelled_weight * (ramp if self.ramp_rounds else 1.0)
        return fl.Epoch(
            steps,
            client.labels,
            {
                LEARNS[network]: [True] * len(sizes),
                "clean": [probability[step] for step in labelled],
                "share": [float(max(share, 1 - share)) for share in shares],
                "mixup_index": [rng.permutation(2 * len(step)) for step in steps],
                "unlabelled": [weight] * len(sizes),
            },
            views=("weak", "weak"),
            learns=f"{network}.",
            fresh_momentum=self.momentum == "epoch",
        )

    def _unlabelled(self, pool: np.ndarray, sizes: list[int], turn: fl.Turn) -> list[np.ndarray]:
        """The samples without label of each step. All such samples are gone through as often as
        needed, in a new order each time.

        Args:
            pool: positions of all samples without label.
            turn: the local epoch.
        """
        rng = turn.random_stream("unlabelled batches")
        if self.unlabelled_batches == "filled":
            ends = np.cumsum(sizes)
            passes = math.ceil(ends[-1] / len(pool))
            order = np.concatenate([rng.permutation(pool) for _ in range(passes)])
            return np.split(order[: ends[-1]], ends[:-1])
        cuts = np.arange(turn.batch_size, len(pool), turn.batch_size)
        steps: list[np.ndarray] = []
        while len(steps) < len(sizes):
            steps += np.split(rng.permutation(pool), cuts)
        return steps[: len(sizes)]

    def _plain(self, client: fl.Client, turn: fl.Turn, network: int) -> fl.Epoch:
        """An epoch of plain training: one network learns all samples with their labels."""
        epoch = super().epoch(client, turn)
        extras = {LEARNS[network]: [True] * len(epoch.steps)}
        warm = turn.round < self.warm_up_rounds
        fresh = self.momentum == "epoch" and not warm
        learns = f"{network}."
        return fl.Epoch(epoch.steps, epoch.targets, extras, learns=learns, fresh_momentum=fresh)

    def _clean_probability(self, client: fl.Client, turn: fl.Turn, network: int) -> Tensor:
        """float64 [samples], the probability that each label is clean, given a network's losses
        (Section 3.1); 1 for all samples if the losses are all equal or not all finite.
        """
        logits = turn.outputs(f"split {network}", network, self.split_view).logits
        losses = fl.cross_entropy(logits, client.labels).double()
        scaled = (losses - losses.min()) / (losses.max() - losses.min())
        if not bool(scaled.isfinite().all()):
            return torch.ones_like(scaled)
        mixture = fit_two(
            scaled[None],
            tolerance=TOLERANCE,
            max_iterations=self.mixture_iterations,
            regularisation=REGULARISATION,
        )
        return mixture.posterior(scaled[None])[0, :, 0]

    # ---------------------------------------------------------------- the loss

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """L_x + lambda_u L_u + lambda_r L_reg (Eqs. 9 to 12), or the loss of the warm-up."""
        network = LEARNS.index(next(name for name in LEARNS if name in batch))
        if "share" not in batch:
            return self._warm_up_loss(model(batch.images, network).logits, batch.target)
        count = len(batch["clean"])
        labelled = [view[:count] for view in batch.views]
        unlabelled = [view[count:] for view in batch.views]
        target = self._targets(model, network, labelled, unlabelled, batch)
        images = torch.cat([*labelled, *unlabelled])
        share, mixup_index = batch["share"], batch["mixup_index"]
        images = share * images + (1 - share) * images[mixup_index]
        target = share * target + (1 - share) * target[mixup_index]

        logits = model(images, network).logits
        log_probability = logits.log_softmax(1)
        errors = (log_probability[2 * count :].exp() - target[2 * count :]).square()
        error = errors.mean() if self.squared_error == "mean" else errors.sum(1).mean()
        log_mean = log_probability.logsumexp(0) - math.log(len(logits))
        prior = -math.log(logits.shape[1]) - log_mean.mean()
        supervised = fl.cross_entropy(logits[: 2 * count], target[: 2 * count]).mean()
        return supervised + batch["unlabelled"] * error + self.prior_weight * prior

    def _warm_up_loss(self, logits: Tensor, target: Tensor) -> Tensor:
        loss = fl.cross_entropy(logits, target).mean()
        if self.confidence_penalty:
            log_probability = logits.log_softmax(1)
            loss = loss + (log_probability.exp() * log_probability).sum(1).mean()
        return loss

    @torch.no_grad()
    def _targets(
        self,
        model: fl.LocalModel,
        network: int,
        labelled: list[Tensor],
        unlabelled: list[Tensor],
        batch: fl.Batch,
    ) -> Tensor:
        """[2 (a + b), classes], co-refined and co-guessed labels, sharpened (Eqs. 3 and 4).

        Args:
            model: with its two networks.
            labelled: both views of a clean samples.
            unlabelled: both views of b other samples.
        """
        evaluating = self.own_guess == "evaluation"
        once = batch.views_are_one
        guessed = self._guess(model, network, unlabelled, once, evaluating=evaluating)
        other = self._guess(model, 1 - network, unlabelled, once, evaluating=True)
        guessed = (guessed + other) / 2
        own = self._guess(model, network, labelled, once, evaluating=evaluating)
        given = functional.one_hot(batch.target[: len(own)], own.shape[1]).to(own.dtype)
        clean = batch["clean"].to(own.dtype)[:, None]
        refined, guessed = (
            self._sharpened(clean * given + (1 - clean) * own),
            self._sharpened(guessed),
        )
        return torch.cat([refined, refined, guessed, guessed])

    def _guess(
        self,
        model: fl.LocalModel,
        network: int,
        views: list[Tensor],
        once: bool,
        *,
        evaluating: bool,
    ) -> Tensor:
        """[n, classes], the mean of the probabilities of two views, each in a pass of its own, or
        in one pass if they are the same (``once``). The views of a single sample share a pass:
        batch normalisation cannot train on one value per channel.
        """
        size = len(views[0])
        parts = [torch.cat(views)] if size == 1 else views[:1] if once else views
        outputs = [model.look(part, network, evaluating=evaluating) for part in parts]
        guesses = torch.cat([part.logits for part in outputs]).softmax(1).split(size)
        return sum(guesses[1:], guesses[0]) / len(guesses)

    def _sharpened(self, probability: Tensor) -> Tensor:
        powers = probability ** (1 / self.temperature)
        return powers / powers.sum(1, keepdim=True)

    # ---------------------------------------------------------------- afterwards

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report the last local epoch's splits, those of both networks."""
        for client in (update.client for update in updates):
            if SPLIT in client.state:
                clean = client.state.pop(SPLIT) > self.clean_threshold
                for mask in clean:
                    federation.report_selection(client, mask)
                federation.report(client, estimated_noise_level=float((~clean).double().mean()))

    def predict(self, outputs: list[fl.Outputs], client: fl.Client | None) -> Tensor:
        """See the option ``tested``."""
        first, second = (part.logits for part in outputs)
        if self.tested == "first":
            return first
        if self.tested == "sum":
            return first + second
        return torch.logaddexp(first.log_softmax(1), second.log_softmax(1)) - math.log(2)
