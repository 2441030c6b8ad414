"""FedCNI (Wu et al., ICME 2023): class prototypes find wrong labels, and replace them with care.

Equation and table numbers are the paper's; there is no official code.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

import noisyfl.method as fl
from noisyfl.methods.estimators.mixture import fit_two

FEWEST = 4
"""The fewest samples of a class that a mixture is fitted to; if there are fewer, all are clean."""

FLOOR = 1e-4
"""Added to the variances of a mixture that is fitted to similarities scaled to [0, 1]."""


@fl.METHODS.register("fedcni")
class FedCNI(fl.ClientSide):
    """Before each local epoch a client splits its samples into clean and noisy, class by class, by
    how similar their features are to their class's prototype. Noisy ones are mixed with clean ones
    of their class, and drawn to its prototype; later on, the nearest prototype names their class.
    Once the early rounds are over, a client counts for as much as it has clean samples.
    """

    reference = (
        "Wu et al., Learning Cautiously in Federated Learning with Noisy and Heterogeneous "
        "Clients, ICME 2023"
    )
    cost = fl.Cost(effort=2.2)

    pseudo_label_round: int = fl.option(
        15,
        doc="T_s1: the first round, from 1, that uses pseudo-labels",
        at_least=0,
        share_of=("rounds", 100),
    )
    aggregation_round: int = fl.option(
        15,
        doc="T_s2: the first round, from 1, that reweighs clients (Eq. 14)",
        at_least=0,
        share_of=("rounds", 100),
    )
    threshold: float = fl.option(
        0.5, doc="tau: largest confidence asked for (Eq. 8)", at_least=0, below=1
    )
    similarity_weight: float = fl.option(
        0.7, doc="lambda_sim: weight of the distance to prototypes (Eq. 13)", at_least=0
    )
    loss_mean: Literal["parts", "batch"] = fl.option(
        "parts",
        doc="parts: the mean over a batch's noisy samples plus that over its clean ones (Eq. 11); "
        "batch: one mean over both",
    )
    mixup_alpha: float = fl.option(1.0, doc="of mixup's Beta distribution", above=0)
    detection_view: Literal["plain", "weak"] = fl.option(
        "plain", doc="how images are shown where labels are checked"
    )
    prototype: Literal["mean", "unit"] = fl.option(
        "mean",
        doc="mean: of features (Eq. 5); unit: of features of length one (the text's normalised "
        "mean)",
    )
    scaled: bool = fl.option(
        True, doc="fit mixtures to similarities scaled to [0, 1] in each class, else as they are"
    )
    write_back: bool = fl.option(
        False,
        doc="keep pseudo-labels as labels (Algorithm 1), else guess again each epoch (Eq. 10)",
    )

    dynamic_confidence: bool = fl.option(
        True, doc="a threshold for each class (Eqs. 7, 8), else tau for all (Table 4)"
    )
    mixup: Literal["denoise", "vanilla", "none"] = fl.option(
        "denoise",
        doc="what noisy samples are mixed with: clean ones of their class, or any (vanilla), or "
        "nothing (none: Table 6's cross-entropy, in the two means of Eq. 11)",
    )
    aggregation: Literal["clean_samples", "data_size", "always_clean_samples"] = fl.option(
        "clean_samples",
        doc="what a client counts for: its samples and, from T_s2 on, the clean ones (Eq. 14); or "
        "either throughout (Table 7)",
    )

    variants: ClassVar = {
        "without_dynamic_confidence": {"dynamic_confidence": False},
        "without_mixup": {"mixup": "none"},
        "vanilla_mixup": {"mixup": "vanilla"},
        "without_distance_loss": {"similarity_weight": 0.0},
        "without_reweight_aggregation": {"aggregation": "data_size"},
        "noise_level_aggregation": {"aggregation": "always_clean_samples"},
        "pseudo_labels_at_once": {"pseudo_label_round": 0},
        "write_back": {"write_back": True},
        "one_mean": {"loss_mean": "batch"},
    }

    # ---------------------------------------------------------------- before an epoch

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """Pseudo-labels, and the weights of clients."""
        begins = {"the use of pseudo-labels (pseudo_label_round)": self.pseudo_label_round - 1}
        if self.aggregation == "clean_samples":
            begins["the weight of clean samples (aggregation_round)"] = self.aggregation_round - 1
        return begins

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Split the samples, relabel the noisy ones, and choose mixup's indices.

        Targets are [samples, 2]: the label to learn, and whether the sample is noisy. A step holds
        its samples, followed, if there is mixup, by the samples that they are mixed with.
        """
        client.labels = client.state.pop("written", client.labels)
        outputs = turn.outputs("detection", 0, self.detection_view)
        prototypes, similarity = self.compared(outputs, client.labels)
        clean = split_by_similarity(similarity, client.labels, self.scaled)
        late = turn.round + 1 >= self.pseudo_label_round
        if late and self.dynamic_confidence:
            client.state["thresholds"] = self.thresholds(outputs, client, clean)
        guess = self.guesses(similarity, client, clean)
        target = torch.where(guess >= 0, guess, client.labels) if late else client.labels
        client.state["clean"], client.state["guess"] = clean, guess
        client.state["size"] = self._size(client, turn.round)
        if self.write_back:
            client.state["written"] = target

        steps = super().epoch(client, turn).steps
        extras: dict[str, list] = {"prototypes": [prototypes] * len(steps)}
        if self.mixup != "none":
            steps, extras["share"] = self._mixed(steps, target, clean, turn)
        return fl.Epoch(steps, torch.stack([target, (~clean).to(target.dtype)], dim=1), extras)

    def compared(self, outputs: fl.Outputs, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The prototypes [classes, width] (Eq. 5), and the similarity of each sample to each of
        them (Eq. 6), [samples, classes]; minus infinity where a class has no sample.
        """
        features = outputs.features
        if self.prototype == "unit":
            features = normalize(features, dim=1)
        prototypes, count = fl.mean_by_class(features, labels, outputs.logits.shape[1])
        unit = normalize(prototypes, dim=1)
        similarity = fl.product(normalize(features, dim=1), unit.T)
        return prototypes, similarity.masked_fill(count == 0, -math.inf)

    def thresholds(self, outputs: fl.Outputs, client: fl.Client, clean: Tensor) -> Tensor:
        """The confidence required for each class, [classes] (Eqs. 7, 8), updated from the last one.

        It stays as it was if there is no clean sample whose label the model predicts confidently.

        Args:
            outputs: of the client's model on all of its samples, in their order.
            client: whose thresholds these are.
            clean: the samples that are selected as clean, bool [samples].
        """
        confidence, predicted = outputs.logits.softmax(1).max(1)
        before = client.state.get("thresholds")
        if before is None:
            before = torch.full_like(outputs.logits[0], self.threshold)
        learnt = clean & (confidence > before[client.labels]) & (predicted == client.labels)
        ease, _ = fl.mean_by_class(learnt[:, None].to(confidence.dtype), client.labels, len(before))
        ease = ease[:, 0]
        easiest = ease.max()
        scaled = self.threshold * ease / torch.where(easiest > 0, easiest, 1.0)
        return torch.where(easiest > 0, scaled, before)

    def guesses(self, similarity: Tensor, client: fl.Client, clean: Tensor) -> Tensor:
        """The pseudo-label of each noisy sample, [samples] (Eqs. 9, 10): the class of its nearest
        prototype, if its similarity to that is above the class's threshold; -1 for all others.

        Args:
            similarity: of each sample's features and each prototype, float [samples, classes].
            client: whose samples these are.
            clean: those that are selected as clean, bool [samples].
        """
        nearest, guess = similarity.max(1)
        thresholds = client.state.get("thresholds")
        sure = nearest > (self.threshold if thresholds is None else thresholds[guess])
        return torch.where(sure & ~clean, guess, -1)

    def _mixed(
        self, steps: list[np.ndarray], target: Tensor, clean: Tensor, turn: fl.Turn
    ) -> tuple[list[np.ndarray], list[np.float32]]:
        """The steps, each followed by the samples that its own are mixed with; and for each step
        the share of its own samples in the mixtures.
        """
        rng = turn.random_stream("mixup")
        shares = rng.beta(self.mixup_alpha, self.mixup_alpha, size=len(steps))
        anywhere = clean.cpu().numpy() | (self.mixup == "vanilla")
        labels = target.cpu().numpy()
        pairs = [np.concatenate([step, mixup_index(step, labels, anywhere, rng)]) for step in steps]
        return pairs, list(shares.astype(np.float32))

    def _size(self, client: fl.Client, round: int) -> float:
        """The number of the client's samples, or of the clean ones, by option (Eq. 14, Table 7)."""
        late = self.aggregation == "clean_samples" and round + 1 >= self.aggregation_round
        if late or self.aggregation == "always_clean_samples":
            return float(client.state["clean"].sum())
        return float(len(client))

    def size(self, client: fl.Client) -> float:
        """The weight of a local update, as its last local epoch determined it."""
        return client.state["size"]

    # ---------------------------------------------------------------- the local update

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Eq. 13: mixup's cross-entropies (Eq. 11), their mean over the batch's noisy samples plus
        that over its clean ones, or one mean over both, by option; and the noisy samples' mean
        distance to prototypes (Eq. 12).
        """
        images, (target, noisy) = batch.images, batch.target.unbind(1)
        if "share" in batch:
            half = len(images) // 2
            share, other, noisy = batch["share"], target[half:], noisy[:half]
            mixed = share * images[:half] + (1 - share) * images[half:]
            images, target = images[:half], target[:half]
            outputs = model(mixed)
            losses = share * fl.cross_entropy(outputs.logits, target)
            losses = losses + (1 - share) * fl.cross_entropy(outputs.logits, other)
            # Eq. 12 compares the sample itself with the prototype, not the mixed image.
            outputs = model(images) if self.similarity_weight else outputs
        else:
            outputs = model(images)
            losses = fl.cross_entropy(outputs.logits, target)
        if self.loss_mean == "batch":
            loss = losses.mean()
        else:
            loss = fl.mean_where(losses, noisy) + fl.mean_where(losses, 1 - noisy)
        if not self.similarity_weight:
            return loss
        away = 1 - cosine_similarity(outputs.features, batch["prototypes"][target])
        return loss + self.similarity_weight * fl.mean_where(away, noisy)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report the split of the last local epoch, by the labels that it was made with."""
        for client in (update.client for update in updates):
            clean, guess = client.state["clean"], client.state["guess"]
            federation.report_selection(client, clean)
            client.labels = client.state.pop("written", client.labels)
            federation.report(
                client,
                clean_share=float(clean.double().mean()),
                pseudo_label_accuracy=client.accuracy_of(guess, guess >= 0),
            )
            if round + 1 >= self.pseudo_label_round:
                federation.report_labels(client, guess)


def split_by_similarity(similarity: Tensor, labels: Tensor, scaled: bool) -> Tensor:
    """Which samples are clean, bool [samples]: in each class, those that the mixture assigns to the
    component of higher similarity. If a class has few samples, or all are equally similar (as under
    a model that diverged), all of them are clean.

    Args:
        similarity: [samples, classes]; only the similarity to a sample's own class is used.
        labels: [samples].
        scaled: whether the similarities of each class are scaled to [0, 1] first.
    """
    own = similarity.gather(1, labels[:, None]).double()[:, 0].nan_to_num()
    member = labels[:, None] == torch.arange(similarity.shape[1], device=labels.device)
    counts = member.sum(0)
    place = member.cumsum(0).gather(1, labels[:, None])[:, 0] - 1
    # One row per class, filled from the left.
    values = own.new_zeros(similarity.shape[1], int(counts.max()))
    values[labels, place] = own
    mask = torch.arange(values.shape[1], device=labels.device) < counts[:, None]
    low = values.masked_fill(~mask, math.inf).amin(1, keepdim=True)
    spread = values.masked_fill(~mask, -math.inf).amax(1, keepdim=True) - low
    alike = (counts < FEWEST)[:, None] | ~(spread > 1e-9)
    if scaled:
        values = ((values - low) / torch.where(alike, 1.0, spread)).masked_fill(~mask, 0.0)
    mixtures = fit_two(values, mask, regularisation=FLOOR if scaled else 1e-6)
    clean = (mixtures.posterior(values)[..., 1] > 0.5) | alike
    return clean[labels, place]


def mixup_index(
    step: np.ndarray, labels: np.ndarray, anywhere: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The sample that each sample of a step is mixed with. Samples in ``anywhere`` are mixed with
    any sample of the client; the others with one in ``anywhere`` that has the same label or, if
    there is none, with any sample of that label.

    Args:
        step: int64 [batch], positions among the client's samples.
        labels: int64 [samples], the labels that are learnt.
        anywhere: bool [samples], the clean ones; all in vanilla mixup.
        rng: the stream to draw from.
    """
    drawn = rng.random(len(step))
    chosen = (drawn * len(labels)).astype(np.int64)
    for label in np.unique(labels[step]):
        same = labels == label
        pool = np.flatnonzero(same & anywhere)
        pool = pool if len(pool) else np.flatnonzero(same)
        here = (labels[step] == label) & ~anywhere[step]
        chosen[here] = pool[(drawn[here] * len(pool)).astype(np.int64)]
    return chosen
