"""MOON (Li, He and Song, CVPR 2021): features stay near the received model's, and away from those
of the client's last model.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

import noisyfl.method as fl

MODEL = "last_model"
"""Key of a client's state: the model that the client sent when it last took part."""

MEMORY = "last "
"""The memory's entries with the weights of that model have this before their names."""


@fl.METHODS.register("moon")
class Moon(fl.ClientSide):
    """Cross-entropy + mu times the model-contrastive loss, the mean over a batch of

    -log(exp(cos(z, z_glob) / tau) / (exp(cos(z, z_glob) / tau) + exp(cos(z, z_prev) / tau))),

    where z are an image's features under the model in training, z_glob under the received one, and
    z_prev under the local model that the client sent when it last took part. A client that takes
    part for the first time has no such model, and minimises cross-entropy alone.
    """

    reference = "Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021"
    cost = fl.Cost(effort=1.6, models_kept=1)

    mu: float = fl.option(1.0, doc="weight of the contrastive loss; 5 on CIFAR-10", at_least=0)
    temperature: float = fl.option(0.5, doc="tau", above=0)

    variants: ClassVar = {"cifar10": {"mu": 5.0}}

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The weights of the client's last model, if there is one."""
        last = client.state.get(MODEL, {})
        return {f"{MEMORY}{name}": value for name, value in last.items()}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class."""
        outputs = model(batch.images)
        supervised = fl.cross_entropy(outputs.logits, batch.target).mean()
        last = {
            name.removeprefix(MEMORY): value
            for name, value in batch.memory.items()
            if name.startswith(MEMORY)
        }
        if not last:
            return supervised
        near = model.received(batch.images).features
        far = model.look_as(last, batch.images).features
        return supervised + self.mu * self.contrast(outputs.features, near, far)

    def contrast(self, features: Tensor, near: Tensor, far: Tensor) -> Tensor:
        """The contrastive loss, a scalar, from features [n, width] of the same images: of the model
        in training, of the received one, and of the client's last one.
        """
        similarity = torch.stack([cosine_similarity(features, other) for other in (near, far)], 1)
        first = torch.zeros(len(features), dtype=torch.int64, device=features.device)
        return fl.cross_entropy(similarity / self.temperature, first).mean()

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Keep the participants' local models."""
        for update in updates:
            if update.steps:
                update.client.state[MODEL] = update.weights
