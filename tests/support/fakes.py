"""A model and a federation with given outputs; the rest of the federation is the real one."""

from types import SimpleNamespace

import numpy as np
import torch

from noisyfl.data.noisy_partition import ClientSamples, NoisyPartition
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule

SCHEDULE = {
    "rounds": 1000,
    "participation": 1.0,
    "local_epochs": 1,
    "batch_size": 2,
    "learning_rate": 0.1,
}


def alike(clients, samples=4, classes=3):
    """Labels of clients that have the same ones: 0, 1, ..., over and over."""
    return [np.arange(samples) % classes] * clients


class FakeModel:
    """A model with given logits for the images of a batch, which it remembers."""

    def __init__(self, logits, weights=None, received=None):
        self.logits = logits
        self.weights = weights or {}
        self.received = received or {name: torch.zeros_like(w) for name, w in self.weights.items()}

    def __call__(self, images):
        assert len(images) == len(self.logits)
        self.images = images
        return Outputs(self.logits, torch.empty(0))


class Answering(SimpleNamespace):
    """A federation of which a test gives all that a hook uses, such as ``passes``."""

    round = 0
    ask = Federation.ask

    def report_labels(self, client, labels):
        """Only an audit keeps these."""


class FakeFederation(Federation):
    """Clients of given labels, and an executor whose outputs :meth:`answer` decides."""

    def __init__(self, labels, weights=None, true=None, **schedule):
        pairs = zip(labels, labels if true is None else true, strict=True)
        clients = tuple(
            ClientSamples(
                np.arange(len(given)), *(np.array(one, np.int64) for one in (right, given))
            )
            for given, right in pairs
        )
        levels = np.zeros(len(clients))
        super().__init__(
            NoisyPartition({}, clients, levels, levels),
            Schedule(**{**SCHEDULE, **schedule}),
            seed=1,
            executor=SimpleNamespace(
                device=torch.device("cpu"), passes=self._answers, test=SimpleNamespace(shape=None)
            ),
            weights=weights or {"global": torch.zeros(1)},
        )
        self.requests, self.selections = [], []

    def answer(self, request):
        """The outputs of a pass; a test whose method asks for passes has its own."""
        raise NotImplementedError

    def _answers(self, requests, round):
        self.requests += requests
        return [self.answer(request) for request in requests]

    @property
    def classes(self):
        """By the classifier, where the fake weights have one."""
        return super().classes if "0.classifier.weight" in self.weights else 10

    @property
    def reports(self):
        """What was reported of each client."""
        return self.records.estimates

    @property
    def bytes(self):
        """Those exchanged in addition to the server side's: down, up."""
        return self.records.down, self.records.up

    def report_selection(self, client, positions):
        self.selections.append((client.id, positions))
        super().report_selection(client, positions)
