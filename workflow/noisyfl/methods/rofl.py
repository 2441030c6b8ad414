"""RoFL (Yang et al., IEEE Intelligent Systems 2022): clients share the centres of their classes.

Equation and algorithm numbers are the paper's; there is no official code.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize, one_hot

import noisyfl.method as fl
from noisyfl.methods.coteaching import smallest


@fl.METHODS.register("rofl")
class RoFL(fl.ClientSide):
    """Confident samples learn their labels, the others what the global model says (Eq. 1).

    A sample is confident if its features are nearest to the centroid of the class that its label
    names (Eqs. 6, 7). Confident samples are drawn to their centroid (Eq. 5), and every prediction
    to certainty (Eq. 9). Centroids go along with the model: the server sends the global ones, a
    client moves them with samples of small loss (Eqs. 2, 3, and 13 or 4), and the server averages
    what comes back (Eqs. 11, 12). A centroid of zeros is one that nobody knows yet.
    """

    reference = "Yang et al., Robust Federated Learning With Noisy Labels, IEEE Int. Syst. 2022"
    revision = 3
    cost = fl.Cost(effort=1.3)
    by_sample = ("confident", "pseudo_label")

    pseudo_label_round: int = fl.option(
        100,
        doc="T_pl: the first round, from 1, that uses pseudo-labels",
        at_least=1,
        share_of=("rounds", 1000),
    )
    centroid_weight: float = fl.option(
        1.0, doc="lambda_cen: weight of the distance to centroids once its ramp is over", at_least=0
    )
    centroid_ramp_rounds: int | None = fl.option(
        None,
        doc="rounds in which that weight grows from 0, linearly (the paper: gradually); null: "
        "pseudo_label_round",
        at_least=1,
    )
    entropy_weight: float = fl.option(0.8, doc="lambda_e: weight of the entropy", at_least=0)
    forget_rate: float | None = fl.option(
        None,
        doc="tau: share of a batch whose large losses keep it from centroids; null: the mean noise "
        "level of all samples, which the paper takes for known",
        at_least=0,
        below=1,
    )
    forget_ramp_rounds: int = fl.option(10, doc="T: rounds until tau is reached", at_least=1)
    reduction: Literal["mean", "sum"] = fl.option(
        "mean", doc="the three terms as means over a batch, or as sums (as printed)"
    )
    centroid_distance: Literal["mean_squared", "squared"] = fl.option(
        "mean_squared",
        doc="from a centroid: the squared norm over the number of features, or the squared norm "
        "itself (Eq. 5 as printed), beside which cross-entropy hardly counts",
    )
    pseudo_label_form: Literal["soft", "hard"] = fl.option(
        "soft",
        doc="soft: the softmax output itself (Eq. 8 and the text under Eq. 9); hard: the class "
        "that is largest in it",
    )
    pseudo_label_view: Literal["weak", "batch", "plain"] = fl.option(
        "weak",
        doc="on which view of an image its label is guessed: weak, plain: once, before the step, "
        "an augmented or a plain one; batch: in each step, the one that the step learns from. "
        "Naive labels and the first centroids come before any step: for them batch means weak",
    )
    centroid_update: Literal["batch", "epoch"] = fl.option(
        "batch",
        doc="when a client's centroids change, and by which of its samples: after each batch, by "
        "those of small loss in it (Algorithm 1, Eq. 13), or after each local epoch, by those of "
        "small loss among all that it has (Eqs. 2 to 4)",
    )
    learns_from: Literal["all", "small_losses"] = fl.option(
        "all",
        doc="which samples of a batch are learnt from: all (Eq. 1), or those of small loss (the "
        "unofficial code, FedRN's port), whose number is then rounded down",
    )

    mask: bool = fl.option(
        True,
        doc="tell confident samples; else all are drawn to their centroid, and all learn "
        "pseudo-labels where there are any (Table 4)",
    )
    pseudo_labels: Literal["global", "naive", "none"] = fl.option(
        "global",
        doc="whose: the received model's; naive: the local one's before each epoch; none: from "
        "pseudo_label_round on, what is not confident is not learnt (Table 4)",
    )
    global_centroids: bool = fl.option(
        True,
        doc="exchange centroids; else a client begins with its own mean features, and each batch "
        "replaces them, without Eq. 4 (Fig. 4)",
    )

    needs_level: ClassVar = {"forget_rate": None}

    variants: ClassVar = {
        "without_mask": {"mask": False},
        "without_pseudo_label": {"pseudo_labels": "none"},
        "naive_pseudo_label": {"pseudo_labels": "naive"},
        "without_mask_and_pseudo_label": {"mask": False, "pseudo_labels": "none"},
        "without_mask_naive_pseudo_label": {"mask": False, "pseudo_labels": "naive"},
        "without_global_centroids": {"global_centroids": False},
        "fedrn": {
            "learns_from": "small_losses",
            "centroid_weight": 0.0,
            "forget_rate": 0.2,
            "forget_ramp_rounds": 99,
            "pseudo_label_round": 101,
            "pseudo_label_form": "hard",
        },
    }

    # ---------------------------------------------------------------- the client

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The round in which the use of pseudo-labels begins."""
        return {"the use of pseudo-labels (pseudo_label_round)": self.pseudo_label_round - 1}

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Prepare the participants' local updates.

        Set the share of a batch that counts as small losses; the centroids that a client starts
        from, which are means of its own where there are no global ones (Eq. 3); and the pseudo-
        labels that samples learn if they are not confident, as far as they are known before a step:
        the given labels before T_pl, and those that are guessed once a round.
        """
        known = self.global_centroids and "centroids" in federation.state
        late = round + 1 >= self.pseudo_label_round
        guess = late and self.pseudo_labels == "global" and self.pseudo_label_view != "batch"
        rate = self.forget_rate
        if rate is None:
            rate = fl.mean_noise_level(federation.clients, "rofl.forget_rate")
        for client in participants:
            client.state["kept"] = 1 - rate * min(round / self.forget_ramp_rounds, 1)
            if known:
                client.state["centroids"] = federation.state["centroids"]
        if guess or not known:
            for client, outputs in federation.ask(participants, "pseudo-labels", view=self._view):
                if not known:
                    client.state["centroids"] = mean_features(outputs, client.labels)
                if guess:
                    client.state["pseudo_labels"] = self.pseudo_label(outputs)
        for client in participants:
            start = client.state["centroids"]
            if not late:
                labels = one_hot(client.labels, len(start)).to(start.dtype)
                client.state["pseudo_labels"] = labels
            elif self.pseudo_labels == "none":
                client.state["pseudo_labels"] = start.new_zeros(len(client), len(start))

    @property
    def _view(self) -> str:
        """The view of images in passes."""
        return "plain" if self.pseudo_label_view == "plain" else "weak"

    def pseudo_label(self, outputs: fl.Outputs) -> Tensor:
        """[samples, classes], the pseudo-labels that a model's outputs make; rows sum to 1."""
        soft = outputs.logits.softmax(1)
        if self.pseudo_label_form == "soft":
            return soft
        return one_hot(soft.argmax(1), soft.shape[1]).to(soft.dtype)

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The centroids; of each sample, whether it was confident when last seen, and the most
        probable class in the pseudo-label that it had then, -1 if there was none.
        """
        return {
            "centroids": client.state["centroids"],
            "confident": torch.zeros_like(client.labels),
            "pseudo_label": torch.full_like(client.labels, -1),
        }

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set targets, and for each step the size of its small-loss set, the weight of the distance
        to centroids, and the centroids if they change once an epoch.

        Targets are [samples, 1 + classes]: the given label, then the pseudo-label's share of each
        class, zeros if there is no pseudo-label. They are [samples, 1] where the loss guesses.
        """
        epoch = super().epoch(client, turn)
        count = len(epoch.steps)
        pseudo, start = client.state.get("pseudo_labels"), client.state["centroids"]
        naive = self.pseudo_labels == "naive" and turn.round + 1 >= self.pseudo_label_round
        renewed = self.centroid_update == "epoch" and turn.number > 0
        ramp = self.centroid_ramp_rounds or self.pseudo_label_round
        weight = self.centroid_weight * min(turn.round / ramp, 1)
        extras: dict[str, list] = {
            "kept": [self._small_losses(client, len(step)) for step in epoch.steps],
            "centroid_weight": [weight] * count,
        }
        if naive or renewed:
            outputs = turn.outputs("own labels", 0, self._view)
            if naive:
                pseudo = self.pseudo_label(outputs)
            if renewed:
                extras["centroids"] = [self._of_all(client, start, outputs)] * count
        given = client.labels[:, None].to(start.dtype)
        targets = given if pseudo is None else torch.cat([given, pseudo], dim=1)
        return fl.Epoch(epoch.steps, targets, extras)

    def _small_losses(self, client: fl.Client, samples: int) -> int:
        """How many of some samples have small losses: |D'| >= R |D| (Eq. 2)."""
        kept = client.state["kept"] * samples
        rounded = fl.round_up if self.learns_from == "all" else fl.round_down
        return max(1, rounded(kept))

    def _of_all(self, client: fl.Client, start: Tensor, outputs: fl.Outputs) -> Tensor:
        """The centroids [classes, width] that a client makes of those that it started from and of
        its model's outputs on all its samples (Eqs. 2 to 4).
        """
        losses = fl.cross_entropy(outputs.logits, client.labels)
        kept = self._small_losses(client, len(client))
        return self._move(start, outputs.features, losses, client.labels, kept)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Eq. 9 with the centroids as they were before the step, which also moves them."""
        given, pseudo = batch.target[:, 0].long(), batch.target[:, 1:]
        outputs = model(batch.images)
        if pseudo.shape[1] == 0:  # Eq. 8
            pseudo = self.pseudo_label(model.received(batch.images))
        remembered = batch.memory["centroids"]
        centroids = batch["centroids"] if "centroids" in batch else remembered.clone()
        known = centroids.any(1)
        losses = fl.cross_entropy(outputs.logits, given)
        with torch.no_grad():
            similarity = similarities(outputs.features, centroids)
            confident = similarity.masked_fill(~known, -math.inf).argmax(1) == given
            batch.memory["confident"][batch.positions] = confident.to(torch.int64)
            guessed = torch.where(pseudo.any(1), pseudo.argmax(1), -1)
            batch.memory["pseudo_label"][batch.positions] = guessed
            if self.centroid_update == "batch":
                moved = self._move(centroids, outputs.features, losses, given, batch["kept"])
                remembered.copy_(moved)
        if self.mask:
            learns_given, drawn = confident, confident
        else:  # Table 4: all samples learn pseudo-labels, or all learn given labels.
            learns_given = torch.full_like(confident, self.pseudo_labels == "none")
            drawn = torch.ones_like(confident)
        log = outputs.logits.log_softmax(1)
        labels = torch.where(learns_given, losses, -(pseudo * log).sum(1))
        apart = (outputs.features - centroids[given]).square()
        apart = apart.sum(1) if self.centroid_distance == "squared" else apart.mean(1)
        apart = apart * (drawn & known[given])
        entropy = -(log.exp() * log).sum(1)
        each = labels + batch["centroid_weight"] * apart + self.entropy_weight * entropy
        if self.learns_from == "small_losses":
            small = smallest(losses, batch["kept"])
            return fl.mean_where(each, small) if self.reduction == "mean" else (each * small).sum()
        return each.mean() if self.reduction == "mean" else each.sum()

    def _move(
        self, centroids: Tensor, features: Tensor, losses: Tensor, given: Tensor, kept: Tensor | int
    ) -> Tensor:
        """Each centroid, moved towards the mean features of the samples of its class among the
        ``kept`` smallest losses (Eqs. 2, 3); it moves further the more similar the two are (Eqs. 4,
        13).
        """
        small = smallest(losses, kept)
        means, count = fl.mean_by_class(features, given, len(centroids), small)
        step = cosine_similarity(centroids, means).square()[:, None]
        if not self.global_centroids:
            step = torch.ones_like(step)
        step = torch.where(centroids.any(1, keepdim=True), step, 1.0)
        moved = (1 - step) * centroids + step * means
        return torch.where((count > 0)[:, None], moved, centroids)

    # ---------------------------------------------------------------- what the server does

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Average the centroids that the clients send back; report which samples are confident, and
        the accuracy of the pseudo-labels, as they were when last seen, among the samples that learn
        them.
        """
        guessed = self.pseudo_labels != "none" and round + 1 >= self.pseudo_label_round
        for update in updates:
            client, confident = update.client, update.memory["confident"].bool()
            federation.report_selection(client, confident)
            for name in ("pseudo_labels", "centroids"):
                client.state.pop(name, None)
            if guessed:
                labels = update.memory["pseudo_label"]
                replaced = (labels >= 0) & ~(confident & self.mask)
                accuracy = client.accuracy_of(labels, replaced)
                federation.report(client, pseudo_label_accuracy=accuracy)
                federation.report_labels(client, labels.masked_fill(~replaced, -1))
        if not self.global_centroids:
            return
        before = federation.state.get("centroids")
        local = torch.stack(self._sent(round, updates, federation))
        federation.state["centroids"] = average_centroids(local, before)
        size = local[0].numel() * local.element_size() * len(updates)
        federation.exchange(down=size if before is not None else 0, up=size)

    def _sent(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> list[Tensor]:
        """The centroids that each client sends back, [classes, width]."""
        if self.centroid_update == "batch":
            return [update.memory["centroids"] for update in updates]
        return [
            self._of_all(update.client, update.memory["centroids"], outputs)
            for update, outputs in federation.ask(updates, "centroids", view=self._view)
        ]


def mean_features(outputs: fl.Outputs, labels: Tensor) -> Tensor:
    """[classes, width]: the mean features of each class; zeros where there is no sample."""
    return fl.mean_by_class(outputs.features, labels, outputs.logits.shape[1])[0]


def similarities(features: Tensor, centroids: Tensor) -> Tensor:
    """The cosine similarity of each sample's features and each centroid: [n, classes]."""
    return fl.product(normalize(features, dim=1), normalize(centroids, dim=1).T)


def average_centroids(local: Tensor, before: Tensor | None) -> Tensor:
    """The global centroids [classes, width] from those of clients (Eqs. 11, 12).

    Args:
        local: [clients, classes, width].
        before: the last global ones. A client's centroid is weighted by its cosine similarity to
            the last global one of the class, or by 0 where that is negative; where there is no last
            one, clients count alike. So a client without a sample of a class, which sends back
            what it was sent, has the largest weight.
    """
    known = local.any(2).to(local.dtype)
    if before is None:
        before = torch.zeros_like(local[0])
    similarity = cosine_similarity(local, before[None], dim=2).clamp(min=0)
    weight = torch.where(before.any(1), similarity, 1.0) * known
    total = weight.sum(0)[:, None]
    mean = (weight[..., None] * local).sum(0) / torch.where(total > 0, total, 1.0)
    return torch.where(total > 0, mean, before)
