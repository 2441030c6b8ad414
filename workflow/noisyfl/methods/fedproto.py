"""FedProto (Tan et al., AAAI 2022): clients agree on the mean features of each class.

FedCNI has a row FedProto that no network trained alone could reach; its text says that FedProto
"aggregates updates based on prototypes". So the weights are averaged as well by default. FedProto
as its paper has it, where prototypes are all that is exchanged, is the variant ``faithful``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("fedproto")
class FedProto(fl.ServerSide, fl.ClientSide):
    """Cross-entropy + weight * the mean square that a sample's features are off the global
    prototype of its class. A class of which none is known yet counts as no distance.

    Prototypes are read after the local update, in evaluation mode, on plain images and on the
    labels that the client trains on; the official code gathers them in training mode while the
    weights still move. A class that no participant of a round has keeps its last prototype.
    """

    reference = "Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, "
    reference += "AAAI 2022"

    partner = ""

    weight: float = fl.option(1.0, doc="lambda, of the distance to prototypes", at_least=0)
    sharing: Literal["weights", "nothing"] = fl.option(
        "weights",
        doc="what is exchanged beside prototypes: weights, averaged; or nothing, and each client "
        "keeps its own network (paper, code)",
    )
    prototype_mean: Literal["clients", "samples"] = fl.option(
        "clients",
        doc="global prototypes: the mean over the clients that have the class (code), or weighted "
        "by how many samples of it they have (paper)",
    )
    inference: Literal["head", "prototype"] = fl.option(
        "head",
        doc="what decides in a test: the linear classifier, or the nearest global prototype "
        "(paper)",
    )

    variants: ClassVar = {
        "faithful": {"sharing": "nothing", "inference": "prototype"},
    }

    cost = fl.Cost(models_kept=1)
    predicts_by_features = True

    # ---------------------------------------------------------------- the local update

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """The global prototypes [classes, width], and which of them are known [classes]; nothing
        before there are any.
        """
        names = ("prototypes", "known") if "prototypes" in federation.state else ()
        return {name: federation.state[name] for name in names}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class; before there are prototypes, cross-entropy alone."""
        if "prototypes" not in batch.memory:
            return super().loss(model, batch)
        outputs = model(batch.images)
        gap = (outputs.features - batch.memory["prototypes"][batch.target]).square().mean(1)
        apart = (gap * batch.memory["known"][batch.target]).mean()
        return fl.cross_entropy(outputs.logits, batch.target).mean() + self.weight * apart

    # ---------------------------------------------------------------- prototypes

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Average the participants' prototypes, and count the bytes of their exchange."""
        answers = federation.ask(updates, "prototypes", view="plain")
        if not answers:
            return
        found = [
            fl.mean_by_class(outputs.features, update.client.labels, outputs.logits.shape[1])
            for update, outputs in answers
        ]
        means = torch.stack([mean for mean, _ in found])
        counts = torch.stack([count for _, count in found])
        state = federation.state
        before = state.get("prototypes", torch.zeros_like(means[0]))
        known = state.get("known", torch.zeros_like(counts[0]))
        prototype = means[0, 0].numel() * means.element_size()
        federation.exchange(
            down=int(known.sum()) * prototype * len(updates),
            up=int((counts > 0).sum()) * prototype,
        )
        shares = (counts > 0).to(means.dtype) if self.prototype_mean == "clients" else counts
        total = shares.sum(0)
        mean = (shares[..., None] * means).sum(0) / total.clamp(min=1)[:, None]
        state["prototypes"] = torch.where(total[:, None] > 0, mean, before)
        state["known"] = torch.where(total > 0, 1.0, known)
        for update in updates:
            if self.sharing == "nothing":
                update.client.state["own_model"] = update.weights
        for client in federation.clients:
            client.state["prototypes"], client.state["known"] = state["prototypes"], state["known"]

    # ---------------------------------------------------------------- the server

    def start(self, client: fl.Client, federation: fl.Federation) -> fl.Weights:
        """The global model, or the client's own once it has one."""
        return client.state.get("own_model", federation.weights)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """FedAvg's mean, or, if weights are not exchanged, the initial model."""
        if self.sharing == "nothing":
            return federation.weights
        return super().aggregate(updates, federation)

    def exchange(self, updates: list[fl.Update], federation: fl.Federation) -> tuple[int, int]:
        """Bytes of models, if they are averaged; :meth:`after_updates` counts the prototypes."""
        return (0, 0) if self.sharing == "nothing" else super().exchange(updates, federation)

    def predictors(self, federation: fl.Federation) -> list[fl.Predictor]:
        """The global model, or every client's own."""
        if self.sharing == "nothing":
            return [
                fl.Predictor(self.start(client, federation), client)
                for client in federation.clients
            ]
        # Any client will do, since all know the same prototypes.
        anyone = federation.clients[0] if self.inference == "prototype" else None
        return [fl.Predictor(federation.weights, anyone)]

    def passes_of_test(self, changed: float) -> float:
        """One, or one for each new model if each client has its own."""
        return changed if self.sharing == "nothing" else 1.0

    def predict(self, outputs: list[fl.Outputs], client: fl.Client | None) -> Tensor:
        """The classifier's logits, or minus the mean squared differences to the prototypes.

        A class without a prototype ranks below every class that has one.
        """
        if self.inference == "head" or client is None or "prototypes" not in client.state:
            return outputs[0].logits
        features = outputs[0].features
        prototypes = client.state["prototypes"].to(features)
        near = -(features[:, None] - prototypes).square().mean(2)
        return torch.where(client.state["known"].to(features) > 0, near, near.amin() - 1)
