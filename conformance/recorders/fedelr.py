"""FedELR's step: its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from conformance.simulation import integers, method, tensor
from conformance.steps import Code, Step, Values
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch


class EarlyLearning(Step):
    """Of three batches from seven samples, of which some come again."""

    method = "fedelr"
    what = "losses of three batches, running means, and a gradient"
    file, function = "Core/utils/criteria.py", "ELR_reg.forward"

    def inputs(self, rng: np.random.RandomState) -> Values:
        return {
            "logits": (2 * rng.normal(size=(3, 4, 5))).astype(np.float32),
            "positions": [[0, 4, 2, 6], [1, 4, 3, 0], [5, 2, 4, 1]],
            "labels": rng.randint(0, 5, (3, 4)),
        }

    def official(self, code: Code, given: Values) -> Values:
        criterion = code.module("Core.utils.criteria").ELR_reg(7, 5, beta=0.1, lamb=2)

        def loss(logits: Any, positions: Any, labels: Any) -> Any:
            return criterion(positions, logits, labels)

        return {**steps_of(given, loss), "means": criterion.ema}

    def ours(self, given: Values) -> Values:
        side = method("fedelr")
        memory = {"targets": torch.zeros(7, 5)}

        def loss(logits: Any, positions: Any, labels: Any) -> Any:
            batch = Batch((logits,), positions, labels, {}, memory)
            return side.loss(lambda images: Outputs(images, images), batch)

        return {**steps_of(given, loss), "means": memory["targets"]}


def steps_of(given: Values, loss: Any) -> Values:
    """The losses of the batches, and the gradient of the last one by its logits."""
    losses = []
    for number, positions in enumerate(given["positions"]):
        logits = tensor(given["logits"][number]).requires_grad_()
        found = loss(logits, integers(positions), integers(given["labels"][number]))
        losses.append(found)
    (gradient,) = torch.autograd.grad(losses[-1], [logits])
    return {"losses": torch.stack(losses), "gradient": gradient}
