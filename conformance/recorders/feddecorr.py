"""FedDecorr's penalty, and FedExP as FedDecorr's repository has it."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from conformance.recorders.losses import leaf, with_gradients
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    loaded,
    method,
    numbers_of,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.simulation.updates import Update

SIZES = (5, 3, 4)


class Penalty(Step):
    """Of nine images with five features, one of which is always 0."""

    method = "feddecorr"
    what = "penalty and its gradient, `variant=official`"
    file, function = "loss.py", "FedDecorrLoss.forward"

    def inputs(self, rng: np.random.RandomState) -> Values:
        features = rng.normal(size=(9, 5)).astype(np.float32)
        features[:, 2] = 0
        return {"features": features}

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions("loss.py", ["FedDecorrLoss"], torch=torch, nn=nn)
        features = leaf(given["features"])
        return with_gradients(script.FedDecorrLoss()(features), features=features)

    def ours(self, given: Values) -> Values:
        features = leaf(given["features"])
        side = method("feddecorr", variant="official")
        return with_gradients(side.correlation(features), features=features)


class FedExP(Step):
    """One round of three clients whose local models are given."""

    method = "fedexp"
    what = "the server's model, `tested_model=last`"
    file, function = "approach/fedexp.py", "FedExp.global_aggregation"

    def inputs(self, rng: np.random.RandomState) -> Values:
        network = Small(normalised=False)
        sent, changes = weights_of(rng, network), [weights_of(rng, network) for _ in SIZES]
        models = [{name: sent[name] + change[name] for name in sent} for change in changes]
        return {"weights": sent, "models": models}

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(self.file, ["global_aggregation"], copy=copy)
        network = loaded(Small(normalised=False), given["weights"])
        models = {
            number: loaded(Small(normalised=False), weights)
            for number, weights in enumerate(given["models"])
        }
        own = SimpleNamespace(
            party2loaders=[SimpleNamespace(dataset=range(size)) for size in SIZES],
            global_net=network,
            appr_args=SimpleNamespace(eps=1e-3),
            logger=SimpleNamespace(info=lambda *_: None),
        )
        script.global_aggregation(own, models)
        return numbers_of(network.state_dict())

    def ours(self, given: Values) -> Values:
        labels = [np.zeros(size, dtype=int) for size in SIZES]
        network = loaded(Small(normalised=False), given["weights"])
        federation = federation_of([network], np.zeros((sum(SIZES), 1, 3, 3)), labels)
        updates = []
        for client, weights in zip(federation.clients, given["models"], strict=True):
            state = loaded(Small(normalised=False), weights).state_dict()
            own = {f"0.{name}": value for name, value in state.items()}
            updates.append(Update(client, own, {}, len(client), 1, 0.0, 0, 0))
        side = method("fedexp", tested_model="last")
        return flat_names(side.aggregate(updates, federation))
