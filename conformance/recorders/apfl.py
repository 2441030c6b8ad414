"""APFL's steps, of FedTorch: the loss of the mixture."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from conformance.recorders.losses import batch_of, leaf, with_gradients
from conformance.simulation import integers, method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.methods.apfl import Mixture
from noisyfl.simulation.outputs import Outputs


class MixtureLoss(Step):
    """Of a private model and the shared one, and its gradient by the private model."""

    method = "apfl"
    what = "loss of the mixture and its gradient by the private model"
    file, function = "fedtorch/comms/utils/eval.py", "inference_personal"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "private": rng.normal(size=(4, 9)).astype(np.float32),
            "shared": rng.normal(size=(4, 9)).astype(np.float32),
            "images": rng.normal(size=(10, 9)).astype(np.float32),
            "labels": rng.randint(4, size=10),
            "alpha": 0.3,
        }

    def official(self, code: Code, given: Values) -> Values:
        script = code.definitions(
            self.file, [self.function], torch=torch, accuracy=lambda *args, **rest: None
        )
        private, shared = leaf(given["private"]), tensor(given["shared"])
        loss, _ = script.inference_personal(
            lambda images: images @ private.T, lambda images: images @ shared.T,
            given["alpha"], nn.CrossEntropyLoss(), None, tensor(given["images"]),
            integers(given["labels"]),
        )  # fmt: skip
        return with_gradients(loss, private=private)

    def ours(self, given: Values) -> Values:
        private, shared = leaf(given["private"]), tensor(given["shared"])
        model = _Two([shared, private])
        mixture = Mixture(model, 1, torch.tensor(given["alpha"]))  # type: ignore[arg-type]
        batch = batch_of(given["labels"])
        batch.views = (tensor(given["images"]),)
        loss = method("fedavg").loss(mixture, batch)
        return with_gradients(loss, private=private)


class _Two:
    """A model of two linear networks, the shared one first."""

    def __init__(self, networks: list[torch.Tensor]) -> None:
        self.networks = networks
        self.weights = self.received = {f"{n}.w": one for n, one in enumerate(networks)}

    def __call__(self, images: torch.Tensor, network: int = 0) -> Outputs:
        logits = images @ self.networks[network].T
        return Outputs(logits, logits)

    @torch.no_grad()
    def look(self, images: torch.Tensor, network: int = 0, *, evaluating: bool = False) -> Outputs:
        """The same without a gradient."""
        return self(images, network)
