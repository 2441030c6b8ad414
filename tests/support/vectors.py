"""Models that are vectors, and updates of them, for tests of what servers aggregate."""

import math

import numpy as np
import torch

from noisyfl.methods import METHODS
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Update


class FakeFederation:
    """Clients of some sizes, and an executor that answers with the losses it was given."""

    def __init__(self, sizes, participants, weights=None, losses=None):
        self.clients = [
            Client(number, *(torch.zeros(size, dtype=torch.int64) for _ in range(3)))
            for number, size in enumerate(sizes)
        ]
        self.participants = participants
        self.weights = weights or {"0.w": torch.zeros(5)}
        self.losses = losses
        self.seed = 1
        self.state = {}
        self.reports = {}
        self.requests = []
        self.down = self.up = 0

    def passes(self, requests, round):
        self.requests += requests
        answers = []
        for request in requests:
            # Of two classes, so that cross-entropy of class 0 is the loss.
            loss = self.losses[request.client.id] + request.network
            logit = -math.log(math.expm1(loss))
            logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
            answers.append(Outputs(logits.expand(len(request.client), 2), torch.empty(0)))
        return answers

    def exchange(self, down=0, up=0):
        self.down += down
        self.up += up

    def report(self, client, **estimates):
        self.reports.setdefault(client.id, {}).update(estimates)


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
