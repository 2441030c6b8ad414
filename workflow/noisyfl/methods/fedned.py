"""FedNed (Lu et al., AAAI 2024): extremely noisy clients are found by the entropy of their models,
which become bad teachers of the global model.

The server has public images without labels. With a model's logits z(x) and probabilities p_d(x)
under the d-th of D draws of dropout on its features:

- Uncertainty of a model: the sum over public images x of the entropy of (1 / D) sum_d p_d(x).
- Extremely noisy is a participant whose model's uncertainty is above ``most_uncertain`` times the
  participants' mean.
- Pseudo-label of a sample: argmax of softmax(z / T), where its maximum is at least ``confidence``.
- Negative distillation: the mean of the other participants' models descends on the mean, over bad
  teachers b and public images, of sum_c t_c (log t_c - log softmax(z / T)_c), where t is
  softmax(1 / z_b) / T.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl

EXTREME = "extremely_noisy"
"""Key in a client's state, set for good once the client is found extremely noisy."""

PUBLIC = "public_rows"
"""Key, in the federation's state, of the public images: int64 [n], rows of the dataset."""

BATCH = 128
"""Public images of a step of negative distillation (code)."""

WEIGHT_DECAY = 0.002
"""Of negative distillation (code)."""

LARGEST = 1e6
"""Reciprocals of logits are kept this near to 0: the softmax of an infinite one is not defined."""

GIVEN = fl.ClientSide()
"""Learns the given labels, as FedAvg's clients do."""


@fl.METHODS.register("fedned")
class FedNed(fl.ServerSide, fl.ClientSide):
    """After a warm-up by FedAvg, the server takes the mean of the models of those participants that
    are not extremely noisy in this round, and drives it away from the bad teachers.

    A client that was found extremely noisy once trains two models whenever it takes part: one on
    confident pseudo-labels, which counts in the mean unless it is too uncertain, and one on its
    given labels, which is a bad teacher. In the round in which it is found, its only model is one.
    """

    reference = (
        "Lu et al., Federated Learning with Extremely Noisy Clients via Negative Distillation, "
        "AAAI 2024"
    )
    cost = fl.Cost(effort=2.0)
    partner = ""

    warm_up_rounds: int = fl.option(
        10, doc="rounds of FedAvg at the start", at_least=0, share_of=("rounds", 100)
    )
    most_uncertain: float = fl.option(
        1.2,
        doc="a participant is extremely noisy whose model's uncertainty is above so many times the "
        "participants' mean",
        at_least=1,
    )
    dropout: float = fl.option(
        0.3, doc="share of features that a draw leaves out", above=0, below=1
    )
    draws: int = fl.option(10, doc="D: draws of dropout for each public image", at_least=1)
    temperature: float = fl.option(2.0, doc="T", above=0)
    confidence: float = fl.option(
        0.95, doc="least probability of a pseudo-label that is learnt", at_least=0, at_most=1
    )
    labelled_by: Literal["received", "local"] = fl.option(
        "received",
        doc="whose pseudo-labels these are: the received model's, or the local one's as it trains",
    )
    unconfident: Literal["left_out", "learnt"] = fl.option(
        "left_out",
        doc="samples whose pseudo-label is not confident: left out of a batch's loss; or learnt, "
        "too, while the whole loss is multiplied by the share of confident ones",
    )
    bad_teacher: Literal["apart", "continued"] = fl.option(
        "apart",
        doc="where an extremely noisy client's model of given labels starts: from the received "
        "model; or from that of pseudo-labels, in whose place it then counts too",
    )
    public_samples: int = fl.option(
        1000, doc="images, drawn from all clients' ones, that stand for public ones", at_least=1
    )
    distillation_steps: int = fl.option(
        100, doc="of negative distillation in a round; 0: none", at_least=0
    )
    distillation_learning_rate: float = fl.option(0.01, doc="of its SGD", above=0)

    variants: ClassVar = {
        "official": {
            "labelled_by": "local",
            "unconfident": "learnt",
            "bad_teacher": "continued",
            "distillation_steps": 0,
        }
    }

    # ---------------------------------------------------------------- the rounds

    def begin(self, federation: fl.Federation) -> None:
        """Draw the public images."""
        rows = torch.cat([client.rows for client in federation.clients])
        count = min(self.public_samples, len(rows))
        drawn = fl.stream(federation.seed, "public images").choice(len(rows), count, replace=False)
        federation.state[PUBLIC] = rows[torch.from_numpy(drawn).to(rows.device)]

    def stage(self, round: int, federation: fl.Federation) -> str:
        """``warm-up`` or ``training``."""
        return "warm-up" if round < self.warm_up_rounds else "training"

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The round in which extremely noisy clients are first looked for."""
        return {"extremely noisy clients (warm_up_rounds)": self.warm_up_rounds}

    # ---------------------------------------------------------------- a local update

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Tell the loss of an extremely noisy client to take pseudo-labels."""
        epoch = super().epoch(client, turn)
        if not client.state.get(EXTREME, False):
            return epoch
        return dataclasses.replace(
            epoch, extras={"confidence": [self.confidence] * len(epoch.steps)}
        )

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Cross-entropy with the labels, or with pseudo-labels (see the module)."""
        logits = model(batch.images).logits
        if "confidence" not in batch:
            return fl.cross_entropy(logits, batch.target).mean()
        by_received = self.labelled_by == "received"
        teacher = model.received(batch.images).logits if by_received else logits.detach()
        probability, label = (teacher / self.temperature).softmax(1).max(1)
        losses = fl.cross_entropy(logits, label)
        confident = (probability >= batch["confidence"]).to(losses.dtype)
        if self.unconfident == "left_out":
            return (losses * confident).mean()
        return losses.mean() * confident.mean()

    # ---------------------------------------------------------------- the server

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The mean of the models that are not too uncertain, after negative distillation.

        The model stays as it was if all of them are.
        """
        if federation.round < self.warm_up_rounds:
            return super().aggregate(updates, federation)
        updates = fl.nonempty(updates)
        teachers = self._train_on_given(
            [u for u in updates if EXTREME in u.client.state], federation
        )
        uncertainties = self._uncertainties(updates, federation)
        limit = self.limit(uncertainties)
        chosen = []
        for update, uncertainty in zip(updates, uncertainties, strict=True):
            if uncertainty <= limit:
                chosen.append(update)
            elif EXTREME not in update.client.state:
                teachers.append(update.weights)
                update.client.state[EXTREME] = True
        total = sum(update.size for update in chosen)
        for update, uncertainty in zip(updates, uncertainties, strict=True):
            federation.report(
                update.client,
                uncertainty=uncertainty,
                called_noisy=float(EXTREME in update.client.state),
                aggregation_weight=update.size / total if uncertainty <= limit else 0.0,
            )
        if not chosen:
            return federation.weights
        mean = fl.average([u.weights for u in chosen], [float(u.size) for u in chosen])
        return self._distill(mean, teachers, federation)

    def _train_on_given(
        self, updates: list[fl.Update], federation: fl.Federation
    ) -> list[fl.Weights]:
        """The bad teachers of clients that were extremely noisy before this round."""
        apart = self.bad_teacher == "apart"
        starts = [federation.weights if apart else update.weights for update in updates]
        tasks = [fl.Task(u.client, start) for u, start in zip(updates, starts, strict=True)]
        trained = federation.train(tasks, GIVEN, federation.round, "bad teachers")
        for update, teacher in zip(updates, trained, strict=True):
            if apart:
                federation.exchange(up=fl.size_in_bytes(teacher.weights))
            else:
                update.weights = teacher.weights
        return [teacher.weights for teacher in trained]

    def limit(self, uncertainties: list[float]) -> float:
        """The most that a participant's uncertainty may be, given those of all; infinite ones do
        not count in the mean.
        """
        finite = [value for value in uncertainties if value < math.inf]
        return self.most_uncertain * sum(finite) / max(len(finite), 1)

    def _uncertainties(self, updates: list[fl.Update], federation: fl.Federation) -> list[float]:
        """Each model's uncertainty; infinite if it is not a number."""
        public, round = public_client(federation), federation.round
        requests = [
            fl.Pass(public, update.weights, "uncertainty", view="plain") for update in updates
        ]
        answers = federation.passes(requests, round)
        if not answers:
            return []
        shape = (self.draws, *answers[0].features.shape)
        drawn = fl.stream(federation.seed, "dropout of features", round).random(shape, np.float32)
        kept = torch.from_numpy(drawn >= self.dropout).to(answers[0].features.device)
        found = [
            uncertainty(outputs.features, update.weights, kept, self.dropout)
            for update, outputs in zip(updates, answers, strict=True)
        ]
        return torch.stack(found).nan_to_num(math.inf).tolist()

    def _distill(
        self, model: fl.Weights, teachers: list[fl.Weights], federation: fl.Federation
    ) -> fl.Weights:
        """``model`` after the round's negative distillation from ``teachers``."""
        if not teachers or not self.distillation_steps:
            return model
        public, round = public_client(federation), federation.round
        requests = [fl.Pass(public, teacher, "bad teachers", view="plain") for teacher in teachers]
        logits = [outputs.logits for outputs in federation.passes(requests, round)]
        memory = bad_targets(logits, self.temperature)
        side = NegativeDistillation(
            steps=self.distillation_steps,
            learning_rate=self.distillation_learning_rate,
            temperature=self.temperature,
        )
        task = fl.Task(public, model, memory)
        return federation.train([task], side, round, "negative distillation")[0].weights


class NegativeDistillation(fl.ClientSide):
    """Steps on public images towards the bad teachers' targets, by plain SGD (see the module)."""

    name: ClassVar[str] = "fedned's negative distillation"
    by_sample = ("target", "entropy")

    steps: int = fl.option(doc="how many", at_least=1)
    learning_rate: float = fl.option(doc="of SGD", above=0)
    temperature: float = fl.option(doc="of the model's softmax", above=0)

    def local_schedule(self, round: int, schedule: fl.Schedule) -> fl.Schedule:
        """One epoch, of all the steps."""
        own = {
            "local_epochs": 1,
            "optimizer": "sgd",
            "learning_rate": self.learning_rate,
            "momentum": 0.0,
            "weight_decay": WEIGHT_DECAY,
        }
        return schedule.model_copy(update=own)

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Draw the images of each step, without replacement."""
        rng = turn.random_stream("negative distillation")
        size = min(BATCH, len(client))
        steps = [rng.choice(len(client), size, replace=False) for _ in range(self.steps)]
        return fl.Epoch(steps, client.labels, views=("plain",))

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """The mean divergence from the bad teachers' targets."""
        log_probability = (model(batch.images).logits / self.temperature).log_softmax(1)
        target = batch.memory["target"][batch.positions]
        negative_entropy = -batch.memory["entropy"][batch.positions]
        return (negative_entropy - (target * log_probability).sum(1)).mean()


def public_client(federation: fl.Federation) -> fl.Client:
    """The public images, as those of a client after the last one, whose labels nobody knows."""
    rows = federation.state[PUBLIC]
    return fl.Client(
        len(federation.clients), rows, torch.zeros_like(rows), torch.full_like(rows, -1)
    )


def uncertainty(features: Tensor, weights: fl.Weights, kept: Tensor, dropout: float) -> Tensor:
    """The uncertainty of a model, a scalar (see the module).

    Args:
        features: [samples, width].
        kept: bool [draws, samples, width], the features that each draw leaves in.
        dropout: the share that it leaves out; the others are divided by one minus that.
    """
    weight, bias = weights["0.classifier.weight"], weights["0.classifier.bias"]
    said = [((features * draw / (1 - dropout)) @ weight.T + bias).softmax(1) for draw in kept]
    return torch.special.entr(torch.stack(said).mean(0)).sum()


def bad_targets(logits: list[Tensor], temperature: float) -> dict[str, Tensor]:
    """The teachers' mean target t [samples, classes], and the mean of -sum_c t_c log t_c [samples].

    Args:
        logits: of each teacher, [samples, classes].
        temperature: T.
    """
    reciprocals = [value.reciprocal().clamp(-LARGEST, LARGEST) for value in logits]
    targets = torch.stack([value.softmax(1) / temperature for value in reciprocals])
    return {"target": targets.mean(0), "entropy": torch.special.entr(targets).sum(2).mean(0)}
