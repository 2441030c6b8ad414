"""FedNoiL (Wang et al., 2022): clients, and samples of clients, are drawn by how sure the global
model is of their labels.

Equation and algorithm numbers are the paper's, which has no official code.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl

STATE = "fednoil"
"""Key in a client's state of what the method keeps there during a round."""

SCORE_BYTES = 4
"""Bytes of the score, the one number that every client sends."""

HIGH_NOISE_SHARE, LOW_NOISE_SHARE = 0.35, 0.55
"""rho in the paper's modes of high noise, with mean noise levels of 0.55 to 0.65, and of low noise,
with 0.45.
"""


@fl.METHODS.register("fednoil")
class FedNoiL(fl.ServerSide, fl.ClientSide):
    """A round (Algorithm 1): all clients get the global model and send back the sum of its
    confidences in their labels; the participants are drawn by these sums. In each local epoch a
    participant draws its labelled samples again by their confidences, and learns the others from
    pseudo-labels of the global model, as in FixMatch.

    Both draws are without replacement. Confidences and pseudo-labels are those of the model that
    the round starts with, in evaluation mode, and the temperature is the confidences' alone. Every
    step has labelled samples and others in the same proportion, so that a local epoch sees every
    sample once; :attr:`batch` says which of them the batch size counts.
    """

    reference = (
        "Wang et al., FedNoiL: A Simple Two-Level Sampling Method for Federated Learning with "
        "Noisy Labels, arXiv 2205.10110, 2022"
    )
    cost = fl.Cost(effort=1.3)

    temperature: float = fl.option(0.5, doc="tau of the confidences", above=0)
    clean_share: float | None = fl.option(
        None,
        doc="rho; null: the paper's 0.35 under high noise (clients' mean level above a half), and "
        "0.55 under low",
        above=0,
        at_most=1,
    )
    subset_size: Literal["share", "score", "mean_noise"] = fl.option(
        "share",
        doc="labelled samples of a client: rho of its own; score: rho of all the federation's, by "
        "the client's probability to be drawn; mean_noise: as share, rho being what is clean of "
        "all labels",
    )
    confidence: float = fl.option(
        0.95, doc="xi: softmax from which on a pseudo-label counts (FixMatch)", at_least=0
    )
    unlabelled_weight: float = fl.option(1.0, doc="lambda_u (FixMatch)", at_least=0)
    guesses: int = fl.option(2, doc="weak views that a pseudo-label is the mean of", at_least=1)
    batch: Literal["labelled", "all"] = fl.option(
        "all",
        doc="a step's batch size counts its labelled samples, to which their share of the others "
        "is added; or all of its samples, so that an epoch has as many steps as FedAvg's",
    )

    epochs: Literal["cosine", "logarithm", "constant"] = fl.option(
        "logarithm", doc="local epochs from round to round: Eq. 10, Eq. 11, or the schedule's"
    )
    most_epochs: int = fl.option(
        100, doc="T_max, local epochs of the first round", at_least=1, share_of=("local_epochs", 30)
    )
    least_epochs: int = fl.option(
        20, doc="T_min", at_least=1, share_of=("local_epochs", 30), at_most_of="most_epochs"
    )
    least_from: int = fl.option(
        80,
        doc="r_min: the round, counted from 1, from which on it is T_min",
        at_least=1,
        share_of=("rounds", 200),
    )
    evenly: bool = fl.option(
        False,
        doc="spread the local epochs of all rounds evenly over them: Constant(r_min) of Figures 2 "
        "and 3",
    )

    client_sampling: bool = fl.option(True, doc="by score, else uniform (Table 3)")
    data_sampling: bool = fl.option(True, doc="by confidence, else uniform (Table 3)")
    semi_supervised: bool = fl.option(True, doc="learn from the other samples as well (Table 4)")

    needs_level: ClassVar = {"clean_share": None, "subset_size": "mean_noise"}

    variants: ClassVar = {
        "logarithm": {"epochs": "logarithm"},
        "cosine": {"epochs": "cosine"},
        "constant": {"epochs": "constant"},
        "constant_as_logarithm": {"epochs": "logarithm", "evenly": True},
        "constant_as_cosine": {"epochs": "cosine", "evenly": True},
        "uniform_clients": {"client_sampling": False},
        "uniform_data": {"data_sampling": False},
        "without_ssl": {"semi_supervised": False},
    }

    # ---------------------------------------------------------------- the schedule

    def local_epochs(self, round: int) -> int:
        """T_r, the local epochs of a round counted from 1, rounded to the nearest integer.

        psi is chosen so that T_min is reached at r_min. From that round on T_r stays at T_min,
        where Eq. 10 as printed would climb again.
        """
        if round >= self.least_from:
            return self.least_epochs
        if self.epochs == "cosine":
            left = math.cos(math.pi / 2 * (round - 1) / (self.least_from - 1))
        else:
            left = 1 - math.log(round) / math.log(self.least_from)
        return math.floor(self.least_epochs + (self.most_epochs - self.least_epochs) * left + 0.5)

    def even_epochs(self, round: int, rounds: int) -> int:
        """The local epochs of a round, counted from 1, when all rounds have the mean of T_r.

        Where the mean is not an integer, each round has one of the two integers next to it, so that
        the epochs of the first r rounds are within one of r times the mean, for every r, and those
        of all rounds sum to the same total as T_r.
        """
        total = sum(self.local_epochs(r) for r in range(1, rounds + 1))
        return round * total // rounds - (round - 1) * total // rounds

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """The run's schedule with this round's number of local epochs (Section 4.3)."""
        schedule = super().local_schedule(round, schedule)
        if self.epochs == "constant":
            return schedule
        if self.evenly:
            epochs = self.even_epochs(round + 1, schedule.rounds)
        else:
            epochs = self.local_epochs(round + 1)
        return schedule.model_copy(update={"local_epochs": epochs})

    # ---------------------------------------------------------------- who takes part

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """Draw the participants, each client weighted by the sum of its confidences (Eq. 5)."""
        if not self.client_sampling:
            return super().select(round, federation)
        clients = federation.clients
        self._score(round, clients, federation)
        scores = np.array([float(client.state[STATE]["confidence"].sum()) for client in clients])
        for client, share in zip(clients, scores / scores.sum(), strict=True):
            client.state[STATE] = {**client.state[STATE], "probability": float(share)}
        rng = fl.stream(federation.seed, "client sampling", round)
        return draw_by_weight(scores, federation.participants, rng)

    def _score(self, round: int, clients: list[fl.Client], federation: fl.Federation) -> None:
        """Compute how confident the global model is of each label of each client."""
        for client, outputs in federation.ask(clients, "confidence", view="plain"):
            probability = (outputs.logits.double() / self.temperature).softmax(1)
            confidence = probability.gather(1, client.labels[:, None])[:, 0].nan_to_num()
            client.state[STATE] = {"round": round, "confidence": confidence.cpu()}
            federation.report(client, estimated_noise_level=1 - float(confidence.mean()))

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """Bytes of a round; with client sampling all clients receive the model and send a score."""
        down, up = super().exchange(updates, federation)
        if not self.client_sampling:
            return down, up
        count = len(federation.clients)
        size = fl.size_in_bytes(federation.weights)
        return size * count, up + SCORE_BYTES * count

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """Delete what was kept on the clients during the round."""
        for client in federation.clients:
            client.state.pop(STATE, None)

    # ---------------------------------------------------------------- the local update

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Compute the participants' confidences, unless the server has asked for them, the sizes of
        their labelled sets, and their pseudo-labels (Eq. 8).
        """
        unscored = [c for c in participants if c.state.get(STATE, {}).get("round") != round]
        self._score(round, unscored, federation)
        for client in participants:
            size = self._subset(client, federation)
            client.state[STATE] = {**client.state[STATE], "size": size, "draws": []}
        if self.semi_supervised:
            self._guess(round, participants, federation)

    def _subset(self, client: fl.Client, federation: fl.Federation) -> int:
        """How many labelled samples a client draws."""
        clients = federation.clients
        share = self._clean_share(clients)
        expected = share * len(client)
        if self.subset_size == "score":
            probability = client.state[STATE].get("probability", 1 / len(clients))
            expected = share * sum(map(len, clients)) * probability
        elif self.subset_size == "mean_noise":
            noise = fl.mean_noise_level(clients, "fednoil.subset_size")
            expected = (1 - noise) * len(client)
        return min(max(math.floor(expected + 0.5), 1), len(client))

    def _clean_share(self, clients: list[fl.Client]) -> float:
        """rho. The paper sets it by the true noise level, taken for known (Section 5.1)."""
        if self.clean_share is not None:
            return self.clean_share
        high = float(np.mean(fl.known_noise_levels(clients, "fednoil.clean_share"))) > 0.5
        return HIGH_NOISE_SHARE if high else LOW_NOISE_SHARE

    def _guess(self, round: int, participants: list[fl.Client], federation: fl.Federation) -> None:
        total: dict[int, Tensor] = {}
        for number in range(self.guesses):
            for client, outputs in federation.ask(participants, f"pseudo-label {number}"):
                total[client.id] = total.get(client.id, 0) + outputs.logits.softmax(1)
        for client in participants:
            sure, label = (total[client.id] / self.guesses).max(1)
            accepted = sure >= self.confidence
            guesses = {"guess": label, "accepted": accepted.cpu()}
            client.state[STATE] = {**client.state[STATE], **guesses}
            federation.report(client, pseudo_labelled=float(accepted.double().mean()))
            federation.report_labels(client, label.masked_fill(~accepted, -1))
            if bool(accepted.any()):
                right = client.accuracy_of(label, accepted)
                federation.report(client, pseudo_label_accuracy=right)

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Draw the labelled samples (Eq. 6); the others are the unlabelled ones."""
        known = client.state[STATE]
        confidence = known["confidence"].numpy()
        weights = confidence if self.data_sampling else np.ones_like(confidence)
        chosen = draw_by_weight(weights, known["size"], turn.random_stream("data sampling"))
        labelled = np.zeros(len(client), dtype=bool)
        labelled[chosen] = True
        draws = [*known["draws"], torch.from_numpy(labelled)]
        client.state[STATE] = {**known, "draws": draws}

        rng = turn.random_stream("batches")
        if not self.semi_supervised or labelled.all():
            return fl.Epoch(fl.batches(np.sort(chosen), turn.batch_size, rng), client.labels)
        steps = side_by_side(
            rng.permutation(np.flatnonzero(labelled)),
            rng.permutation(np.flatnonzero(~labelled)),
            turn.batch_size,
            self.batch,
        )
        accepted = known["accepted"].numpy() & ~labelled
        here = torch.from_numpy(labelled).to(client.labels.device)
        return fl.Epoch(
            steps,
            torch.where(here, client.labels, known["guess"].to(client.labels.device)),
            {
                "labelled": [labelled[step] for step in steps],
                "accepted": [accepted[step] for step in steps],
            },
            views=("weak", "strong"),
        )

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """L_x + lambda_u L_u (Eqs. 7 and 9): labelled samples in a weak view, others in a strong
        one. The mean of L_u is over all that are unlabelled, accepted or not.
        """
        if "labelled" not in batch:
            return super().loss(model, batch)
        labelled = batch["labelled"]
        weak, strong = batch.views
        images = torch.where(labelled[:, None, None, None], weak, strong)
        losses = fl.cross_entropy(model(images).logits, batch.target)
        supervised = fl.mean_where(losses, labelled)
        return supervised + self.unlabelled_weight * fl.mean_where(
            losses * batch["accepted"], ~labelled
        )

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report every local epoch's labelled samples."""
        for client in (update.client for update in updates):
            for mask in client.state[STATE]["draws"]:
                federation.report_selection(client, mask.to(client.labels.device))


def draw_by_weight(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` positions, drawn one after the other without replacement by weight.

    Adding Gumbel noise to the logarithms of the weights and taking the largest sums amounts to such
    a draw, and does not fail where fewer than ``count`` weights are positive.

    Args:
        weights: of each position, float64 [n], not negative.
        count: how many are drawn, all if there are fewer.
        rng: draws the noise.
    """
    keys = np.log(np.maximum(weights, np.finfo(np.float64).tiny)) + rng.gumbel(size=len(weights))
    return np.argsort(-keys, kind="stable")[:count]


def side_by_side(
    labelled: np.ndarray, unlabelled: np.ndarray, size: int, batch: str
) -> list[np.ndarray]:
    """Steps that all have labelled and unlabelled samples in the same proportion; a last one of a
    single sample is left out.

    Args:
        labelled: positions, at least one, in the order in which steps take them.
        unlabelled: positions of the others, in the order in which steps take them.
        size: samples of a step, as ``batch`` counts them; the last step takes what is left.
        batch: which samples ``size`` counts, the ``labelled`` ones or ``all``.
    """
    count, others = len(labelled), len(unlabelled)
    counted = count if batch == "labelled" else count + others
    ends = np.minimum(np.arange(size, counted + size, size), counted)
    if batch == "labelled":
        first, second = ends, (ends * others + count // 2) // count
    else:
        first = (ends * count + counted // 2) // counted
        second = ends - first
    pairs = zip(np.split(labelled, first[:-1]), np.split(unlabelled, second[:-1]), strict=True)
    return fl.without_single([np.concatenate(pair) for pair in pairs])
