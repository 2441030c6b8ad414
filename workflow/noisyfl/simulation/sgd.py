"""SGD with momentum and weight decay, as ``torch.optim.SGD`` computes it.

Ours, because constructing an optimizer of ``torch.optim`` imports torch's compiler: seconds that
every run would spend, more than many runs train.
"""

from __future__ import annotations

import torch
from torch import Tensor


class SGD:
    """The optimizer of one local update; a new one has no momentum yet.

    Args:
        weights: the parameters, changed in place by :meth:`step`.
        learning_rate: constant.
        momentum: 0 for none; without dampening or Nesterov's correction.
        weight_decay: added to the gradient, times the weight.
    """

    def __init__(
        self, weights: list[Tensor], learning_rate: float, momentum: float, weight_decay: float
    ) -> None:
        self.weights = weights
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self._velocity: list[Tensor] | None = None

    def step(self, loss: Tensor) -> None:
        """Descend on a scalar loss of the weights."""
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            if self.weight_decay:
                torch._foreach_add_(gradients, self.weights, alpha=self.weight_decay)
            if self.momentum:
                if self._velocity is None:
                    self._velocity = gradients
                else:
                    torch._foreach_mul_(self._velocity, self.momentum)
                    torch._foreach_add_(self._velocity, gradients)
                gradients = self._velocity
            torch._foreach_add_(self.weights, gradients, alpha=-self.learning_rate)
