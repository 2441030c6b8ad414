"""Distributed training: every client trains a model of its own, and nothing is exchanged."""

from __future__ import annotations

import noisyfl.method as fl


@fl.METHODS.register("distributed")
class Distributed(fl.ServerSide):
    """All clients start from one model, and each goes on from its own for ever.

    A round's participants are drawn as ever, so that each client trains as much as it would in a
    federation. The method's accuracy is the mean over all clients' models.
    """

    reference = "FedCNI (arXiv 2304.02892), Table 1, rows Distributed ..."

    cost = fl.Cost(models_kept=1)

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
