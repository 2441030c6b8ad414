"""Models that are vectors, and updates of them, for tests of what servers aggregate."""

import math

import numpy as np
import torch

from fakes import FakeFederation
from noisyfl.methods import METHODS
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Update


class VectorFederation(FakeFederation):
    """Clients of some sizes, and passes that give the losses of each client."""

    def __init__(self, sizes, participants, weights=None, losses=None):
        super().__init__([[0] * size for size in sizes], weights or {"0.w": torch.zeros(5)})
        self.participants = participants
        self.losses = losses

    def answer(self, request):
        # Of two classes, so that cross-entropy of class 0 is the loss.
        logit = -math.log(math.expm1(self.losses[request.client.id] + request.network))
        logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
        return Outputs(logits.expand(len(request.client), 2), torch.empty(0))


def method(name, **options):
    return METHODS.build({"name": name, **options}, "test")


def model_of(vector, **changes):
    """A model of two networks, one of them normalised."""
    vector = torch.as_tensor(vector)
    return {
        "0.body.weight": vector[:2].reshape(1, 2),
        "0.norm.running_mean": vector[:1] * 10,
        "0.norm.num_batches_tracked": torch.tensor(3),
        "1.body.weight": vector[2:],
        **changes,
    }


def updates_of(models, sizes=None):
    sizes = sizes or [1] * len(models)
    clients = [Client(n, *(torch.zeros(1, dtype=torch.int64) for _ in range(3))) for n in range(99)]
    return [
        Update(client, weights, {}, size, 1, 0.0, 1, 1)
        for client, weights, size in zip(clients, models, sizes, strict=False)
    ]


def random_models(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5))
