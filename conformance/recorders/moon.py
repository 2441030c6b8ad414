"""MOON's local update."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, optim

from conformance.recorders.common import Batches, Pairs
from conformance.simulation import (
    Small,
    federation_of,
    flat_names,
    images_of,
    loaded,
    method,
    numbers_of,
    rounds_of,
    weights_of,
)
from conformance.steps import Code, Step, Values


class LocalUpdate(Step):
    """Two epochs, with the client's last model."""

    method = "moon"
    what = "local update of a client that has taken part before"
    file, function = "main.py", "train_net_fedcon"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "weights": weights_of(rng, Small()),
            "last": weights_of(rng, Small()),
            "images": images_of(rng, 10),
            "labels": rng.randint(4, size=10),
            "orders": [rng.permutation(10) for _ in range(2)],
        }

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(
            self.file, [self.function], nn=nn, optim=optim, torch=torch,
            logger=SimpleNamespace(info=lambda *_: None), compute_accuracy=_accuracy,
        )  # fmt: skip
        network = _Projected(loaded(Small(), given["weights"]))
        sent = _Projected(loaded(Small(), given["weights"])).eval()
        last = _Projected(loaded(Small(), given["last"])).eval()
        pairs = Pairs(given["images"], given["labels"])
        script.train_net_fedcon(
            0, network, sent, [last], Batches.of(pairs, given["orders"], 4), [], 2, 0.1, "sgd",
            5.0, 0.5, Namespace(reg=5e-4), 1, device="cpu",
        )  # fmt: skip
        return numbers_of(network.ours.state_dict())

    def ours(self, given: Values) -> Values:
        federation = federation_of(
            [loaded(Small(), given["weights"])], given["images"], [given["labels"]],
            local_epochs=2, momentum=0.9, weight_decay=5e-4,
        )  # fmt: skip
        last = loaded(Small(), given["last"]).state_dict()
        federation.clients[0].state["last_model"] = {f"0.{name}": v for name, v in last.items()}
        draws = {"batches": [[order] for order in given["orders"]]}
        rounds_of(method("moon", mu=5.0), federation, 0, 1, draws)
        return flat_names(federation.weights)


class _Projected(nn.Module):
    """A network of ours that says its features twice, where MOON's has a projection."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.ours = ours

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, features, logits."""
        features = self.ours.features(images)
        return features, features, self.ours.classifier(features)


def _accuracy(network: Any, loader: Any, get_confusion_matrix: bool = False, **_: Any) -> Any:
    """Nothing is measured."""
    return (0.0, None, 0.0) if get_confusion_matrix else (0.0, 0.0)
