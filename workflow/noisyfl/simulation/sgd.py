"""SGD with momentum and weight decay, as ``torch.optim.SGD`` computes it.

``torch.optim`` itself is not used because constructing one of its optimizers imports torch's
compiler, which would take seconds in every run, more than many runs train for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from noisyfl.core.options import BadInput
from noisyfl.simulation.returned import check_tensor
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.weights import Weights


class SGD:
    """The optimizer of a local update; a new one has no momentum yet.

    Args:
        weights: the parameters by name, changed in place by :meth:`step`.
        schedule: gives the learning rate, momentum (without dampening or Nesterov's correction),
            weight decay, and largest norm of a gradient.
        rate: a scalar tensor, of the weights' dtype and device, that is to hold the learning rate,
            so that a captured step reads the current round's from it; None: a step takes the
            learning rate from the schedule.

    Attributes:
        reads: the values of the schedule that a step depends on, without the learning rate if
            ``rate`` holds it.
        velocity: the momentum of each weight; empty before the first schedule with momentum. Its
            tensors stay in the same place, for captured steps.
    """

    def __init__(
        self,
        weights: Weights,
        schedule: Schedule,
        rate: Tensor | None = None,
    ) -> None:
        self.weights = weights
        self.schedule = schedule
        self.rate = rate
        self.velocity: Weights = {}
        self.reset(schedule)

    def reset(self, schedule: Schedule) -> None:
        """Take a schedule, and start with a momentum of zero."""
        self.schedule = schedule
        self.reads: tuple[float | None, ...] = (
            schedule.momentum,
            schedule.weight_decay,
            schedule.clip_norm,
        )
        if self.rate is None:
            self.reads += (schedule.learning_rate,)
        else:
            self.rate.fill_(schedule.learning_rate)
        if schedule.momentum and not self.velocity:
            self.velocity = {name: torch.zeros_like(w) for name, w in self.weights.items()}
        elif self.velocity:
            torch._foreach_zero_(list(self.velocity.values()))

    def step(self, loss: Tensor, learns: str | tuple[str, ...] = "") -> None:
        """Descend on a scalar loss of the weights.

        Args:
            loss: the scalar to be lowered.
            learns: a prefix of names, or several: other weights, and their momentum, are left
                unchanged.

        Raises:
            BadInput: the loss is no scalar tensor, or depends on none or not on all of the weights
                that learn; or there are none.
        """
        names = [name for name in self.weights if name.startswith(learns)]
        weights = [self.weights[name] for name in names]
        if not names:
            known = ", ".join(self.weights)
            raise BadInput(f"Epoch.learns: got {learns!r}, expected a beginning of one of {known}")
        gradients = _gradients(loss, names, weights)
        schedule = self.schedule
        with torch.no_grad():
            if schedule.clip_norm is not None:
                norm = torch.stack(torch._foreach_norm(gradients)).norm()
                # As torch.nn.utils.clip_grad_norm_ does it, the small number included.
                torch._foreach_mul_(gradients, (schedule.clip_norm / (norm + 1e-6)).clamp(max=1))
            velocity = [self.velocity[name] for name in names] if schedule.momentum else []
            if schedule.weight_decay:
                torch._foreach_add_(gradients, weights, alpha=schedule.weight_decay)
            if velocity:
                torch._foreach_mul_(velocity, schedule.momentum)
                torch._foreach_add_(velocity, gradients)
                gradients = velocity
            if self.rate is None:
                torch._foreach_add_(weights, gradients, alpha=-schedule.learning_rate)
            else:
                torch._foreach_sub_(weights, torch._foreach_mul(gradients, self.rate))


def _gradients(loss: Tensor, names: list[str], weights: list[Tensor]) -> list[Tensor]:
    """The gradients of a scalar loss; :class:`BadInput` if a weight has none."""
    check_tensor(loss, (), "loss", "a scalar")
    found = torch.autograd.grad(loss, weights, allow_unused=True) if loss.requires_grad else ()
    gradients = [gradient for gradient in found if gradient is not None]
    if len(gradients) < len(weights):
        lacking = names[next((n for n, one in enumerate(found) if one is None), 0)]
        raise BadInput(
            f"loss: got one without a gradient of {lacking}, expected one of every weight that "
            "learns (Epoch.learns)"
        )
    return gradients
