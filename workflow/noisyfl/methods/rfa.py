"""RFA (Pillutla et al., 2022): the geometric median of the local models."""

from __future__ import annotations

import torch

import noisyfl.method as fl


@fl.METHODS.register("rfa")
class RFA(fl.ServerSide):
    """The point with the smallest sum of distances to the local models, each weighted by its size,
    by the smoothed Weiszfeld algorithm from their mean on (Algorithm 2). All numbers of a model are
    one vector, buffers too.
    """

    reference = (
        "Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, IEEE "
        "Transactions on Signal Processing 2022"
    )

    iterations: int = fl.option(3, doc="R: steps of the Weiszfeld algorithm", at_least=1)
    smoothing: float = fl.option(1e-6, doc="nu: the least distance that is divided by", above=0)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class; counters are taken from the first model."""
        sent = fl.nonempty(updates)
        names = fl.numbers(sent[0].weights)
        models = torch.stack([fl.flat(update.weights, names) for update in sent])
        sizes = models.new_tensor([update.size for update in sent])
        median, shares = fl.geometric_median(models, sizes, self.iterations, self.smoothing)
        for update, share in zip(sent, shares.tolist(), strict=True):
            federation.report(update.client, aggregation_weight=share)
        return fl.replaced(sent[0].weights, median, names)
