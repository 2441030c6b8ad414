"""FedGR (Tian et al., ICML 2026): the global model learns wrong labels late, and revises clients.

A sample has two views, a weak one u and a strong one v, and the label y. p are the probabilities of
the local model for v, z its logits and h its features.

- Sieving: l is the running mean of a sample's losses under the received models, for its image as it
  is. The lower component of a mixture of two Gaussians of l has the probability c that y is right.
- Refining: the guess g of a clean sample (c of 1/2 or more) is y, of a noisy one the received
  model's class for u. As long as that is not sure, the guess remains what it was.
- Loss: mean of c CE(p, y) + (1 - c) CE(p, g), where a sample without a guess has no second term,
  + w_t KL(softmax(teacher(u) / T) || softmax(z / T))
  + w_f KL(softmax(H(u) / T_f) || softmax(h / T_f)), where H are the received model's features.
  While samples are only sieved the first term is CE(p, y). For a client of which nearly all
  samples are noisy c counts as 0.
- The teacher is the client's own: the moving average of its local models, step by step, which moves
  towards the received model before each local update.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.estimators.mixture import fit_two

LOSSES, VISITS, RIGHT, GUESS, TARGETS = "losses", "visits", "right", "guess", "targets"
"""Keys of a client's state. ``losses`` [samples]: l, of as many rounds as ``visits`` says.
``right``, float64 [samples]: c. ``guess``, int64 [samples]: g, or :data:`NONE`. ``targets``
[samples, classes]: the teacher's logits, in a round in which it teaches.
"""

TEACHER, MOVES = "teacher", "moves"
"""Keys of a client's state: the teacher's weights, and how often these have moved."""

NAMED = "teacher "
"""Beginning of the names of the teacher's weights in the memory."""

NONE = -1
"""The guess of a sample that has none."""

SURE = 0.5
"""The probability of a right label from which a sample is clean."""

ITERATIONS = {"participants": 50, "client": 20}
"""At most so many steps fit a mixture."""

BYTES = 8
"""Of a sample's mean loss, which goes up, and of its probability, which comes down."""


@fl.METHODS.register("fedgr")
class FedGR(fl.ServerSide, fl.ClientSide):
    """See the module. The clients first take part equally often, and their samples are sieved only.
    The mixture is of all participants' samples of a round, which send their losses.
    """

    reference = (
        "Tian et al., Learning Locally, Revising Globally: Global Reviser for Federated Learning "
        "with Noisy Labels, ICML 2026"
    )
    cost = fl.Cost(effort=1.9, models_kept=1)
    partner = ""
    by_sample = (RIGHT, GUESS, TARGETS)

    sieving_rounds: int = fl.option(
        100,
        doc="rounds in which samples are sieved only, and all clients take part equally often",
        at_least=1,
        share_of=("rounds", 500),
    )
    teaching_round: int = fl.option(
        100,
        doc="rounds until the teacher teaches; before, it is the received model",
        at_least=0,
        share_of=("rounds", 500),
    )
    strong_view: Literal["strong3", "strong3_uncut", "strong"] = fl.option(
        "strong3",
        doc="v: TorchSSL's RandAugment and cutout (code), the same without cutout, or FixMatch's",
    )
    sieve: Literal["participants", "client"] = fl.option(
        "participants", doc="whose samples a mixture is of: all participants', or a client's own"
    )
    confidence: float = fl.option(
        0.9, doc="probability above which a guess is sure", at_least=0, at_most=1
    )
    noisy_client: float = fl.option(
        0.8, doc="share of noisy samples from which on a client learns guesses alone", at_least=0
    )
    few_guesses: float = fl.option(
        0.5,
        doc="share of guesses below which such a client's teacher is the received model",
        at_least=0,
    )
    refinement: bool = fl.option(True, doc="noisy samples get guesses; if not, they are left out")
    decay: float = fl.option(
        0.99,
        doc="what the teacher keeps in a step, after a start",
        at_least=0,
        below=1,
    )
    revised_share: float = fl.option(
        0.1, doc="how far the teacher moves to the received model", at_least=0, at_most=1
    )
    teacher_weight: float = fl.option(1.0, doc="w_t", at_least=0)
    temperature: float = fl.option(0.5, doc="T", above=0)
    feature_weight: float = fl.option(0.1, doc="w_f", at_least=0)
    feature_temperature: float = fl.option(0.5, doc="T_f", above=0)

    variants: ClassVar = {
        "without_refinement": {"refinement": False},
        "without_teacher": {"teacher_weight": 0.0},
        "without_features": {"feature_weight": 0.0},
        "own_sieve": {"sieve": "client"},
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """What follows the sieving, and the teacher."""
        return {
            "the refinement of labels (sieving_rounds)": self.sieving_rounds,
            "the teacher (teaching_round)": self.teaching_round,
        }

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """While samples are only sieved, sweeps over all clients, in a new order each; the last
        round of a sweep may have fewer. Then as FedAvg.
        """
        if round >= self.sieving_rounds:
            return super().select(round, federation)
        count = len(federation.clients)
        number, places = fl.sweep(round, count, federation.participants)
        return fl.stream(federation.seed, "sweep", number).permutation(count)[places]

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """The participants of a sweep's round, then as FedAvg."""
        if round >= self.sieving_rounds:
            return super().counted_updates(round, federation)
        return len(fl.sweep(round, len(federation.clients), federation.participants)[1])

    # ---------------------------------------------------------------- before a local update

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Observe the participants' losses, revise their teachers, and guess their labels."""
        for client, outputs in federation.ask(participants, "sieve", view="plain"):
            losses = fl.cross_entropy(outputs.logits, client.given)
            visits = client.state.get(VISITS, 0)
            before = client.state.get(LOSSES, torch.zeros_like(losses))
            client.state[LOSSES] = before + (losses - before) / (visits + 1)
            client.state[VISITS] = visits + 1
            client.state[TEACHER] = self.revised(client, federation)
        if round >= self.teaching_round and self.teacher_weight:
            requests = [
                fl.Pass(client, client.state[TEACHER], "teacher") for client in participants
            ]
            taught = federation.passes(requests, round)
            for client, outputs in zip(participants, taught, strict=True):
                client.state[TARGETS] = outputs.logits
        if round >= self.sieving_rounds:
            sieved = [client for client in participants if RIGHT in client.state]
            for client, outputs in federation.ask(sieved, "guess"):
                self.guess(client, outputs.logits, federation)

    def guess(self, client: fl.Client, logits: Tensor, federation: fl.Federation) -> None:
        """Set the client's guesses by the received model's logits [samples, classes]."""
        sureness, guessed = logits.softmax(1).max(1)
        kept = client.state.get(GUESS, torch.full_like(client.given, NONE))
        kept = torch.where(sureness > self.confidence, guessed, kept)
        clean = client.state[RIGHT] >= SURE
        client.state[GUESS] = guess = torch.where(clean, client.given, kept)
        known = ~clean & (guess != NONE)
        federation.report(client, pseudo_labelled=float(known.double().mean()))
        federation.report_labels(client, guess.masked_fill(~known, -1))
        if known.any():
            right = client.accuracy_of(guess, known)
            federation.report(client, pseudo_label_accuracy=right)

    def revised(self, client: fl.Client, federation: fl.Federation) -> fl.Weights:
        """The client's teacher, moved towards the received model; before it teaches, or where a
        client had hardly a right label or guess at its last visit, it is that model.
        """
        received = federation.weights
        teacher = client.state.get(TEACHER)
        if teacher is None or federation.round < self.teaching_round:
            return received
        if RIGHT in client.state:
            guess = client.state.get(GUESS, torch.full_like(client.given, NONE))
            guesses = float((guess != NONE).double().mean())
            if noise_of(client) > self.noisy_client and guesses < self.few_guesses:
                return received
        return moved_towards(teacher, received, self.revised_share)

    # ---------------------------------------------------------------- a local update

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The teacher's weights; after the sieving ``right`` and ``guess`` [samples], and where the
        teacher teaches its ``targets`` [samples, classes].
        """
        trained = federation.weights
        teacher = client.state[TEACHER]
        held = {
            NAMED + name: fl.to_device(weight, trained[name].device)
            for name, weight in teacher.items()
            if name in fl.trainable_names(trained)
        }
        if TARGETS in client.state:
            held[TARGETS] = client.state[TARGETS]
        if federation.round >= self.sieving_rounds and GUESS in client.state:
            right, guess = client.state[RIGHT], client.state[GUESS]
            if not self.refinement:
                right, guess = right >= SURE, torch.full_like(guess, NONE)
            elif noise_of(client) >= self.noisy_client:
                right = torch.zeros_like(right)
            held |= {RIGHT: right.to(trained["0.classifier.weight"].dtype), GUESS: guess}
        return held

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Every image in both views; the teacher follows a step when the next one is made."""
        epoch = super().epoch(client, turn)
        count, done = len(epoch.steps), client.state.get(MOVES, 0)
        steps = range(turn.number * count, (turn.number + 1) * count)
        follow = [self.share(done + step - 1) if step else 0.0 for step in steps]
        return fl.Epoch(epoch.steps, epoch.targets, {"follow": follow}, (self.strong_view, "weak"))

    def share(self, moves: int) -> float:
        """How far the teacher follows the local model, having moved so often."""
        return 1 - min((moves - 1) / moves, self.decay) if moves > 2 else 1.0

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the module."""
        follow(model, batch)
        strong, weak = batch.views
        outputs = model(strong)
        loss = self.label_loss(outputs.logits, batch)
        if self.feature_weight:
            features = model.received(weak).features
            away = kl_divergence(features, outputs.features, self.feature_temperature)
            loss = loss + self.feature_weight * away
        if TARGETS in batch.memory:
            taught = batch.memory[TARGETS][batch.positions]
            away = kl_divergence(taught, outputs.logits, self.temperature)
            loss = loss + self.teacher_weight * away
        return loss

    def label_loss(self, logits: Tensor, batch: fl.Batch) -> Tensor:
        """The first term of the loss, of logits [batch, classes]."""
        given = fl.cross_entropy(logits, batch.target)
        if RIGHT not in batch.memory:
            return given.mean()
        right = batch.memory[RIGHT][batch.positions]
        guess = batch.memory[GUESS][batch.positions]
        guessed = fl.cross_entropy(logits, guess.clamp(min=0)) * (guess != NONE)
        return (right * given + (1 - right) * guessed).mean()

    # ---------------------------------------------------------------- after it

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep the teachers, which follow the last step too, and sieve the samples."""
        for update in updates:
            state = update.client.state
            state.pop(TARGETS, None)
            done = state.get(MOVES, 0)
            shares = [self.share(done + step) for step in range(update.steps)]
            state[TEACHER] = followed(state[TEACHER], update, shares)
            state[MOVES] = done + update.steps
        values = [update.client.state[LOSSES].double() for update in updates]
        steps = ITERATIONS[self.sieve]
        if self.sieve == "participants":
            together = small_loss_probability(torch.cat(values), steps)
            right = together.split([len(some) for some in values])
            sent = BYTES * sum(len(some) for some in values)
            federation.exchange(down=sent, up=sent)
        else:
            right = tuple(small_loss_probability(some, steps) for some in values)
        for update, probability in zip(updates, right, strict=True):
            client = update.client
            client.state[RIGHT] = probability
            federation.report_selection(client, probability >= SURE)
            federation.report(client, estimated_noise_level=noise_of(client))


def followed(teacher: fl.Weights, update: fl.Update, shares: list[float]) -> fl.Weights:
    """The teacher after a local update, of whose steps the memory lacks the last one; its buffers
    move at once as far as in all steps together.

    Args:
        teacher: as it was before the update.
        update: whose memory has the teacher's parameters.
        shares: how far the teacher follows the local model after each step.
    """
    if not shares:
        return teacher
    trained = {name: update.memory[NAMED + name] for name in fl.trainable_names(update.weights)}
    way = 1 - math.prod(1 - share for share in shares)
    buffers = moved_towards(teacher, update.weights, way)
    return {**buffers, **moved_towards(trained, update.weights, shares[-1])}


def noise_of(client: fl.Client) -> float:
    """The share of a client's samples that are noisy."""
    return float((client.state[RIGHT] < SURE).double().mean())


def small_loss_probability(losses: Tensor, steps: int) -> Tensor:
    """float64 [n], the probability of the lower component given each mean loss [n], of a mixture
    that is fitted in so many steps; all 1 if a loss is not finite.
    """
    if not bool(losses.isfinite().all()):
        return torch.ones_like(losses)
    mixture = fit_two(losses[None], tolerance=1e-2, max_iterations=steps, regularisation=5e-4)
    return mixture.posterior(losses[None])[0, :, 0]


def moved_towards(weights: fl.Weights, target: fl.Weights, share: float) -> fl.Weights:
    """Weights moved towards others by a share of the way; counters become the others'."""
    return {
        name: fl.to_device(weight, target[name].device).lerp(target[name], share)
        if weight.is_floating_point()
        else target[name]
        for name, weight in weights.items()
    }


@torch.no_grad()
def follow(model: fl.LocalModel, batch: fl.Batch) -> None:
    """Move the teacher in the memory towards the local model, by the step's ``follow``."""
    local = list(model.weights.values())
    teacher = [batch.memory[NAMED + name] for name in model.weights]
    way = torch._foreach_sub(local, teacher)
    torch._foreach_mul_(way, batch["follow"])
    torch._foreach_add_(teacher, way)


def kl_divergence(target: Tensor, logits: Tensor, temperature: float) -> Tensor:
    """Mean KL(softmax(target / T) || softmax(logits / T)) over [n, width], a scalar."""
    log_target = (target / temperature).log_softmax(1)
    away = log_target.exp() * (log_target - (logits / temperature).log_softmax(1))
    return away.sum(1).mean()
