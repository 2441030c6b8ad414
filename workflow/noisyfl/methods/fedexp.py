"""FedExP (Jhunjhunwala et al., ICLR 2023): the server steps further where clients disagree."""

from __future__ import annotations

from typing import ClassVar, Literal

import noisyfl.method as fl


@fl.METHODS.register("fedexp")
class FedExP(fl.ServerSide):
    """w + eta_g times the mean change of the M local models (Algorithm 1), with

    eta_g = max(1, sum_i ||Delta_i||^2 / (2 M (||mean Delta||^2 + epsilon))),

    where Delta_i is what a local update changes. With eta_g = 1 it is FedAvg. Changes and norms are
    over all trainable weights. Buffers, such as the statistics of batch normalisation, are averaged
    and never extrapolated.
    """

    reference = (
        "Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023"
    )

    epsilon: float = fl.option(
        0.001, doc="added to the squared norm of the mean change; code: 0.1 on EMNIST", at_least=0
    )
    epsilon_decay: float = fl.option(
        1.0, doc="factor of epsilon in each round (code: 0.998^2)", above=0, at_most=1
    )
    epsilon_per_participant: bool = fl.option(
        False, doc="multiply epsilon by the number of participants (code)"
    )
    weighting: Literal["size", "plain"] = fl.option(
        "size", doc="what means are weighted by: sizes (code), or nothing (the equation above)"
    )
    tested_model: Literal["average", "last"] = fl.option(
        "average",
        doc="average: the mean of the last two global models (paper, code); last: the one that is "
        "sent",
    )

    variants: ClassVar = {
        "official": {"epsilon_decay": 0.996004, "epsilon_per_participant": True},
        "last_model": {"tested_model": "last"},
    }

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class."""
        counted = fl.nonempty(updates)
        sizes = [float(u.size) if self.weighting == "size" else 1.0 for u in counted]
        mean = fl.average([update.weights for update in counted], sizes)
        sent, middle = fl.flat(federation.weights), fl.flat(mean)
        squares = [float((fl.flat(u.weights) - sent).double().square().sum()) for u in counted]
        spread = sum(s * size for s, size in zip(squares, sizes, strict=True)) / sum(sizes)
        moved = float((middle - sent).double().square().sum())
        step = self.step_size(spread, moved, len(counted), federation.round)
        for update in counted:
            federation.report(update.client, server_step=step)
        model = fl.replaced(mean, sent.lerp(middle, step))
        if self.tested_model == "average":
            first = "average" not in federation.state
            pair = [model] if first else [model, federation.weights]
            federation.state["average"] = fl.average(pair, [1.0] * len(pair))
        return model

    def step_size(self, spread: float, moved: float, participants: int, round: int) -> float:
        """eta_g.

        Args:
            spread: mean of the squared norms of the participants' changes.
            moved: squared norm of their mean change.
            round: counted from 0.
        """
        epsilon = self.epsilon * self.epsilon_decay ** (round + 1)
        if self.epsilon_per_participant:
            epsilon *= participants
        divisor = 2 * (moved + epsilon)
        return max(1.0, spread / divisor) if divisor else 1.0

    def predictors(self, federation: fl.Federation) -> list[fl.Predictor]:
        """See the option ``tested_model``; before the first round, the initial model."""
        return [fl.Predictor(federation.state.get("average", federation.weights))]
