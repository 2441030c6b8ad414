"""Coordinate-wise median (Yin et al., 2018): a few clients cannot move it far."""

from __future__ import annotations

import torch

import noisyfl.method as fl


@fl.METHODS.register("median")
class Median(fl.ServerSide):
    """The unweighted median of the local models in each coordinate (Definition 1).

    Between the local models of an even number of clients it is the mean of the two in the middle.
    Buffers are treated like parameters.
    """

    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "ICML 2018, Algorithm 1, Option I"
    )

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class; counters are taken from the first model."""
        models = [update.weights for update in fl.nonempty(updates)]
        medians = {
            name: fl.middle(torch.stack([model[name] for model in models], dim=-1))
            for name in fl.numbers(models[0])
        }
        return {**models[0], **medians}
