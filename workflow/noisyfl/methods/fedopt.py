"""FedOpt (Reddi et al., ICLR 2021): an optimiser on the server steps along the mean change."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch

import noisyfl.method as fl

RATES = {"adam": 0.01, "yogi": 0.01, "adagrad": 0.1, "momentum": 1.0}
"""The server's learning rate, where none is given."""


@fl.METHODS.register("fedopt")
class FedOpt(fl.ServerSide):
    """FedAdam, FedYogi, FedAdagrad (Algorithm 2) and FedAvgM (Hsu et al., 2019).

    With the mean change Delta of the local models,

    m = beta1 m + (1 - beta1) Delta,    w = w + eta m / (sqrt(v) + tau),

    where v becomes beta2 v + (1 - beta2) Delta^2 (Adam), v - (1 - beta2) Delta^2 sign(v - Delta^2)
    (Yogi) or v + Delta^2 (Adagrad). Momentum, FedAvgM, is m = beta1 m + Delta, w = w + eta m. All
    of this is over the trainable weights; buffers, such as the statistics of batch normalisation,
    are averaged.
    """

    reference = "Reddi et al., Adaptive Federated Optimization, ICLR 2021"

    optimizer: Literal["adam", "yogi", "adagrad", "momentum"] = fl.option(
        "adam", doc="rule of the server's step"
    )
    learning_rate: float | None = fl.option(
        None, doc="eta; null: 0.01 of adam and yogi, 0.1 of adagrad, 1 of momentum", above=0
    )
    beta1: float = fl.option(0.9, doc="decay of m", at_least=0, below=1)
    beta2: float = fl.option(
        0.99, doc="decay of v of adam and yogi; code: 0.999", at_least=0, below=1
    )
    tau: float = fl.option(
        0.001, doc="how little adaptive a step is; tuned from 0.00001 to 0.1", above=0
    )
    first_square: float | None = fl.option(
        None, doc="v before the first round; null: tau^2 (paper); code: 0", at_least=0
    )
    bias_correction: bool = fl.option(
        False, doc="multiply adam's and yogi's steps by sqrt(1 - beta2^t) / (1 - beta1^t) (code)"
    )

    variants: ClassVar = {
        "fedadam": {},
        "fedyogi": {"optimizer": "yogi"},
        "fedadagrad": {"optimizer": "adagrad", "beta1": 0.0},
        "fedavgm": {"optimizer": "momentum"},
    }

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class."""
        mean = super().aggregate(updates, federation)
        state, sent = federation.state, fl.flat(federation.weights)
        change = fl.flat(mean) - sent
        rate = RATES[self.optimizer] if self.learning_rate is None else self.learning_rate
        state["steps"] = state.get("steps", 0) + 1
        weight = 1.0 if self.optimizer == "momentum" else 1 - self.beta1
        first = self.beta1 * state.get("first_moment", torch.zeros_like(sent)) + weight * change
        state["first_moment"] = first
        if self.optimizer == "momentum":
            return fl.replaced(mean, sent + rate * first)
        start = self.tau**2 if self.first_square is None else self.first_square
        before = state.get("second_moment", torch.full_like(sent, start))
        second = state["second_moment"] = self._second(before, change.square())
        rate *= self._correction(state["steps"])
        return fl.replaced(mean, sent + rate * first / (second.sqrt() + self.tau))

    def _second(self, second: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        """The next v."""
        if self.optimizer == "adagrad":
            return second + square
        if self.optimizer == "yogi":
            return second - (1 - self.beta2) * square * (second - square).sign()
        return self.beta2 * second + (1 - self.beta2) * square

    def _correction(self, steps: int) -> float:
        """The factor of a step that makes up for moments that began at 0."""
        if not self.bias_correction or self.optimizer == "adagrad":
            return 1.0
        return math.sqrt(1 - self.beta2**steps) / (1 - self.beta1**steps)
