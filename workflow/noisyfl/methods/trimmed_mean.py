"""Trimmed mean (Yin et al., 2018): in each coordinate the extremes are left out."""

from __future__ import annotations

import torch

import noisyfl.method as fl


@fl.METHODS.register("trimmed_mean")
class TrimmedMean(fl.ServerSide):
    """The mean of the local models in each coordinate without the largest and the smallest share
    beta, without regard to the models' sizes (Definition 2). Buffers are treated like parameters.
    """

    reference = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, "
        "ICML 2018, Algorithm 1, Option II"
    )

    least_participants = 3

    beta: float = fl.option(
        0.2,
        doc="share of the models left out at each end: rounded down, at least one of three models",
        at_least=0,
        below=0.5,
    )

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class; counters are taken from the first model."""
        models = [update.weights for update in fl.nonempty(updates)]
        count = len(models)
        out = min(max(1, fl.round_down(self.beta * count)), (count - 1) // 2)
        if not self.beta:
            out = 0
        means = {
            name: torch.stack([model[name] for model in models])
            .sort(0)
            .values[out : count - out]
            .mean(0)
            for name in fl.numbers(models[0])
        }
        return {**models[0], **means}
