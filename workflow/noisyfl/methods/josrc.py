"""Jo-SRC (Yao et al., CVPR 2021): clean samples agree with their label, and samples that can be
relabelled agree with themselves.

What the paper and its code say by epochs of one training is said here by rounds.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

import noisyfl.method as fl

STUDENT, TEACHER = "0.", "1."
"""Prefixes of the names of the student's and of the teacher's weights."""


@fl.METHODS.register("josrc")
class JoSRC(fl.ClientSide):
    """A sample is clean if the prediction for its first view is near its smoothed label, by the
    Jensen-Shannon divergence. The others keep the teacher's soft label where the predictions for
    both views agree, and are taught to be like nothing where they do not.

    The teacher is a second network, the exponential moving average of the first one in a local
    update. It starts as the first one, learns nothing, is never sent, and works in training mode,
    that is, normalises by the batch, as in the official code.
    """

    reference = "Yao et al., Jo-SRC: A Contrastive Approach for Combating Noisy Labels, CVPR 2021"
    networks = 2
    cost = fl.Cost(effort=1.5)
    by_sample = ("clean",)

    smoothing: float = fl.option(
        0.6, doc="epsilon: share of a label that goes to the other classes", at_least=0, below=1
    )
    warm_up: float = fl.option(
        0.05, doc="share of the rounds that are warm-up: 10 of 200 epochs", at_least=0, at_most=1
    )
    clean_threshold: float = fl.option(
        0.75, doc="tau_clean, reached at the end of the warm-up", at_least=0, at_most=1
    )
    last_threshold: float = fl.option(
        0.95, doc="what the threshold then grows to by the end of the run", at_least=0, at_most=1
    )
    consistency_weight: float = fl.option(
        0.5, doc="alpha: share of the consistency term in the loss", at_least=0, at_most=1
    )
    decay: float = fl.option(0.99, doc="of the teacher's moving average", at_least=0, at_most=1)
    flattening: float = fl.option(
        10.0,
        doc="temperature of the second softmax, over the teacher's probabilities, that labels "
        "out-of-distribution samples",
        above=0,
    )

    # ---------------------------------------------------------------- the schedule

    def threshold(self, round: int, rounds: int) -> float:
        """The likelihood of being clean from which on a sample counts as clean in a round.

        It grows from 0 to ``clean_threshold`` in the warm-up, then on to ``last_threshold``.
        """
        warm = self._warm_up_rounds(rounds)
        if round < warm:
            return self.clean_threshold * round / warm
        done = min(1.0, (round - warm) / max(rounds - warm, 1))
        return self.clean_threshold + (self.last_threshold - self.clean_threshold) * done

    def _warm_up_rounds(self, rounds: int) -> int:
        return math.floor(self.warm_up * rounds + 0.5)

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Tell the participants whether the round is a warm-up, and its threshold."""
        rounds = federation.schedule.rounds
        for client in participants:
            client.state["josrc"] = {
                "warm_up": round < self._warm_up_rounds(rounds),
                "threshold": self.threshold(round, rounds),
            }

    # ---------------------------------------------------------------- the local update

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """``clean`` [samples], whether a sample was selected as clean when it was last seen."""
        return {"clean": torch.zeros_like(client.labels, dtype=torch.bool)}

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Ask for two views, and set for each step the share of the way that the teacher moves
        towards the student (all of it in the update's first step) and the threshold.
        """
        epoch = super().epoch(client, turn)
        count = len(epoch.steps)
        known = client.state["josrc"]
        follow = [1 - self.decay] * count
        if turn.number == 0:
            follow[:1] = [1.0]
        extras: dict[str, list] = {
            "follow": follow,
            "threshold": [known["threshold"]] * count,
        }
        if known["warm_up"]:
            extras["warm-up"] = [True] * count
        return fl.Epoch(epoch.steps, epoch.targets, extras, ("weak", "weak"), learns=STUDENT)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """(1 - alpha) L_c + alpha L_o; in the warm-up, cross-entropy of the clean samples alone."""
        _move_teacher(model, batch["follow"])
        # Without augmentation both views are the same, and one pass answers for both.
        views = batch.views[:1] if batch.views_are_one else batch.views
        outputs = [model(view).logits for view in views]
        first, second = outputs[0], outputs[-1]
        given = self._smoothed(batch.target, first)
        with torch.no_grad():
            clean = 1 - js_divergence(first.softmax(1), given) >= batch["threshold"]
            batch.memory["clean"][batch.positions] = clean
        if "warm-up" in batch:
            return fl.mean_where(
                fl.cross_entropy(first, given) + fl.cross_entropy(second, given), clean
            )
        agree = first.argmax(1) == second.argmax(1)
        guesses = [model.look(view, network=1).logits.softmax(1) for view in views]
        guess = (guesses[0] + guesses[-1]) / 2
        flat = (guess / self.flattening).softmax(1)
        target = torch.where(clean[:, None], given, torch.where(agree[:, None], guess, flat))
        fit = (fl.cross_entropy(first, target) + fl.cross_entropy(second, target)).mean()
        sign = 2 * (clean | agree).to(fit.dtype) - 1
        consistency = (sign * symmetric_divergence(first, second)).mean()
        return (1 - self.consistency_weight) * fit + self.consistency_weight * consistency

    def _smoothed(self, labels: Tensor, logits: Tensor) -> Tensor:
        """[batch, classes]: 1 - epsilon for the label, the rest in equal parts for the others."""
        classes = logits.shape[1]
        given = functional.one_hot(labels, classes).to(logits.dtype)
        other = self.smoothing / (classes - 1)
        return other + (1 - self.smoothing - other) * given

    # ---------------------------------------------------------------- afterwards

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report which samples were selected as clean, and discard the local teachers.

        Each local model gets the global model's teacher, still the initial one, so that no server's
        rule sees a difference between teachers; their bytes are not counted.
        """
        teacher = {k: v for k, v in federation.weights.items() if k.startswith(TEACHER)}
        size = fl.size_in_bytes(teacher)
        federation.exchange(down=-size * len(updates), up=-size * len(updates))
        for update in updates:
            client = update.client
            update.weights = {**update.weights, **teacher}
            clean = update.memory["clean"]
            federation.report_selection(client, clean)
            federation.report(client, estimated_noise_level=float((~clean).double().mean()))


@torch.no_grad()
def _move_teacher(model: fl.LocalModel, share: Tensor) -> None:
    """Move the teacher's weights towards the student's by ``share`` of the way."""
    student = [w for name, w in model.weights.items() if name.startswith(STUDENT)]
    teacher = [w for name, w in model.weights.items() if name.startswith(TEACHER)]
    way = torch._foreach_sub(student, teacher)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(teacher, way)


def js_divergence(one: Tensor, other: Tensor) -> Tensor:
    """Jensen-Shannon divergence to base 2, from 0 to 1, of distributions [n, classes]: [n]."""
    mixed = torch.special.entr((one + other) / 2)
    apart = mixed - (torch.special.entr(one) + torch.special.entr(other)) / 2
    return apart.sum(1) / math.log(2)


def symmetric_divergence(one: Tensor, other: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p) to base 2 of the softmax of logits [n, classes]: [n]."""
    log_one, log_other = one.log_softmax(1), other.log_softmax(1)
    apart = (log_one.exp() - log_other.exp()) * (log_one - log_other)
    return apart.sum(1) / math.log(2)
