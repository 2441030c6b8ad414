"""FedCorr (Xu et al., CVPR 2022): find noisy clients and labels by LID and loss, correct, train on.

Equation, section and algorithm numbers are the paper's. Where the official code does otherwise the
choice is an option, or stands in workflow/reasons; unless said there, the defaults are the code's,
which made the published numbers, and the variant ``paper`` is the text's.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.estimators.lid import lid
from noisyfl.methods.estimators.mixture import fit_two
from noisyfl.methods.fedcorr_continued import Continued, MixedUp


@fl.METHODS.register("fedcorr")
class FedCorr(fl.ServerSide, fl.ClientSide):
    """Three stages (Algorithm 1).

    *Pre-processing* visits every client once an iteration, one client a round, so that the global
    model is handed from client to client; then a mixture on the cumulative LID scores splits the
    clients, mixtures on the losses of the noisy ones estimate their noise levels, and the least
    credible labels are replaced. *Finetuning* is FedAvg among the clients found clean, and ends
    with a second correction. *Usual training* is FedAvg among all.
    """

    revision = 2
    reference = (
        "Xu et al., FedCorr: Multi-Stage Federated Learning for Label Noise Correction, CVPR 2022"
    )

    preprocessing_iterations: int = fl.option(
        5, doc="T1: visits of every client", at_least=1, share_of=("visits", 100)
    )
    finetuning_rounds: int = fl.option(500, doc="T2", at_least=0, share_of=("rounds", 1000))
    usual_rounds: int | None = fl.option(
        None, doc="T3; null: what T1 and T2 leave of the schedule's rounds", at_least=0
    )
    relabel_ratio: float = fl.option(
        0.5,
        doc="pi: largest share of the samples flagged as noisy that an iteration relabels",
        at_least=0,
        at_most=1,
    )
    confidence: float = fl.option(
        0.5, doc="theta: softmax above which a prediction replaces a label", at_least=0, at_most=1
    )
    beta: float = fl.option(5.0, doc="weight of the adaptive proximal term (Eq. 5)", at_least=0)
    clean_threshold: float = fl.option(
        0.1,
        doc="kappa: noise level up to which a client takes part in finetuning",
        at_least=0,
        at_most=1,
    )
    lid_neighbours: int = fl.option(20, doc="k of the LID score (Eq. 2)", at_least=1)
    mixup_alpha: float = fl.option(1.0, doc="of mixup's Beta distribution", above=0)

    prox_form: Literal["norm", "squared"] = fl.option(
        "norm",
        doc="norm: plain distance, left out in the first step of an epoch (code); "
        "squared: Eq. 5 in every step",
    )
    loss_form: Literal["double_softmax", "cross_entropy"] = fl.option(
        "double_softmax",
        doc="losses that noise levels are read from: cross-entropy of the softmax taken for logits "
        "(code), or cross-entropy (paper)",
    )
    ranking: Literal["local", "global"] = fl.option(
        "local",
        doc="losses that order samples for relabelling: the local model's (code), or the global "
        "model's (Eq. 6)",
    )
    mixup_stages: Literal["all", "first_two", "preprocessing"] = fl.option(
        "all",
        doc="mixup in every stage (code), also where another method has the third; in the first "
        "two; or in pre-processing alone (paper)",
    )
    finetuning_relabels: Literal["noisy_clients", "above_threshold"] = fl.option(
        "noisy_clients",
        doc="whose labels finetuning corrects: clients that the last mixture flagged (code), or "
        "those above clean_threshold (Algorithm 1)",
    )

    correction: bool = fl.option(True, doc="replace labels at all (Table 6)")
    fraction_scheduling: bool = fl.option(
        True, doc="one client a round in pre-processing, else as many as ordinarily (Table 6)"
    )
    preprocessing_sampling: Literal["without_replacement", "with_replacement"] = fl.option(
        "without_replacement",
        doc="how a round of several clients is drawn in pre-processing: without replacement "
        "(paper), or with, from those not yet visited (code), so that some are visited twice in a "
        "round, by two updates, and some never, which look clean",
    )
    local_proximal: bool = fl.option(True, doc="the adaptive proximal term (Table 6)")
    finetuning: bool = fl.option(True, doc="the second stage and its correction (Table 6)")
    usual_training: bool = fl.option(True, doc="the third stage (Table 6)")
    mixup: bool = fl.option(True, doc="mixup (Table 6)")

    variants: ClassVar = {
        "paper": {
            "prox_form": "squared",
            "loss_form": "cross_entropy",
            "ranking": "global",
            "mixup_stages": "preprocessing",
            "finetuning_relabels": "above_threshold",
        },
        "without_correction": {"correction": False},
        "without_fraction_scheduling": {
            "fraction_scheduling": False,
            "preprocessing_sampling": "with_replacement",
        },
        "without_local_proximal": {"local_proximal": False},
        "without_finetuning": {"finetuning": False},
        "without_usual_training": {"usual_training": False},
        "without_mixup": {"mixup": False},
    }

    partner = "server"
    cannot_wrap: ClassVar = {
        "own_batches": "decides its own batches, by what it learns from its first round on, in "
        "which fedcorr trains",
        "pools_samples": "pools all samples before the first round, and fedcorr compares clients",
    }

    def with_partner(self, partner: fl.Side) -> tuple[fl.ServerSide, fl.ClientSide]:
        """The sides of a run whose third stage is another method's, in place of FedAvg's (Fig. 4).
        If that method has no client side, local updates stay FedCorr's own.
        """
        assert isinstance(partner, fl.ServerSide)
        client: fl.ClientSide = self
        if isinstance(partner, fl.ClientSide):
            mixup = self.mixup and self.mixup_stages == "all"
            client = MixedUp(side=partner, alpha=self.mixup_alpha) if mixup else partner
        return Continued(first=self, second=partner), client

    # ---------------------------------------------------------------- the stages

    def _iteration_rounds(self, federation: fl.Federation) -> int:
        """Rounds in which pre-processing visits every client once."""
        return math.ceil(len(federation.clients) / self._group(federation))

    def _group(self, federation: fl.Federation) -> int:
        """Clients of a pre-processing round."""
        return 1 if self.fraction_scheduling else federation.participants

    def ends(self, federation: fl.Federation) -> tuple[int, int, int]:
        """The rounds at which the stages end."""
        first = self.preprocessing_iterations * self._iteration_rounds(federation)
        second = first + (self.finetuning_rounds if self.finetuning else 0)
        if not self.usual_training:
            return first, second, second
        usual = self.usual_rounds
        if usual is None:
            visits = self.preprocessing_iterations * len(federation.clients)
            spent = math.ceil(visits / federation.participants) + self.finetuning_rounds
            usual = max(0, federation.schedule.rounds - spent)
        return first, second, second + usual

    def rounds(self, federation: fl.Federation) -> int:
        """All three stages; a stage left out shortens the run (its rounds go to no other stage)."""
        return self.ends(federation)[2]

    def stage(self, round: int, federation: fl.Federation) -> str:
        """``preprocessing``, ``finetuning`` or ``usual training``."""
        first, second, _ = self.ends(federation)
        if round < first:
            return "preprocessing"
        return "finetuning" if round < second else "usual training"

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The stages after pre-processing that are not left out."""
        first, second, _ = self.ends(federation)
        wanted = {"finetuning": self.finetuning, "usual training": self.usual_training}
        begins = {"finetuning": first, "usual training": second}
        return {stage: begins[stage] for stage, there in wanted.items() if there}

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """See :meth:`ServerSide.counted_updates`."""
        if self.stage(round, federation) != "preprocessing":
            return federation.participants
        if self.preprocessing_sampling == "with_replacement":
            return self._group(federation)
        return len(fl.sweep(round, len(federation.clients), self._group(federation))[1])

    # ---------------------------------------------------------------- the server's choices

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """By stage: the next clients in the iteration's order, clean clients, or any clients."""
        stage = self.stage(round, federation)
        if stage == "preprocessing":
            return self._next_visited(round, federation)
        if stage == "finetuning":
            return fl.uniform(round, federation, self._finetuned(federation))
        return super().select(round, federation)

    def _next_visited(self, round: int, federation: fl.Federation) -> np.ndarray:
        count, group = len(federation.clients), self._group(federation)
        iteration, places = fl.sweep(round, count, group)
        rng = fl.stream(federation.seed, "preprocessing order", iteration)
        unvisited = rng.permutation(count)
        if self.preprocessing_sampling == "without_replacement":
            return unvisited[places]
        for _ in range(places.start // group):
            unvisited = np.setdiff1d(unvisited, rng.choice(unvisited, size=group))
        return rng.choice(unvisited, size=group)

    def _finetuned(self, federation: fl.Federation) -> np.ndarray:
        """Clients found clean enough for finetuning; if none is, those that are cleanest."""
        level = np.array([float(client.state["noise_level"]) for client in federation.clients])
        clean = np.flatnonzero(level <= self.clean_threshold)
        return clean if len(clean) else np.argsort(level, kind="stable")[: federation.participants]

    # ---------------------------------------------------------------- the local update

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Mixup's indices and shares, and the weight of the proximal term, for each step."""
        epoch = super().epoch(client, turn)
        steps = epoch.steps
        extras: dict[str, list] = {}
        preprocessing = turn.stage == "preprocessing"
        if self._mixes(turn.stage):
            extras |= fl.mixup_draws(steps, turn, self.mixup_alpha)
        # No level is known before the first iteration has ended; the term is then 0.
        if preprocessing and self.local_proximal and "noise_level" in client.state:
            weight = self.beta * float(client.state["noise_level"])
            extras["proximal"] = fl.proximal_weights(weight, len(steps), self.prox_form)
        return fl.Epoch(steps, epoch.targets, extras)

    def _mixes(self, stage: str) -> bool:
        """Whether a stage has mixup; stages of a method that follows FedCorr count as the third."""
        mixing = {
            "all": True,
            "first_two": stage in ("preprocessing", "finetuning"),
            "preprocessing": stage == "preprocessing",
        }
        return self.mixup and mixing[self.mixup_stages]

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Cross-entropy, with mixup where it is on, plus the proximal term (Eq. 5)."""
        if "share" in batch:
            loss = fl.mixed_losses(model(fl.mixed_images(batch)).logits, batch).mean()
        else:
            loss = super().loss(model, batch)
        if "proximal" not in batch:
            return loss
        form = fl.distance if self.prox_form == "norm" else fl.squared_distance
        return loss + batch["proximal"] * form(model.weights, model.received)

    # ---------------------------------------------------------------- estimates and corrections

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """Score the visited clients; at the end of an iteration or of finetuning, correct."""
        first, second, _ = self.ends(federation)
        if round < first:
            self._score(round, updates, federation)
            if (round + 1) % self._iteration_rounds(federation) == 0:
                self._end_iteration(round, federation)
        elif round == second - 1 and self.correction:
            self._correct_after_finetuning(round, federation)

    def _score(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """The LID score of each local model's predictions, and its losses (Section 3.2)."""
        for update, outputs in federation.ask(updates, "lid"):
            client, state = update.client, update.client.state
            state["lid"] = lid(outputs.logits.softmax(1), self.lid_neighbours).mean()
            state["losses"] = self._losses(outputs.logits, client)

    def _losses(self, logits: Tensor, client: fl.Client) -> Tensor:
        """float64 [samples], the losses that noise levels are estimated from."""
        if self.loss_form == "double_softmax":
            logits = logits.softmax(1)
        return fl.cross_entropy(logits, client.labels).double()

    def _end_iteration(self, round: int, federation: fl.Federation) -> None:
        """Estimate noise levels and correct labels (Algorithm 1, lines 9 to 13)."""
        self._split(federation.clients)
        wrong = self._estimate(federation)
        if self.correction:
            self._relabel(round, wrong, federation)
        self._report_iteration(federation)

    def _split(self, clients: list[fl.Client]) -> None:
        """Call the clients in the upper component of the cumulative LID scores noisy, but none that
        has too few samples for a score.
        """
        for client in clients:
            state = client.state
            # A client that no round of the iteration drew adds 0 to its score, as in the code.
            state["lid"] = torch.as_tensor(state.get("lid", 0.0), dtype=torch.float64)
            state["cumulative_lid"] = state.get("cumulative_lid", 0.0) + state["lid"]
            state.setdefault("losses", torch.zeros(len(client), device=client.labels.device))
        scores = torch.stack([client.state["cumulative_lid"].cpu() for client in clients])
        for client, clean in zip(clients, low_component(scores), strict=True):
            client.state["noisy"] = ~clean & client.state["cumulative_lid"].isfinite().cpu()

    def _estimate(self, federation: fl.Federation) -> list[Tensor]:
        """A noisy client's level is the share of its samples in the upper component of the losses;
        that of the others is 0.

        Returns:
            For each client bool [samples], those in the upper component.
        """
        wrong = []
        for client in federation.clients:
            found = torch.zeros_like(client.labels, dtype=torch.bool)
            if client.state["noisy"]:
                found = ~low_component(client.state["losses"])
            client.state["noise_level"] = found.double().mean()
            federation.report_selection(client, ~found)
            wrong.append(found)
        return wrong

    def _report_iteration(self, federation: fl.Federation) -> None:
        """Write down what the iteration found, and forget what only it needed."""
        for client in federation.clients:
            state = client.state
            federation.report(
                client,
                lid=float(state.pop("lid")),
                cumulative_lid=float(state["cumulative_lid"]),
                called_noisy=float(state["noisy"]),
                estimated_noise_level=float(state["noise_level"]),
                label_accuracy=client.accuracy_of(client.labels),
            )
            del state["losses"]

    def _relabel(self, round: int, wrong: list[Tensor], federation: fl.Federation) -> None:
        """Give the noisy clients' least credible samples the global model's label (Eqs. 6, 7).

        ``wrong`` are, for each client, bool [samples], those that its mixture flags as noisy.
        """
        noisy = [client for client in federation.clients if client.state["noisy"]]
        for client, outputs in federation.ask(noisy, "relabelling"):
            losses = client.state["losses"]
            if self.ranking == "global":
                losses = self._losses(outputs.logits, client)
                losses = losses.masked_fill(~wrong[client.id], -math.inf)
            count = math.floor(self.relabel_ratio * int(wrong[client.id].sum()))
            candidates = torch.zeros_like(wrong[client.id])
            candidates[losses.argsort(descending=True, stable=True)[:count]] = True
            self._adopt(client, outputs.logits, candidates, federation)

    def _correct_after_finetuning(self, round: int, federation: fl.Federation) -> None:
        """Give the samples of the remaining noisy clients the global model's labels, wherever it is
        sure of them (Section 3.3).
        """
        key, above = ("noisy", 0.5)
        if self.finetuning_relabels == "above_threshold":
            key, above = ("noise_level", self.clean_threshold)
        noisy = [client for client in federation.clients if client.state[key] > above]
        for client, outputs in federation.ask(noisy, "relabelling"):
            everything = torch.ones_like(client.labels, dtype=torch.bool)
            self._adopt(client, outputs.logits, everything, federation)

    def _adopt(
        self, client: fl.Client, logits: Tensor, candidates: Tensor, federation: fl.Federation
    ) -> None:
        """Relabel those candidates of which the model is sure (Eq. 7), and report the share of the
        new labels that are true.
        """
        confidence, label = logits.softmax(1).max(1)
        sure = candidates & (confidence > self.confidence)
        client.labels = torch.where(sure, label, client.labels)
        federation.report(client, pseudo_label_accuracy=client.accuracy_of(label, sure))


def low_component(values: Tensor) -> Tensor:
    """bool [n]: which values belong to the lower component of a two-component mixture of them; one
    that is not finite does not.
    """
    finite = values.isfinite()
    there = values.where(finite, 0.0)[None]
    return fit_two(there, finite[None]).low(there)[0] & finite
