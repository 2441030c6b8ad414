"""Residual-based reweighting and the median, of ARFL's own repository."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from conformance.simulation import Small, flat_names, loaded, method, numbers_of, weights_of
from conformance.steps import Code, Step, Values
from noisyfl.simulation.clients import Client
from noisyfl.simulation.updates import Update

CLIENTS = 7


class Reweighting(Step):
    """Of seven models of which one is far off."""

    method = "arfl"
    what = "weights of clients and the model"
    file, function = "FedAvg/averaging.py", "IRLS_aggregation_split_restricted"

    def inputs(self, rng: np.random.RandomState) -> Values:
        models = [weights_of(rng, Small(normalised=False)) for _ in range(CLIENTS)]
        models[4] = {name: 8 * value for name, value in models[4].items()}
        return {"models": models}

    def official(self, code: Code, given: Values) -> Values:
        torch.cuda.FloatTensor = torch.FloatTensor  # type: ignore[misc]
        averaging = code.module("averaging", "FedAvg")
        states = [loaded(Small(normalised=False), w).state_dict() for w in given["models"]]
        with redirect_stdout(StringIO()):
            return self.combined(averaging, states)

    def combined(self, averaging: Any, states: list[Any]) -> Values:
        """What the code makes of the models."""
        mean, weights = averaging.IRLS_aggregation_split_restricted(states, 2, 0.1)
        return {"model": numbers_of(mean), "weights": weights / weights.sum()}

    def ours(self, given: Values) -> Values:
        nobody = torch.zeros(1, dtype=torch.int64)
        updates = []
        for number, weights in enumerate(given["models"]):
            state = loaded(Small(normalised=False), weights).state_dict()
            named = {f"0.{name}": value for name, value in state.items()}
            client = Client(number, nobody, nobody, nobody)
            updates.append(Update(client, named, {}, 1.0 + number, 1, 0.0, 1, 1))
        shares: dict[int, float] = {}
        federation: Any = SimpleNamespace(
            weights=updates[0].weights,
            report=lambda client, aggregation_weight: shares.update(
                {client.id: aggregation_weight}
            ),
        )
        combined = flat_names(method(self.method).aggregate(updates, federation))
        if not shares:
            return {"model": combined}
        return {"model": combined, "weights": [shares[n] for n in range(CLIENTS)]}


class Median(Reweighting):
    """Of six models, an even number."""

    method = "median"
    what = "the median of models"
    function = "simple_median"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {"models": [weights_of(rng, Small(normalised=False)) for _ in range(6)]}

    def combined(self, averaging: Any, states: list[Any]) -> Values:
        return {"model": numbers_of(averaging.simple_median(states))}
