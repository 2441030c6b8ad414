"""FedNoRo (Wu et al., IJCAI 2023): noisy clients are found by their losses of each class, learn
from the global model too, and count for less.
"""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl

FITS = 9
"""Mixtures that are fitted, each from its own seed; the most frequent result decides (official
code).
"""

NOISY = "noisy"
"""Key in a client's state of whether the client is noisy; set once that is known."""


class TwoStages(fl.ServerSide, fl.ClientSide):
    """A warm-up with logits adjusted by the client's class shares, then a stage for which the noisy
    clients are found, once.

    When the second stage begins, every client sends its mean loss of each class under the global
    model, and mixtures of two Gaussians split the clients into clean and noisy ones.
    """

    partner = ""

    warm_up_rounds: int = fl.option(
        10, doc="T1: rounds before noisy clients are found", at_least=1, share_of=("rounds", 100)
    )

    def stage(self, round: int, federation: fl.Federation) -> str:
        """``warm-up`` or ``training``."""
        return "warm-up" if round < self.warm_up_rounds else "training"

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Find the noisy ones among all clients when the second stage begins."""
        if round != self.warm_up_rounds:
            return
        clients = federation.clients
        means, known = [], []
        for client, outputs in federation.ask(clients, "noisy clients"):
            losses = fl.cross_entropy(outputs.logits, client.given)[:, None]
            mean, count = fl.mean_by_class(losses, client.given, federation.classes)
            means.append(mean[:, 0])
            known.append(count > 0)
        table = torch.stack(means).double().cpu().numpy()
        noisy = noisy_rows(table, torch.stack(known).cpu().numpy())
        for client, is_noisy in zip(clients, noisy.tolist(), strict=True):
            client.state[NOISY] = is_noisy
            federation.report(client, called_noisy=float(is_noisy))
        model = fl.size_in_bytes(federation.weights)
        means_up = len(clients) * federation.classes * means[0].element_size()
        federation.exchange(down=(len(clients) - len(participants)) * model, up=means_up)

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``log_prior`` [classes], the logarithm of each class's share of the client's labels;
        minus infinity for a class that it does not have.
        """
        counts = torch.bincount(client.given, minlength=federation.classes)
        weight = federation.weights["0.classifier.weight"]
        return {"log_prior": (counts / counts.sum()).to(weight.dtype).log()}

    def correcting(self, client: fl.Client, round: int) -> bool:
        """Whether the round is in the second stage and the client noisy."""
        return round >= self.warm_up_rounds and client.state.get(NOISY, False)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Cross-entropy of the logits with the classes' log-shares added (logit adjustment)."""
        logits = model(batch.images).logits + batch.memory["log_prior"]
        return fl.cross_entropy(logits, batch.target).mean()


@fl.METHODS.register("fednoro")
class FedNoRo(TwoStages):
    """In the second stage a noisy client learns, in growing part, what the received model says, and
    its model counts for less the further it is from the next clean client's.
    """

    reference = (
        "Wu et al., FedNoRo: Towards Noise-Robust Federated Learning by Addressing Class Imbalance "
        "and Label Noise Heterogeneity, IJCAI 2023"
    )
    cost = fl.Cost(effort=1.3)

    temperature: float = fl.option(0.8, doc="T: of the received model's softmax", above=0)
    distillation: float = fl.option(
        0.8, doc="most that distillation weighs against the labels", at_least=0, at_most=1
    )
    ramp_end: int = fl.option(
        49,
        doc="round, from 0, in which distillation weighs most",
        at_least=1,
        share_of=("rounds", 100),
    )

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set the weight of distillation for each step, if the client is noisy and the second stage
        has begun.
        """
        epoch = super().epoch(client, turn)
        if not self.correcting(client, turn.round):
            return epoch
        weight = self.distillation * ramp_up(turn.round, self.warm_up_rounds, self.ramp_end)
        return dataclasses.replace(epoch, extras={"distillation": [weight] * len(epoch.steps)})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """For a noisy client in the second stage: w KL(received || adjusted) + (1 - w) adjusted
        cross-entropy, where w is the weight of distillation.
        """
        if "distillation" not in batch:
            return super().loss(model, batch)
        weight = batch["distillation"]
        log_probability = (model(batch.images).logits + batch.memory["log_prior"]).log_softmax(1)
        # Classes that the client does not have are at minus infinity, for which the code takes 0.
        log_probability = log_probability.masked_fill(log_probability.isinf(), 0.0)
        teacher = (model.received(batch.images).logits / self.temperature).softmax(1)
        divergence = (torch.xlogy(teacher, teacher) - teacher * log_probability).sum(1).mean()
        own = -log_probability.gather(1, batch.target[:, None]).mean()
        return weight * divergence + (1 - weight) * own

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The mean of the local models, weighted by size times exp(-D).

        D is 0 for a clean client. For a noisy one it is the distance of its model to the nearest
        clean client's model, divided by the largest such distance. With no clean or no noisy
        participant the mean is FedAvg's.
        """
        return distance_aware(updates, federation)


def ramp_up(round: int, begin: int, end: int) -> float:
    """exp(-5 (1 - x)^2), where x goes from 0 to 1 between two rounds, in FedNoRo between the second
    stage's first one and ``ramp_end``.
    """
    done = (round - begin) / (end - begin) if end > begin else 1.0
    return math.exp(-5 * (1 - min(max(done, 0.0), 1.0)) ** 2)


def distance_aware(updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
    """See :meth:`FedNoRo.aggregate`. A client is clean unless its state says that it is noisy."""
    sent = fl.nonempty(updates)
    noisy = [update.client.state.get(NOISY, False) for update in sent]
    clean = [u for u, is_noisy in zip(sent, noisy, strict=True) if not is_noisy]
    distances = np.zeros(len(sent))
    if clean:
        for place, update in enumerate(sent):
            if noisy[place]:
                apart = [model_distance(update.weights, other.weights) for other in clean]
                distances[place] = min(apart)
    distances /= distances.max() or 1.0
    shares = [u.size * math.exp(-d) for u, d in zip(sent, distances, strict=True)]
    for update, share in zip(sent, shares, strict=True):
        federation.report(update.client, aggregation_weight=share / sum(shares))
    return fl.average([update.weights for update in sent], shares)


def model_distance(one: fl.Weights, other: fl.Weights) -> float:
    """The Euclidean distances between two models' tensors, summed over all but the counters."""
    return float(sum((one[name] - other[name]).norm() for name in fl.numbers(one)))


def noisy_rows(means: np.ndarray, known: np.ndarray) -> np.ndarray:
    """bool [clients]: which clients are noisy, judged by their mean losses of each class.

    A client that does not have a class is given the smallest loss that any client has in it. Each
    class is scaled to [0, 1], and the mixture component with the larger sum of means is that of the
    noisy clients. A client with a mean that is not finite is noisy, and counts for no other.

    Args:
        means: float64 [clients, classes], the mean losses.
        known: bool [clients, classes], whether the client has the class.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    finite = np.isfinite(np.where(known, means, 0)).all(1)
    if not finite.all():
        noisy = np.ones(len(means), dtype=bool)
        if finite.any():
            noisy[finite] = noisy_rows(means[finite], known[finite])
        return noisy
    everyone = means[:, known.any(0)]
    least = np.where(known, means, np.inf).min(0)[known.any(0)]
    filled = np.where(known[:, known.any(0)], everyone, least)
    spread = filled.max(0) - least
    scaled = (filled - least) / np.where(spread > 0, spread, 1.0)
    if len(np.unique(scaled, axis=0)) < 2:
        return np.zeros(len(means), dtype=bool)
    votes = []
    for seed in range(FITS):
        mixture = GaussianMixture(2, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            component = mixture.fit(scaled).predict(scaled)
        votes.append(tuple((component == mixture.means_.sum(1).argmax()).tolist()))
    return np.array(max(votes, key=votes.count))
