"""FedProx (Li et al., 2020): a proximal term holds each local model near the received one."""

from typing import Literal

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("fedprox")
class FedProx(fl.ClientSide):
    """Cross-entropy + (mu / 2) ||w - w_received||^2 (FedProx, Eq. 2).

    FedCorr's authors run their FedProx baseline, as far as their code says, through its own
    proximal term, the plain norm mu ||w - w_received||: ``prox_form="norm"``.
    """

    reference = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"

    mu: float = fl.option(0.01, doc="weight of the proximal term", at_least=0)
    prox_form: Literal["squared", "norm"] = fl.option(
        "squared", doc="half the squared distance, or the distance"
    )

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Set the weight of the proximal term for each step; in the form ``norm`` it is 0 in an
        epoch's first step.
        """
        epoch = super().epoch(client, turn)
        weights = fl.proximal_weights(self.mu, len(epoch.steps), self.prox_form)
        return fl.Epoch(epoch.steps, epoch.targets, {"proximal": weights})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class."""
        if self.prox_form == "norm":
            penalty = fl.distance(model.weights, model.received)
        else:
            penalty = fl.squared_distance(model.weights, model.received) / 2
        return super().loss(model, batch) + batch["proximal"] * penalty
