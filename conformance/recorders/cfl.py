"""Clustered federated learning's steps: similarities, norms, groups, means of groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from conformance.simulation import method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.methods.cfl import bipartition, cosine_matrix
from noisyfl.simulation.clients import Client
from noisyfl.simulation.updates import Update

PARTS = {"0.body.weight": (2, 3), "0.body.bias": (2,)}
"""Of the changes of a model."""


def shaped(vector: Any) -> Values:
    """A vector as a model's weights."""
    weight, bias = tensor(vector).split([6, 2])
    return {"0.body.weight": weight.reshape(2, 3), "0.body.bias": bias}


class Groups(Step):
    """Of nine clients' changes."""

    method = "cfl"
    what = "similarities, norms, and two groups by complete linkage"
    file, function = "fl_devices.py", "Server.cluster_clients"

    def inputs(self, rng: np.random.RandomState) -> Values:
        centres = rng.normal(size=(2, 8))[[0, 1, 0, 0, 1, 0, 1, 0, 0]]
        return {"changes": (centres + 0.8 * rng.normal(size=(9, 8))).astype(np.float32)}

    def official(self, code: Code, given: Values) -> Values:
        from sklearn.cluster import AgglomerativeClustering

        devices = code.module("fl_devices")
        # scikit-learn has renamed an argument.
        devices.AgglomerativeClustering = lambda affinity, linkage: AgglomerativeClustering(
            metric=affinity, linkage=linkage
        )
        clients = [SimpleNamespace(dW=shaped(change)) for change in given["changes"]]
        server = devices.Server.__new__(devices.Server)
        cosines = server.compute_pairwise_similarities(clients)
        groups = sorted((group.tolist() for group in server.cluster_clients(cosines)), key=len)
        return {
            "similarities": cosines,
            "largest norm": server.compute_max_update_norm(clients),
            "norm of the mean": server.compute_mean_update_norm(clients),
            "smaller": groups[0],
            "larger": groups[1],
        }

    def ours(self, given: Values) -> Values:
        changes = [tensor(change) for change in given["changes"]]
        cosines = cosine_matrix(changes)
        larger, smaller = bipartition(cosines, "complete")
        reports: list[dict] = []
        federation: Any = SimpleNamespace(
            state={"cluster_rounds": 1}, report=lambda client, **told: reports.append(told)
        )
        side = method("cfl", weighting="clients")
        side._leaving([SimpleNamespace(client=n, size=1) for n in range(9)], changes, federation)
        return {
            "similarities": cosines,
            "largest norm": max(told["change_norm"] for told in reports),
            "norm of the mean": reports[0]["cluster_change_norm"],
            "smaller": smaller,
            "larger": larger,
        }


class MeansOfGroups(Step):
    """Two groups that began with models of their own."""

    method = "cfl"
    what = 'models of two clusters, `weighting="clients"`'
    file, function = "fl_devices.py", "Server.aggregate_clusterwise"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "models": rng.normal(size=(2, 8)).astype(np.float32),
            "changes": rng.normal(size=(5, 8)).astype(np.float32),
            "cluster of": [0, 0, 1, 0, 1],
        }

    def official(self, code: Code, given: Values) -> Values:
        devices = code.module("fl_devices")
        server = devices.Server.__new__(devices.Server)
        clients = [
            SimpleNamespace(W=shaped(given["models"][cluster]), dW=shaped(change))
            for cluster, change in zip(given["cluster of"], given["changes"], strict=True)
        ]
        groups = [
            [c for c, cluster in zip(clients, given["cluster of"], strict=True) if cluster == n]
            for n in range(2)
        ]
        server.aggregate_clusterwise(groups)
        return {str(n): group[0].W for n, group in enumerate(groups)}

    def ours(self, given: Values) -> Values:
        models = [shaped(model) for model in given["models"]]
        nobody = torch.zeros(1, dtype=torch.int64)
        clients = [Client(n, nobody, nobody, nobody) for n in range(5)]
        updates = []
        for client, cluster, change in zip(
            clients, given["cluster of"], given["changes"], strict=True
        ):
            parts = shaped(change)
            weights = {name: models[cluster][name] + parts[name] for name in parts}
            updates.append(Update(client, weights, {}, 1.0 + client.id, 1, 0.0, 1, 1))
        federation: Any = SimpleNamespace(
            state={"cluster_of": given["cluster of"], "cluster_models": models},
            weights=models[0],
            clients=clients,
            report=lambda client, **told: None,
        )
        method("cfl", weighting="clients").aggregate(updates, federation)
        return {str(n): model for n, model in enumerate(federation.state["cluster_models"])}
