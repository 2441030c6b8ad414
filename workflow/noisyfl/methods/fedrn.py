"""FedRN (Kim et al., CIKM 2022): neighbours' models help a client to tell its clean samples.

Equation and algorithm numbers are the paper's. Where the official code does otherwise the choice is
an option, or stands in workflow/reasons; unless said there, the defaults are the code's, which made
the published numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.nn.utils.rnn import pad_sequence

import noisyfl.method as fl
from noisyfl.methods.estimators.mixture import fit_two

TOLERANCE, FLOOR = 1e-2, 5e-4
"""The tolerance at which the fit of a mixture stops, and what is added to its variances (code)."""


@fl.METHODS.register("fedrn")
class FedRN(fl.ClientSide):
    """After a warm-up with FedAvg, a client trains on its clean set alone (Algorithm 1).

    The clean set comes from the losses of k + 1 models: the client's own and those of its most
    reliable neighbours, whose classifiers it first fine-tunes. The server keeps the model, the
    training accuracy and the answer to one random image of every client as its last local update
    left them; of clients that it never saw it knows nothing, so that they are nobody's neighbours
    and have none.
    """

    reference = (
        "Kim et al., FedRN: Exploiting k-Reliable Neighbors Towards Robust Federated Learning, "
        "CIKM 2022"
    )
    cost = fl.Cost(effort=1.6, models_kept=1)

    neighbours: int = fl.option(2, doc="k: models that a client gets beside the global", at_least=0)
    alpha: float = fl.option(
        0.6, doc="weight of expertise against similarity (Eq. 3)", at_least=0, at_most=1
    )
    warm_up_rounds: int = fl.option(
        100, doc="rounds of FedAvg before", at_least=0, share_of=("rounds", 500)
    )
    finetune: bool = fl.option(True, doc="fine-tune the neighbours' classifiers (Table 5)")
    neighbour_choice: Literal["reliable", "random"] = fl.option(
        "reliable", doc="the most reliable, or any, with equal reliability weights (Table 9)"
    )
    similarity: Literal["logits", "softmax"] = fl.option(
        "logits", doc="what the cosine of Eq. 5 compares: logits (code) or softmax (paper)"
    )
    target_model: Literal["stale", "received"] = fl.option(
        "stale",
        doc="what counts as the client's own: its model as its last local update left it (code; "
        "on a first visit the global one), or the global one",
    )
    threshold: float = fl.option(
        0.5, doc="probability above which a sample is clean (Eqs. 8, 9)", at_least=0, below=1
    )

    variants: ClassVar = {
        "paper": {"similarity": "softmax"},
        "one_neighbour": {"neighbours": 1},
        "random_neighbours": {"neighbour_choice": "random"},
        "without_finetuning": {"finetune": False},
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The round in which the choice of clean samples begins."""
        return {"the choice of clean samples (warm_up_rounds)": self.warm_up_rounds}

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Find each participant's clean set (Algorithm 1, lines 4 to 13)."""
        if round < self.warm_up_rounds:
            return
        targets = [fl.Task(client, self._target(client, federation)) for client in participants]
        own = clean_probabilities(targets, federation)
        weights, helpers = [], []
        for client, probability in zip(participants, own, strict=True):
            chosen, weight = self.team(client, round, federation)
            client.state["auxiliary"] = self.probably_clean(probability)
            helpers += [fl.Task(client, neighbour.state["weights"]) for neighbour in chosen]
            weights.append(weight)
        federation.exchange(down=sum(fl.size_in_bytes(helper.weights) for helper in helpers))
        tuned: Sequence[fl.Task | fl.Update] = helpers
        if self.finetune:
            tuned = federation.train(helpers, FINE_TUNING, round, "fine-tuning")
        others = iter(clean_probabilities(tuned, federation))
        for client, probability, weight in zip(participants, own, weights, strict=True):
            heard = torch.stack([probability, *(next(others) for _ in weight[1:])])
            # Eq. 7
            clean = self.probably_clean(fl.product(heard.new_tensor(weight), heard))
            del client.state["auxiliary"]
            client.state["clean"] = clean
            federation.report_selection(client, clean)
            federation.report(client, clean_share=float(clean.double().mean()))

    def _target(self, client: fl.Client, federation: fl.Federation) -> fl.Weights:
        stale = self.target_model == "stale" and "weights" in client.state
        return client.state["weights"] if stale else federation.weights

    def probably_clean(self, probability: Tensor) -> Tensor:
        """bool [samples]: the samples that are probably clean (Eqs. 8, 9), or all if fewer than two
        are.
        """
        chosen = probability > self.threshold
        return chosen if int(chosen.sum()) > 1 else torch.ones_like(chosen)

    def team(
        self, client: fl.Client, round: int, federation: fl.Federation
    ) -> tuple[list[fl.Client], list[float]]:
        """A client's neighbours (Definition 4.1), and the reliability weights of the client and of
        each neighbour, which sum to 1.

        Args:
            round: counted from 0.
        """
        if "answer" not in client.state:
            return [], [1.0]
        others = [
            other
            for other in federation.clients
            if other.id != client.id and "answer" in other.state
        ]
        if self.neighbour_choice == "random":
            rng = fl.stream(federation.seed, "neighbours", round, client.id)
            best = rng.permutation(len(others))[: self.neighbours].tolist()
            weights = torch.ones(1 + len(best), dtype=torch.float64)
        else:
            score = self.reliability(client, others)
            best = score[1:].argsort(descending=True, stable=True)[: self.neighbours].tolist()
            weights = score[[0, *(1 + number for number in best)]]
            if not weights.any():
                weights = torch.ones_like(weights)
        return [others[number] for number in best], (weights / weights.sum()).tolist()

    def reliability(self, client: fl.Client, others: list[fl.Client]) -> Tensor:
        """The reliability R of the client itself, then of each other client (Eqs. 3 to 5): float64
        [1 + others], on the host.
        """
        known = [client, *others]
        accuracy = torch.tensor([c.state["expertise"] for c in known], dtype=torch.float64)
        answers = torch.stack([c.state["answer"] for c in known]).double().cpu()
        if self.similarity == "softmax":
            answers = answers.softmax(1)
        similarity = min_max(cosine_similarity(answers[:1], answers))
        similarity[0] = 1
        return self.alpha * min_max(accuracy) + (1 - self.alpha) * similarity

    def positions(self, client: fl.Client) -> np.ndarray:
        """The clean set, or all samples as long as the client has none, as in the warm-up."""
        if "clean" not in client.state:
            return super().positions(client)
        return np.flatnonzero(client.state["clean"].cpu().numpy())

    def size(self, client: fl.Client) -> float:
        """All samples, not the clean ones alone (Algorithm 1, line 20)."""
        return float(len(client))

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep what the server stores of each participant: its model, training accuracy and answer
        to the random image (Algorithm 1, lines 16 to 18).
        """
        image = federation.random_image()
        for update, outputs in federation.ask(updates, "expertise"):
            client = update.client
            right = outputs.logits.argmax(1) == client.labels
            answer = federation.outputs_of(image, update.weights).logits[0]
            client.state["weights"] = update.weights
            client.state["expertise"] = float(right.double().mean())
            client.state["answer"] = answer
            federation.report(client, expertise=client.state["expertise"])
            federation.exchange(up=answer.element_size() * (1 + len(answer)))


class FineTuning(fl.ClientSide):
    """Train a neighbour's classifier for one epoch on the samples that the client's own model alone
    finds clean (Eq. 9).
    """

    name: ClassVar[str] = "fedrn's fine-tuning"

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """One epoch."""
        return super().local_schedule(round, schedule).model_copy(update={"local_epochs": 1})

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Draw batches from the auxiliary set; only the classifier learns."""
        positions = np.flatnonzero(client.state["auxiliary"].cpu().numpy())
        steps = fl.batches(positions, turn.batch_size, turn.random_stream("fine-tuning"))
        return fl.Epoch(steps, client.labels, learns="0.classifier")


# A single object for all rounds, since an executor finds the steps that it captured by their client
# side.
FINE_TUNING = FineTuning()


def clean_probabilities(
    models: Sequence[fl.Task | fl.Update], federation: fl.Federation
) -> list[Tensor]:
    """For each model, the probabilities that its client's samples are clean (Eq. 6).

    They are the posterior of the mixture component with the smaller losses, float64 [samples].

    Args:
        federation: makes the passes, and counts them.
    """
    if not models:
        return []
    losses = [
        min_max(fl.cross_entropy(outputs.logits, model.client.labels).double().nan_to_num(), 0.0)
        for model, outputs in federation.ask(models, "clean set")
    ]
    values = pad_sequence(losses, batch_first=True)
    counts = torch.tensor([len(loss) for loss in losses], device=values.device)
    mask = torch.arange(values.shape[1], device=values.device) < counts[:, None]
    mixtures = fit_two(values, mask, tolerance=TOLERANCE, regularisation=FLOOR)
    probability = mixtures.posterior(values)[..., 0]
    return [row[: len(loss)] for row, loss in zip(probability, losses, strict=True)]


def min_max(values: Tensor, same: float = 1.0) -> Tensor:
    """``values`` [n] shifted and scaled to [0, 1]; ``same`` everywhere if they are all equal."""
    low, high = values.min(), values.max()
    apart = high > low
    return torch.where(apart, (values - low) / torch.where(apart, high - low, 1.0), same)
