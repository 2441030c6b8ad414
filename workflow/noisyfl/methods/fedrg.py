"""FedRG (Wen et al., CVPR 2026): where a sample lies on a sphere tells whether its label is right.

A client keeps a mixture of von Mises-Fisher clusters of the directions of its features, and what
its classes look like in it (:mod:`noisyfl.methods.estimators.directions` has the equations).

- Pretraining, on 2n views u of n images, where i+ is the other view of i's image and P a projector:
  mean of -log(exp(P(u_i) . P(u_i+) / t) / sum over a != i of exp(P(u_i) . P(u_a) / t)), where P
  returns vectors of length 1.
- Score of a sample with label y: sum over clusters g of B_yg gamma_g. A mixture of two Gaussians on
  1 - score splits clean samples from noisy ones.
- Loss: w_s SCE(p, y) of all samples + w_n mean of -log (p A)_y of the noisy ones, where p are the
  classifier's probabilities and A [classes, classes] is the client's noise absorption matrix.
- The mixture moves once a step towards what all of the step's samples say, B towards what the clean
  ones do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, linear, normalize, relu

import noisyfl.method as fl
from noisyfl.methods.estimators.directions import (
    PARTS,
    Mixture,
    first_mixture,
    moved,
    responsibilities,
    scores,
    unit,
)
from noisyfl.methods.estimators.mixture import fit_two
from noisyfl.methods.sce import SymmetricCrossEntropy

PROJECTOR = "projector"
"""Key of the projector's weights in the federation's state, and beginning of their names."""

MIXTURE, ABSORPTION = "mixture", "absorption"
"""Keys in a client's state, of its mixture and of its noise absorption matrix; if that is shared,
it is in the federation's state."""

BODY, CLEAN = "body", "clean"
"""Keys in a client's state during a round: the names of all weights but the classifier's; and bool
[samples], which samples are selected as clean."""

VELOCITY = "velocity of "
"""Beginning of the name of a weight's momentum in the memory."""

SGD = "sgd"
"""Name, in the memory, of the schedule's learning rate, momentum and weight decay."""


@fl.METHODS.register("fedrg")
class FedRG(SymmetricCrossEntropy):
    """First the clients train all but the classifier, without labels, to tell images apart. A
    projector behind the features, which nothing else uses, is averaged beside the model.

    From then on they train all of the model, and find out which samples are noisy by where these
    lie among the client's clusters. Clusters and noise absorption matrix stay on the client.
    """

    reference = (
        "Wen et al., FedRG: Unleashing the Representation Geometry for Federated Learning with "
        "Noisy Clients, CVPR 2026"
    )
    cost = fl.Cost(effort=3.3)
    needs_sgd = True
    by_sample = (CLEAN,)

    pretraining_rounds: int = fl.option(
        150, doc="rounds of training without labels", at_least=0, share_of=("rounds", 500)
    )
    strong_view: Literal["strong3", "strong3_uncut", "strong"] = fl.option(
        "strong3",
        doc="the second view: TorchSSL's RandAugment and cutout (code), the same without cutout "
        "(code, on SVHN), or FixMatch's",
    )
    contrast_temperature: float = fl.option(0.07, doc="t, of the pretraining's softmax", above=0)
    projector_hidden: int | None = fl.option(
        None, doc="the projector's hidden width; null: eight times the features'", at_least=1
    )
    projector_output: int | None = fl.option(
        None, doc="width of what it returns; null: four times the features'", at_least=1
    )
    clusters: int | None = fl.option(
        None, doc="G, of a client's mixture; null: as many as classes", at_least=1
    )
    temperature: float = fl.option(
        2.0, doc="T, of the responsibilities: 2 (code), or 1, a mixture's posterior", above=0
    )
    cluster_momentum: float = fl.option(
        0.1, doc="how far a step moves the mixture", above=0, at_most=1
    )
    cluster_prior: float = fl.option(
        5.0, doc="samples that are added to the counts behind the clusters' shares", above=0
    )
    class_prior: float = fl.option(
        0.5, doc="eta: samples that are added to each class's count in each cluster", above=0
    )
    split: Literal["batch", "round"] = fl.option(
        "batch",
        doc="what is split into clean and noisy samples: each batch (code), or all of the client's "
        "samples, once a round, by the received model (text)",
    )
    clean_threshold: float = fl.option(
        0.5, doc="probability from which on a sample is clean", at_least=0, at_most=1
    )
    label_weight: float = fl.option(0.4, doc="w_s, of all samples' labels", at_least=0)
    absorption_weight: float = fl.option(
        1.0, doc="w_n, of the noisy samples' absorption", at_least=0
    )
    absorption: Literal["personal", "shared"] = fl.option(
        "personal", doc="whose matrix A is: each client's own, or averaged like the model"
    )

    variants: ClassVar = {
        "without_absorption": {"absorption_weight": 0.0},
        "shared_absorption": {"absorption": "shared"},
        "without_pretraining": {"pretraining_rounds": 0},
        "cross_entropy": {"alpha": 1.0, "beta": 0.0},
    }

    def stage_starts(self, federation: fl.Federation) -> dict[str, int]:
        """The training with labels."""
        return {"the training with labels (pretraining_rounds)": self.pretraining_rounds}

    # ---------------------------------------------------------------- a local update

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Name what the pretraining trains; then split the participants' samples, if that is done
        once a round.
        """
        if round < self.pretraining_rounds:
            for client in participants:
                client.state[BODY] = [
                    name
                    for name in federation.weights
                    if name.startswith("0.") and not name.startswith("0.classifier.")
                ]
        elif self.split == "round":
            requests = [
                fl.Pass(client, federation.weights, f"clusters {view}", view=view)
                for client in participants
                for view in ("weak", self.strong_view)
            ]
            answers = iter(federation.passes(requests, round))
            for client in participants:
                views = unit(next(answers).features), unit(next(answers).features)
                mixture = self.mixture(client, federation)
                gamma = responsibilities(mixture, *views, self.temperature)[0]
                client.state[CLEAN] = self.clean(mixture, gamma, client.labels)

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """What the round trains or moves beside the model; each update starts without momentum.

        In the pretraining the projector's weights; then the noise absorption matrix, the mixture,
        and which samples were clean when last seen.
        """
        schedule = self.local_schedule(federation.round, federation.schedule)
        rates = [schedule.learning_rate, schedule.momentum, schedule.weight_decay]
        like = federation.weights["0.classifier.weight"]
        if federation.round < self.pretraining_rounds:
            held = self.projector(federation)
            return {**held, **velocities(held), SGD: like.new_tensor(rates)}
        held = {ABSORPTION: self.matrix(client, federation)}
        clean = client.state.get(CLEAN, torch.ones_like(client.labels, dtype=torch.bool))
        return {
            **held,
            **velocities(held),
            **self.mixture(client, federation),
            CLEAN: clean,
            SGD: like.new_tensor([*rates[:2], 0.0]),
        }

    def projector(self, federation: fl.Federation) -> fl.Weights:
        """The projector's weights as they are; as torch draws those of such layers at first."""
        if PROJECTOR in federation.state:
            return federation.state[PROJECTOR]
        like = federation.weights["0.classifier.weight"]
        width = like.shape[1]
        hidden, output = self.projector_hidden or 8 * width, self.projector_output or 4 * width
        rng = fl.stream(federation.seed, PROJECTOR)
        drawn = {
            f"{PROJECTOR}.{layer}.{name}": rng.uniform(-1, 1, shape) / np.sqrt(fan_in)
            for layer, fan_out, fan_in in (("hidden", hidden, width), ("output", output, hidden))
            for name, shape in (("weight", (fan_out, fan_in)), ("bias", (fan_out,)))
        }
        weights = {name: torch.from_numpy(value).to(like) for name, value in drawn.items()}
        weights[f"{PROJECTOR}.norm.weight"] = like.new_ones(hidden)
        weights[f"{PROJECTOR}.norm.bias"] = like.new_zeros(hidden)
        return weights

    def matrix(self, client: fl.Client, federation: fl.Federation) -> Tensor:
        """The noise absorption matrix that a client starts from; at first the identity."""
        state = client.state if self.absorption == "personal" else federation.state
        like = federation.weights["0.classifier.weight"]
        if ABSORPTION in state:
            return state[ABSORPTION]
        return torch.eye(len(like), dtype=like.dtype, device=like.device)

    def mixture(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The mixture that a client starts from."""
        if MIXTURE in client.state:
            return client.state[MIXTURE]
        like = federation.weights["0.classifier.weight"]
        rng = fl.stream(federation.seed, MIXTURE, client.id)
        return first_mixture(self.clusters or len(like), like, rng)

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Every image in two views; the pretraining leaves the classifier as it is."""
        epoch = super().epoch(client, turn)
        learns = tuple(client.state[BODY]) if turn.round < self.pretraining_rounds else ""
        return dataclasses.replace(epoch, views=("weak", self.strong_view), learns=learns)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the module. It also trains the projector, or the noise absorption matrix and the
        mixture, in the memory.
        """
        if ABSORPTION not in batch.memory:
            return self._pretraining_loss(model, batch)
        outputs = model(batch.images)
        clean = self._looked_at(outputs.features, model.look(batch.views[1]).features, batch)
        return self._label_loss(outputs.logits, clean, batch)

    @torch.no_grad()
    def _looked_at(self, weak: Tensor, strong: Tensor, batch: fl.Batch) -> Tensor:
        """bool [n], which samples of a batch are clean, given features [n, width] of two views; the
        mixture is moved.
        """
        memory, labels, first = batch.memory, batch.target, unit(weak)
        gamma, background, median = responsibilities(memory, first, unit(strong), self.temperature)
        if self.split == "batch":
            memory[CLEAN][batch.positions] = self.clean(memory, gamma, labels)
        clean = memory[CLEAN][batch.positions]
        classes = torch.arange(len(memory["evidence"]), device=labels.device)
        new = moved(
            memory,
            first,
            gamma,
            background,
            ((labels[:, None] == classes) & clean[:, None]).to(gamma.dtype),
            momentum=self.cluster_momentum,
            cluster_prior=self.cluster_prior,
            class_prior=self.class_prior,
        )
        for name, value in {**new, "median": median}.items():
            memory[name].copy_(value)
        return clean

    def _pretraining_loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """The contrast of all views, in one pass, so that both share batch normalisation."""
        features = model(torch.cat(batch.views)).features
        names = [name for name in batch.memory if name.startswith(PROJECTOR)]
        trained = leaf_copies(batch.memory, names)
        loss = contrast(project(features, trained), self.contrast_temperature)
        descend(loss, trained, batch.memory)
        return loss

    def _label_loss(self, logits: Tensor, clean: Tensor, batch: fl.Batch) -> Tensor:
        """The loss of the labels, on which the noise absorption matrix descends, too; its rows are
        then made to sum to 1 again.
        """
        trained = leaf_copies(batch.memory, [ABSORPTION])
        seen = (logits.softmax(1) @ trained[ABSORPTION]).gather(1, batch.target[:, None])[:, 0]
        noisy = (~clean).to(seen.dtype)
        absorbed = -((seen + 1e-12).log() * noisy).sum() / (noisy.sum() + 1e-8)
        labels = self.losses(logits, batch.target).mean()
        loss = self.label_weight * labels + self.absorption_weight * absorbed
        descend(loss, trained, batch.memory)
        matrix = batch.memory[ABSORPTION].clamp_(min=1e-6)
        matrix.div_(matrix.sum(1, keepdim=True))
        return loss

    def clean(self, mixture: Mixture, gamma: Tensor, labels: Tensor) -> Tensor:
        """bool [n]: which samples are clean, by their responsibilities [n, clusters] and labels."""
        noisiness = 1 - scores(mixture, gamma, labels)[None]
        likely = fit_two(noisiness, check=False).posterior(noisiness)[0, :, 0]
        return likely >= self.clean_threshold

    # ---------------------------------------------------------------- afterwards

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Average the projectors, or a shared noise absorption matrix, as FedAvg does the models;
        keep what is a client's own, and report which samples it selected as clean.
        """
        for update in updates:
            for name in (BODY, CLEAN):
                update.client.state.pop(name, None)
        counted = fl.nonempty(updates)
        sizes = [update.size for update in counted]
        if round < self.pretraining_rounds:
            sent = self.projector(federation)
            size = fl.size_in_bytes(sent) * len(updates)
            federation.exchange(down=size, up=size)
            if counted:
                models = [{name: one.memory[name] for name in sent} for one in counted]
                federation.state[PROJECTOR] = fl.average(models, sizes)
            return
        federation.state.pop(PROJECTOR, None)
        for update in counted:
            client, memory = update.client, update.memory
            client.state[MIXTURE] = {name: memory[name] for name in PARTS}
            federation.report_selection(client, memory[CLEAN])
            noisy = float((~memory[CLEAN]).double().mean())
            federation.report(client, estimated_noise_level=noisy)
            if self.absorption == "personal":
                client.state[ABSORPTION] = memory[ABSORPTION]
        if self.absorption == "shared" and counted:
            matrices = [{ABSORPTION: one.memory[ABSORPTION]} for one in counted]
            size = fl.size_in_bytes(matrices[0]) * len(updates)
            federation.exchange(down=size, up=size)
            federation.state[ABSORPTION] = fl.average(matrices, sizes)[ABSORPTION]


# -------------------------------------------------------------------- weights in the memory


def velocities(weights: fl.Weights) -> fl.Weights:
    """The momentum, zeros, of weights that a loss trains, under the names that it has for them."""
    return {VELOCITY + name: torch.zeros_like(weight) for name, weight in weights.items()}


def leaf_copies(memory: fl.Memory, names: Iterable[str]) -> fl.Weights:
    """Copies of weights in the memory, for a gradient; the memory itself is changed later on."""
    return {name: memory[name].clone().requires_grad_() for name in names}


def descend(loss: Tensor, trained: fl.Weights, memory: fl.Memory) -> None:
    """Make a step of SGD, as the run's own optimizer would, on weights in the memory.

    Args:
        loss: of which the model's weights need the gradient, too.
        trained: what :func:`leaf_copies` gave, which the loss was computed with.
        memory: has the weights, their momentum, and ``sgd`` [3]: learning rate, momentum, decay.
    """
    gradients = torch.autograd.grad(loss, list(trained.values()), retain_graph=True)
    rate, momentum, decay = memory[SGD].unbind()
    with torch.no_grad():
        for (name, weight), gradient in zip(trained.items(), gradients, strict=True):
            velocity = memory[VELOCITY + name]
            velocity.mul_(momentum).add_(gradient + decay * weight)
            memory[name].sub_(rate * velocity)


# -------------------------------------------------------------------- the pretraining


def project(features: Tensor, weights: fl.Weights) -> Tensor:
    """[n, output], what the projector makes of features [n, width]: two layers, between them batch
    normalisation by the batch and ReLU.
    """
    part = {name.removeprefix(f"{PROJECTOR}."): weight for name, weight in weights.items()}
    hidden = linear(features, part["hidden.weight"], part["hidden.bias"])
    scaled = batch_norm(hidden, None, None, part["norm.weight"], part["norm.bias"], training=True)
    return linear(relu(scaled), part["output.weight"], part["output.bias"])


def contrast(projected: Tensor, temperature: float) -> Tensor:
    """The pretraining's loss, a scalar, of projections [2n, output], of which the first n are of
    the first view and the others of the second.
    """
    sphere = normalize(projected, dim=1)
    similar = sphere @ sphere.T / temperature
    places = torch.arange(len(sphere), device=sphere.device)
    similar = similar.masked_fill(places[:, None] == places, -torch.inf)
    return fl.cross_entropy(similar, places.roll(len(sphere) // 2)).mean()
