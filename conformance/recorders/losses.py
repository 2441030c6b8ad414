"""Our losses on given outputs of a network, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.simulation import integers, tensor
from conformance.steps import Values
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch


class Said:
    """A model that has said what it says, of each of its networks and views in turn.

    Args:
        logits: of each network; or of one network, of each view.
        features: of one network.
    """

    def __init__(self, logits: list[Tensor], features: Tensor | None = None) -> None:
        self.logits = logits
        self.features = features
        self.calls = 0

    def __call__(self, images: Tensor, network: int = 0) -> Outputs:
        """The logits."""
        features = torch.empty(0) if self.features is None else self.features
        return Outputs(self.logits[network], features)


def batch_of(labels: Any, extras: Values | None = None, memory: Values | None = None) -> Batch:
    """A batch of which only the labels are of interest."""
    target = integers(labels)
    images = torch.zeros(len(target), 1, 1, 1)
    told = {name: torch.as_tensor(value) for name, value in (extras or {}).items()}
    return Batch((images,), torch.arange(len(target)), target, told, dict(memory or {}))


def with_gradients(loss: Tensor, **inputs: Tensor) -> Values:
    """A loss, and its gradient by each of its inputs."""
    gradients = torch.autograd.grad(loss, list(inputs.values()))
    named = {f"gradient of {k}": g for k, g in zip(inputs, gradients, strict=True)}
    return {"loss": loss.detach(), **named}


def leaf(value: Any) -> Tensor:
    """A tensor to take a gradient by."""
    return tensor(value).requires_grad_()
