"""FedProto's steps: the local update beside given prototypes, and the prototypes' mean."""

from __future__ import annotations

import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from conformance.recorders.common import Batches, Pairs
from conformance.simulation import (
    CLASSES,
    WIDTH,
    Small,
    federation_of,
    flat_names,
    images_of,
    integers,
    loaded,
    method,
    numbers_of,
    rounds_of,
    tensor,
    weights_of,
)
from conformance.steps import Code, Step, Values
from noisyfl.simulation.outputs import Outputs


class Both(nn.Module):
    """A small network that says logarithms of probabilities, and features."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Any) -> Any:
        """Both."""
        features = self.network.features(images)
        return self.network.classifier(features).log_softmax(1), features


class LocalUpdate(Step):
    """Two epochs; one class has no prototype yet."""

    method = "fedproto"
    what = "local update with the distance to prototypes"
    file, function = "lib/update.py", "LocalUpdate.update_weights_het"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "images": images_of(rng, 12),
            "labels": rng.randint(CLASSES, size=12),
            "orders": [rng.permutation(12) for _ in range(2)],
            "prototypes": rng.rand(CLASSES, WIDTH).astype(np.float32),
            "known": [1, 1, 0, 1],
        }

    def official(self, code: Code, given: Values) -> Values:
        sys.modules["models"] = ModuleType("models")  # whose place is another folder's
        sys.modules["models"].CNNFemnist = None  # type: ignore[attr-defined]
        update = code.module("update", "lib")
        args = Namespace(
            device="cpu", local_bs=4, optimizer="sgd", lr=0.1, train_ep=2, ld=0.7,
            num_classes=CLASSES, verbose=0,
        )  # fmt: skip
        pairs = Pairs(given["images"], given["labels"])
        local = update.LocalUpdate(args, pairs, range(len(pairs)))
        local.trainloader = Batches.of(pairs, given["orders"], 4)
        network = loaded(Small(), given["weights"])
        prototypes = {
            label: [tensor(given["prototypes"][label])]
            for label in range(CLASSES)
            if given["known"][label]
        }
        local.update_weights_het(args, 0, prototypes, Both(network), 1)
        return numbers_of(network.state_dict())

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), given["weights"])], given["images"], [given["labels"]],
            local_epochs=2, momentum=0.5,
        )  # fmt: skip
        federation.state["prototypes"] = tensor(given["prototypes"])
        federation.state["known"] = tensor(given["known"])
        draws = {"batches": [[order] for order in given["orders"]]}
        rounds_of(method("fedproto", weight=0.7), federation, 1, 2, draws)
        return flat_names(federation.weights)


class Prototypes(Step):
    """Of three clients of which not all have every class."""

    method = "fedproto"
    what = "prototypes of clients and their mean"
    file, function = "lib/utils.py", "proto_aggregation"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "features": [rng.rand(8, WIDTH).astype(np.float32) for _ in range(3)],
            "labels": [rng.randint(classes, size=8) for classes in (2, 3, 4)],
        }

    def official(self, code: Code, given: Values) -> Values:
        utils = code.definitions("lib/utils.py", ["agg_func", "proto_aggregation"], torch=torch)
        local = {}
        for number, (features, labels) in enumerate(
            zip(given["features"], given["labels"], strict=True)
        ):
            by_label: dict[int, list] = {}
            for feature, label in zip(tensor(features), labels, strict=True):
                by_label.setdefault(label, []).append(feature)
            local[number] = utils.agg_func(by_label)
        mean = utils.proto_aggregation(local)
        return {"prototypes": {str(label): mean[label][0] for label in sorted(mean)}}

    def ours(self, given: Values) -> Values:
        clients = [SimpleNamespace(labels=integers(part), state={}) for part in given["labels"]]
        answers = [Outputs(torch.zeros(8, CLASSES), tensor(part)) for part in given["features"]]
        federation = SimpleNamespace(
            state={}, clients=clients, exchange=lambda **sizes: None,
            ask=lambda whom, purpose, view: [*zip(whom, answers, strict=True)],
        )  # fmt: skip
        updates: Any = [SimpleNamespace(client=client, weights={}) for client in clients]
        method("fedproto").after_updates(0, updates, federation)
        found, known = federation.state["prototypes"], federation.state["known"]
        return {"prototypes": {str(n): found[n] for n in range(CLASSES) if known[n]}}
