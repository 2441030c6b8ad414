"""FedSIR (Gholami et al., 2026): class subspaces of features tell clean clients from noisy ones,
and relabel the noisy ones' samples.

- Spectra, subspaces and the scores of a sample are those of
  :mod:`noisyfl.methods.estimators.subspaces`; v_c is a class's dominant direction.
- Similarity of two classes on a client: S_cc' = |v_c . v_c'|.
- Loss: CE(f(x) + m, y), and w KL(teacher || student) + (1 - w) CE for a noisy client's samples that
  are distilled; m is the logarithm of each class's share of the client's given labels.
- Aggregation: shares in proportion to a_k exp(-d_k), as in FedNoRo.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.estimators.subspaces import (
    Spectrum,
    Subspace,
    best_classes,
    spectrum,
    weighted_projection,
)
from noisyfl.methods.fednoro import NOISY, distance_aware, ramp_up

DISTILLED = "distilled"
"""Key in a client's state: bool [samples], the samples that learn from the received model too."""

CLEAN_MODEL = "clean_model"
"""Key, in the federation's state, of the mean of the last local models of clean clients."""


STARTS = 30
"""Fits of the mixture, of which the most likely one counts (code)."""


@fl.METHODS.register("fedsir")
class FedSIR(fl.ServerSide, fl.ClientSide):
    """In the identification every client trains the first model once, by plain cross-entropy, and
    sends the mean and the mean square of its classes' similarities. A mixture of two Gaussians
    splits the clients; those of the component with the smaller mean are clean, and the mean of
    their models is the first global one.

    From then on, once every few rounds, the clean clients' class subspaces, under the mean of their
    models, are merged. A noisy client's sample gets the class of the largest alignment score if
    that is also the class of the smallest residual score; otherwise it has its given label. Noisy
    clients also learn, in growing part, what the received model says of samples on which the scores
    disagree, and their models count for less the further they are from the next clean client's.
    """

    reference = (
        "Gholami et al., FedSIR: Spectral Client Identification and Relabeling for Federated "
        "Learning with Noisy Labels, arXiv 2604.20825, 2026"
    )
    cost = fl.Cost(effort=1.4, models_kept=1)
    partner = ""
    by_sample = (DISTILLED,)

    identification_epochs: int = fl.option(
        5, doc="E1: local epochs of the identification", at_least=1
    )
    identification_samples: int = fl.option(
        20, doc="samples that a class needs to be compared with others on a client", at_least=1
    )
    relabel_every: int = fl.option(
        20, doc="R: rounds between two relabellings", at_least=1, share_of=("rounds", 100)
    )
    dominance: float = fl.option(
        10.0, doc="rho: dominant singular values' sum over that of residual ones", above=0
    )
    residual_directions: int = fl.option(
        12, doc="most residual directions of a class that are merged and used", at_least=1
    )
    consensus_samples: int = fl.option(
        100, doc="samples that a client's class needs to be merged with others'", at_least=1
    )
    consensus_gap: float = fl.option(
        0.03,
        doc="between the first two eigenvalues of merged dominant directions; with less, those of "
        "the client with most samples of the class are used alone",
        at_least=0,
    )
    temperature: float = fl.option(0.8, doc="of the received model's softmax", above=0)
    distillation: float = fl.option(
        0.2, doc="a: most that distillation weighs against the labels", at_least=0, at_most=1
    )
    distilled: Literal["disagreeing", "all"] = fl.option(
        "disagreeing",
        doc="which of a noisy client's samples learn from the received model once it has been "
        "relabelled: those on which the scores disagree, or all",
    )
    ramp_begin: int = fl.option(
        2,
        doc="round after the identification, from 0, in which distillation begins to grow",
        at_least=0,
        share_of=("rounds", 100),
    )
    ramp_end: int = fl.option(
        49,
        doc="round after the identification, from 0, in which distillation weighs most",
        at_least=1,
        share_of=("rounds", 100),
    )

    # ---------------------------------------------------------------- the rounds

    def rounds(self, federation: fl.Federation) -> int:
        """The identification, and what is left of the run's local updates."""
        identified = math.ceil(len(federation.clients) / federation.participants)
        return 1 + max(0, federation.schedule.rounds - identified)

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """All clients in the identification, then as FedAvg."""
        return len(federation.clients) if round == 0 else federation.participants

    def stage(self, round: int, federation: fl.Federation) -> str:
        """``identification`` in the first round, then ``training``."""
        return "identification" if round == 0 else "training"

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The training that follows the identification."""
        return {"training": 1}

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """All clients in the identification, then as FedAvg."""
        return (
            np.arange(len(federation.clients)) if round == 0 else super().select(round, federation)
        )

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """The identification has local epochs of its own."""
        current = super().local_schedule(round, schedule)
        if round > 0:
            return current
        return current.model_copy(update={"local_epochs": self.identification_epochs})

    # ---------------------------------------------------------------- identification

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Split the clients after the identification (see :func:`clean_rows`).

        A client without two classes that can be compared is not clean.
        """
        if round > 0:
            return
        compared, rows = [], []
        for update, outputs in federation.ask(updates, "identification"):
            client = update.client
            client.state[NOISY] = True
            row = self.similarity(outputs.features, client, federation.classes)
            if row is not None:
                compared.append(client)
                rows.append(row)
                federation.report(client, class_similarity=row[0])
                federation.exchange(up=len(row) * outputs.features.element_size())
        if not rows:
            compared, rows = federation.clients, [[0.0, 0.0]] * len(federation.clients)
        for client, clean in zip(
            compared, clean_rows(np.array(rows), federation.seed), strict=True
        ):
            client.state[NOISY] = not clean
        for client in federation.clients:
            federation.report(client, called_noisy=float(client.state[NOISY]))

    def similarity(self, features: Tensor, client: fl.Client, classes: int) -> list[float] | None:
        """Mean and mean square of the similarities of a client's classes; None of fewer than two.

        Classes with few samples are left out, if two are left.
        """
        spectra = self.spectra(features, client, classes, self.identification_samples)
        if len(spectra) < 2:
            spectra = self.spectra(features, client, classes)
        if len(spectra) < 2:
            return None
        directions = torch.stack([one.dominant for one in spectra.values()])
        similar = (directions @ directions.T).abs()
        apart = similar[~torch.eye(len(similar), dtype=torch.bool, device=similar.device)]
        return torch.stack([apart.mean(), apart.square().mean()]).tolist()

    # ---------------------------------------------------------------- relabelling

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Relabel the noisy clients if it is time."""
        if round > 1 and (round - 1) % self.relabel_every == 0:
            self._relabel(round, federation)

    def _relabel(self, round: int, federation: fl.Federation) -> None:
        clients = federation.clients
        noisy = [client for client in clients if client.state[NOISY]]
        model, classes = federation.state[CLEAN_MODEL], federation.classes
        answers = federation.ask(clients, "relabelling", model, view="plain")
        spectra = [
            self.spectra(outputs.features, client, classes)
            for client, outputs in answers
            if not client.state[NOISY]
        ]
        subspaces = [
            self.merged([of_client[label] for of_client in spectra if label in of_client])
            for label in range(classes)
        ]
        for client, outputs in answers:
            if not client.state[NOISY]:
                continue
            guess, agree = best_classes(outputs.features, subspaces)
            labels = torch.where(agree, guess, client.given)
            client.labels = client.given
            federation.report_selection(client, labels == client.given)
            client.labels = labels
            client.state[DISTILLED] = (
                ~agree if self.distilled == "disagreeing" else torch.ones_like(agree)
            )
            federation.report(client, label_accuracy=client.accuracy_of(labels))
        direction = outputs.features.element_size() * outputs.features.shape[1]
        sent = [one for of_client in spectra for one in of_client.values()]
        rows = sum(1 + min(len(one.residual), self.residual_directions) for one in sent)
        merged = sum(1 + len(one.residual) for one in subspaces if one is not None)
        down = fl.size_in_bytes(model) * len(clients) + merged * direction * len(noisy)
        federation.exchange(down=down, up=rows * direction)

    def spectra(
        self, features: Tensor, client: fl.Client, classes: int, least: int = 1
    ) -> dict[int, Spectrum]:
        """The spectra of those given classes of a client that have ``least`` samples."""
        counts = torch.bincount(client.given, minlength=classes).tolist()
        found = {
            label: spectrum(features[client.given == label], self.dominance)
            for label, count in enumerate(counts)
            if count >= least
        }
        return {label: one for label, one in found.items() if one is not None}

    def merged(self, spectra: list[Spectrum]) -> Subspace | None:
        """What clients' spectra of a class have in common: the leading eigenvectors of the weighted
        means of the projections on their dominant, and on their residual, directions.

        A client weighs as much as it has samples of the class, times (s_1 - s_2) / s_1, times s_1's
        share of all singular values. None if no client has a residual direction.
        """
        spectra = [one for one in spectra if len(one.residual)]
        if not spectra:
            return None
        most = max(spectra, key=lambda one: one.samples)
        alone = Subspace(most.dominant, most.residual[: self.residual_directions])
        joined = [one for one in spectra if one.samples >= self.consensus_samples and one.gap > 0]
        if not joined:
            return alone
        weights = [one.samples * one.gap * one.share for one in joined]
        dominant = weighted_projection([one.dominant[None] for one in joined], weights)
        residual = weighted_projection(
            [one.residual[: self.residual_directions] for one in joined], weights
        )
        values, vectors = torch.linalg.eigh(dominant)
        if float(values[-1] - values[-2:-1].sum()) < self.consensus_gap:
            return alone
        spread, directions = torch.linalg.eigh(residual)
        rank = min(int((spread > 1e-9).sum()), self.residual_directions)
        return Subspace(vectors[:, -1], directions[:, -rank:].T)

    # ---------------------------------------------------------------- a local update

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """In the training, ``log_prior`` [classes], the logarithm of each class's share of the
        given labels, where a class without samples counts as one; and for a noisy client
        ``distilled`` [samples].
        """
        if federation.round == 0:
            return {}
        counts = torch.bincount(client.given, minlength=federation.classes).clamp(min=1)
        weight = federation.weights["0.classifier.weight"]
        held = {"log_prior": (counts / counts.sum()).to(weight.dtype).log()}
        if not client.state[NOISY]:
            return held
        everything = torch.ones_like(client.given, dtype=torch.bool)
        return {**held, DISTILLED: client.state.get(DISTILLED, everything)}

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set the weight of distillation for each step of a noisy client."""
        epoch = super().epoch(client, turn)
        if turn.round == 0 or not client.state[NOISY]:
            return epoch
        weight = self.distillation * ramp_up(turn.round - 1, self.ramp_begin, self.ramp_end)
        return dataclasses.replace(epoch, extras={"distillation": [weight] * len(epoch.steps)})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the module. In the identification it is plain cross-entropy."""
        logits = model(batch.images).logits
        if "log_prior" not in batch.memory:
            return fl.cross_entropy(logits, batch.target).mean()
        log_probability = (logits + batch.memory["log_prior"]).log_softmax(1)
        own = -log_probability.gather(1, batch.target[:, None])[:, 0]
        if "distillation" not in batch:
            return own.mean()
        teacher = (model.received(batch.images).logits / self.temperature).softmax(1)
        divergence = (torch.xlogy(teacher, teacher) - teacher * log_probability).sum(1)
        weight = batch["distillation"] * batch.memory[DISTILLED][batch.positions].to(own.dtype)
        return (weight * divergence + (1 - weight) * own).mean()

    # ---------------------------------------------------------------- the server's mean

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The mean of the clean clients' models after the identification, then FedNoRo's
        distance-aware mean. The former is kept for the next relabelling.
        """
        clean = [update for update in fl.nonempty(updates) if not update.client.state[NOISY]]
        if clean:
            models, sizes = [update.weights for update in clean], [update.size for update in clean]
            federation.state[CLEAN_MODEL] = fl.average(models, sizes)
        if federation.round == 0:
            return federation.state.get(CLEAN_MODEL, federation.weights)
        return distance_aware(updates, federation)


def clean_rows(similarities: np.ndarray, seed: int) -> np.ndarray:
    """bool [clients]: which clients are clean, judged by their classes' similarities; at least one.

    Each column is standardised, and the mixture component with the smaller mean similarity is that
    of the clean clients. Clients that are all alike are clean.

    Args:
        similarities: float64 [clients, 2], mean and mean square.
        seed: of the fit's starts.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    if np.allclose(similarities, similarities[0]):
        return np.ones(len(similarities), dtype=bool)
    scaled = (similarities - similarities.mean(0)) / (similarities.std(0) + 1e-12)
    # scikit-learn's seeds have 32 bits.
    mixture = GaussianMixture(2, n_init=STARTS, max_iter=2000, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        probability = mixture.fit(scaled).predict_proba(scaled)
    clean = probability[:, mixture.means_[:, 0].argmin()] >= 0.5
    return clean if clean.any() else similarities[:, 0] == similarities[:, 0].min()
