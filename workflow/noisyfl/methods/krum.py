"""Multi-Krum (Blanchard et al., 2017): the mean of the local models with the closest neighbours."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("krum")
class Krum(fl.ServerSide):
    """Of n local models the m whose squared distances to their n - f - 2 nearest others have the
    smallest sums (Section 4) are averaged, without regard to their sizes.

    Distances are over the trainable weights of all networks of a model, so that its networks stay
    together; buffers are averaged over the chosen. FedNoiL names neither f nor m. The defaults
    leave out as many clients as are supposed to be faulty: one of 6, six of 30.
    """

    reference = (
        "Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, "
        "NeurIPS 2017"
    )

    least_participants = 3

    byzantine: int | None = fl.option(
        None,
        doc="f: faulty participants of a round; null: a fifth of them, at least one",
        at_least=0,
        participants=(2, 3),
    )
    selected: int | None = fl.option(
        None,
        doc="m: local models that are averaged; null: all but f",
        at_least=1,
        participants=(1, 0),
    )

    variants: ClassVar = {"single": {"selected": 1}}

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class."""
        candidates = fl.nonempty(updates)
        count = len(candidates)
        faulty = max(1, count // 5) if self.byzantine is None else self.byzantine
        scores = krum_scores(torch.stack([fl.flat(u.weights) for u in candidates]), faulty)
        most = max(1, count - faulty) if self.selected is None else self.selected
        order = scores.argsort(stable=True)[:most].tolist()
        # In the order of the updates, so that the mean does not depend on the order of the scores.
        chosen = sorted(order)
        for number, update in enumerate(candidates):
            share = 1 / len(chosen) if number in chosen else 0.0
            federation.report(
                update.client, aggregation_weight=share, krum_score=float(scores[number])
            )
        return fl.plain_mean([candidates[number] for number in chosen])


def krum_scores(models: Tensor, faulty: int) -> Tensor:
    """[n], for each model the sum of squared distances to its n - f - 2 nearest others, or to the
    nearest one if that number is below one.

    Args:
        models: [n, numbers], one model in each row.
        faulty: f, the number of faulty participants.
    """
    # Computed from differences: the faster way, from products, loses the digits of small distances.
    squared = torch.cdist(models, models, compute_mode="donot_use_mm_for_euclid_dist").square()
    # A model that is not finite is infinitely far away, and no model is its own neighbour.
    squared = squared.nan_to_num(nan=math.inf, posinf=math.inf).fill_diagonal_(math.inf)
    nearest = max(1, len(models) - faulty - 2)
    return squared.sort(1).values[:, :nearest].sum(1)
