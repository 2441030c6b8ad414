"""Multi-Krum, of the code of the paper on robust aggregation that has ARFL's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from conformance.simulation import method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.simulation.clients import Client
from noisyfl.simulation.updates import Update

CLIENTS = 7


class MultiKrum(Step):
    """Of seven models, of which each one's nearest other decides: the code counts a model among
    its own neighbours, and does not square; of one neighbour the order is the same.
    """

    method = "krum"
    what = "three models of seven by their nearest other, and their mean"
    file, function = "models/server.py", "Server.aggregate_mkrum"
    seed = 5  # two are each other's nearest, so that of four the order would be a tie's

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"models": rng.normal(size=(CLIENTS, 8)).astype(np.float32)}

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(self.file, ["aggregate_mkrum", "l2dist"], np=np, print=_silent)
        zeros = np.zeros(8, dtype=np.float32)
        server = SimpleNamespace(
            updates=[(10, [np.array(row, dtype=np.float32)], None) for row in given["models"]],
            model=[zeros],
            l2dist=lambda one, other: script.l2dist(None, one, other),
        )
        script.aggregate_mkrum(server)
        return {"mean": server.model[0]}

    def ours(self, given: Values) -> Values:
        nobody = torch.zeros(1, dtype=torch.int64)
        updates = [
            Update(Client(n, nobody, nobody, nobody), {"0.w": tensor(row)}, {}, 10.0, 1, 0.0, 1, 1)
            for n, row in enumerate(given["models"])
        ]
        federation: Any = SimpleNamespace(weights={}, report=lambda client, **told: None)
        side = method("krum", byzantine=4, selected=3)
        return {"mean": side.aggregate(updates, federation)["0.w"]}


def _silent(*words: Any) -> None:
    return None
