"""Clustered federated learning (Sattler et al., 2020): split the clients where they disagree.

FedNoiL takes its rival from the paper on Byzantine robustness, where the same algorithm runs
unchanged and the largest cluster is taken for the benign one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("cfl")
class ClusteredFL(fl.ServerSide):
    """Every cluster of clients has a model of its own, FedAvg within the cluster.

    With D_i what client i's local update changed, a cluster splits in a round in which its mean
    change is small and a single one is not: ||mean D|| < eps1 and max ||D_i|| > eps2. Its
    participants are joined by the similarities cos(D_i, D_j) until two groups are left: by complete
    linkage, as the official code does, or by single linkage, which makes the largest similarity
    across the two groups smallest, as the paper asks. The smaller group becomes a new cluster. The
    larger one stays what the cluster was, and with it those members that were not in the round. All
    begin in one cluster. The model that counts, and is tested, is that of the cluster with the most
    clients.

    The rule ``larger`` splits again in every round, without regard to the norms, and averages the
    larger group alone.
    """

    reference = (
        "Sattler et al., On the Byzantine Robustness of Clustered Federated Learning, ICASSP 2020"
    )

    eps1: float = fl.option(
        0.4, doc="a cluster splits if the norm of its mean change is below", at_least=0
    )
    eps2: float = fl.option(
        1.6, doc="and the largest norm of one client's change is above", at_least=0
    )
    relative: bool = fl.option(
        False, doc="eps1 and eps2 are multiples of the norm of the first round's mean change"
    )
    warm_up_rounds: int = fl.option(
        20, doc="rounds at first in which no cluster splits", at_least=0
    )
    smallest: int = fl.option(
        3,
        doc="participants that a cluster needs in a round to split",
        at_least=2,
        participants=(1, 0),
    )
    gamma_max: float | None = fl.option(
        None,
        doc="a split stands only if sqrt((1 - a) / 2) is above, a being the largest similarity "
        "across (arXiv 1910.01991); null: always (code)",
        at_least=0,
        at_most=1,
    )
    linkage: Literal["complete", "single"] = fl.option(
        "complete",
        doc="how groups are joined until two are left: by their least similar clients (code), or "
        "by their most similar ones, which makes the largest similarity across smallest (paper)",
    )
    weighting: Literal["samples", "clients"] = fl.option(
        "samples", doc="clients of a cluster count by their samples (paper), or equally (code)"
    )
    rule: Literal["criterion", "larger"] = fl.option(
        "criterion",
        doc="split clusters for good by the criterion; or in every round average the larger of two "
        "groups",
    )

    variants: ClassVar = {"larger_group": {"rule": "larger"}}

    def start(self, client: fl.Client, federation: fl.Federation) -> fl.Weights:
        """The model of the client's cluster."""
        if "cluster_of" not in federation.state:
            return federation.weights
        return federation.state["cluster_models"][federation.state["cluster_of"][client.id]]

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """Split clusters, average within each, and return the largest one's model."""
        updates = fl.nonempty(updates)
        changes = [fl.flat(u.weights) - fl.flat(self.start(u.client, federation)) for u in updates]
        if self.rule == "larger":
            kept = updates
            if len(updates) >= self.smallest:
                larger, _ = bipartition(cosine_matrix(changes), self.linkage)
                kept = [updates[i] for i in larger]
            for update in updates:
                inside = any(update is one for one in kept)
                federation.report(update.client, in_larger_group=float(inside))
            return self._mean(kept)

        state = federation.state
        state["cluster_rounds"] = state.get("cluster_rounds", 0) + 1
        cluster_of = list(state.get("cluster_of", [0] * len(federation.clients)))
        models = list(state.get("cluster_models", [federation.weights]))
        for cluster in range(len(models)):
            members = [i for i, u in enumerate(updates) if cluster_of[u.client.id] == cluster]
            if not members:
                continue
            leaving = self._leaving(
                [updates[i] for i in members], [changes[i] for i in members], federation
            )
            if leaving:
                for i in leaving:
                    cluster_of[updates[members[i]].client.id] = len(models)
                models.append(self._mean([updates[members[i]] for i in leaving]))
            staying = [updates[i] for k, i in enumerate(members) if k not in leaving]
            models[cluster] = self._mean(staying)
        for update in updates:
            federation.report(update.client, cluster=float(cluster_of[update.client.id]))
        state["cluster_of"], state["cluster_models"] = cluster_of, models
        return models[max(range(len(models)), key=cluster_of.count)]

    def _leaving(
        self, updates: list[fl.Update], changes: list[Tensor], federation: fl.Federation
    ) -> list[int]:
        """The positions in ``updates`` of the participants that leave their cluster; often none."""
        state = federation.state
        norms = [float(one.norm()) for one in changes]
        shares = self._shares(updates)
        mean = sum(
            (one * share for one, share in zip(changes, shares, strict=True)),
            torch.zeros_like(changes[0]),
        ) / sum(shares)
        mean_norm = float(mean.norm())
        for update, norm in zip(updates, norms, strict=True):
            federation.report(update.client, change_norm=norm, cluster_change_norm=mean_norm)
        unit = state.setdefault("cluster_unit", mean_norm) if self.relative else 1.0
        if (
            state["cluster_rounds"] <= self.warm_up_rounds
            or len(updates) < self.smallest
            or not mean_norm < self.eps1 * unit
            or not max(norms) > self.eps2 * unit
        ):
            return []
        similarity = cosine_matrix(changes)
        larger, smaller = bipartition(similarity, self.linkage)
        across = max(similarity[i][j] for i in larger for j in smaller)
        if self.gamma_max is not None and not math.sqrt((1 - across) / 2) > self.gamma_max:
            return []
        return smaller

    def _mean(self, updates: list[fl.Update]) -> fl.Weights:
        return fl.average([update.weights for update in updates], self._shares(updates))

    def _shares(self, updates: list[fl.Update]) -> list[float]:
        if self.weighting == "clients":
            return [1.0] * len(updates)
        return [float(update.size) for update in updates]


def cosine_matrix(changes: list[Tensor]) -> list[list[float]]:
    """The cosine of each pair; 0 where a change is zero or not finite."""
    rows = torch.stack(changes).double()
    rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return (rows @ rows.T).nan_to_num(0.0).clamp(-1, 1).tolist()


def bipartition(similarity: list[list[float]], linkage: str) -> tuple[list[int], list[int]]:
    """Split the elements into two groups, each sorted; the larger group comes first.

    Of equal groups, the one with the first element comes first.

    Args:
        similarity: of each pair of elements; there are at least two elements.
        linkage: the most similar groups are joined until two are left; the similarity of groups is
            that of their least similar elements (``complete``) or their most similar ones
            (``single``).
    """
    between: Callable = min if linkage == "complete" else max
    groups = [[i] for i in range(len(similarity))]
    while len(groups) > 2:
        pairs = [(a, b) for b in range(len(groups)) for a in range(b)]
        a, b = max(
            pairs,
            key=lambda ab: between(similarity[i][j] for i in groups[ab[0]] for j in groups[ab[1]]),
        )
        groups[a] = sorted(groups[a] + groups.pop(b))
    first, second = sorted(groups, key=lambda group: (-len(group), group))
    return first, second
