"""Distributed training: every client trains a model of its own, and nothing is exchanged."""

from __future__ import annotations

import numpy as np

import noisyfl.method as fl


@fl.METHODS.register("distributed")
class Distributed(fl.ServerSide):
    """All clients start from one model, and each goes on from its own for ever.

    All of them train in every round, so that a client side that counts rounds counts each client's
    own; there are as many as a client takes part in on average in the federation. The schedule's
    ``rounds`` are set to that number. The method's accuracy is the mean over all clients' models.
    """

    revision = 2
    reference = "FedCNI (arXiv 2304.02892), Table 1, rows Distributed ..."

    cost = fl.Cost(models_kept=1)

    def own_schedule(self, schedule: fl.Schedule, clients: int) -> fl.Schedule:
        """The schedule with all clients in every round."""
        return schedule.model_copy(
            update={"rounds": schedule.rounds_of_all(clients), "participation": 1.0}
        )

    def begin(self, federation: fl.Federation) -> None:
        """Have all clients take part in each of the method's rounds."""
        federation.schedule = self.own_schedule(federation.schedule, len(federation.clients))

    def counted_updates(self, round: int, federation: fl.Federation) -> int:
        """As many local updates as there are clients."""
        return len(federation.clients)

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """All clients."""
        return np.arange(len(federation.clients))

    def start(self, client: fl.Client, federation: fl.Federation) -> fl.Weights:
        """The client's own model; the first one, if it never trained."""
        return client.state.get("own_model", federation.weights)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The global model, unchanged: the one that all clients started from."""
        return federation.weights

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """No bytes, as nothing is exchanged."""
        return 0, 0

    def predictors(self, federation: fl.Federation) -> list[fl.Predictor]:
        """Every client's own model."""
        return [
            fl.Predictor(self.start(client, federation), client) for client in federation.clients
        ]

    def passes_of_test(self, changed: float) -> float:
        """One for each client whose model is a new one."""
        return changed

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """Keep the model that each participant's local update ended with."""
        for update in updates:
            update.client.state["own_model"] = update.weights
