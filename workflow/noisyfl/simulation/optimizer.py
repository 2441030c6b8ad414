"""The optimizer of local updates: SGD, Adam or AdamW, as ``torch.optim`` computes them.

The classes of ``torch.optim`` are not used because constructing one imports torch's compiler,
which would take seconds in every run, more than many runs train for.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from noisyfl.core.options import BadInput
from noisyfl.simulation.returned import check_tensor
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.weights import Weights

MOMENTUM = ("momentum",)
"""What SGD with momentum keeps of each weight."""

MOMENTS = ("first moment", "second moment", "steps")
"""What Adam and AdamW keep of each weight."""


class Optimizer:
    """The optimizer of a local update; a new one has nothing in memory yet.

    Args:
        weights: the parameters by name, changed in place by :meth:`step`.
        schedule: says which optimizer it is, and gives the learning rate, the momentum (without
            dampening or Nesterov's correction), the weight decay, and the largest norm of a
            gradient. The other options of Adam and AdamW are torch's defaults.
        rate: a scalar tensor, of the weights' dtype and device, that is to hold the learning rate,
            so that a captured step reads the current round's from it; None: a step takes the
            learning rate from the schedule.

    Attributes:
        reads: the values of the schedule that a step depends on, without the learning rate if
            ``rate`` holds it.
        state: by name, what a step reads and changes of each weight: :data:`MOMENTUM` or
            :data:`MOMENTS`. Its tensors stay in the same place, for captured steps.
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
        self.state: dict[str, Weights] = {}
        self.reset(schedule)

    def reset(self, schedule: Schedule) -> None:
        """Take a schedule, and start again, without momentum or moments."""
        self.schedule = schedule
        self.reads: tuple[str | float | None, ...] = (
            schedule.optimizer,
            schedule.momentum,
            schedule.weight_decay,
            schedule.clip_norm,
        )
        if self.rate is None:
            self.reads += (schedule.learning_rate,)
        else:
            self.rate.fill_(schedule.learning_rate)
        kept = MOMENTS if schedule.optimizer != "sgd" else MOMENTUM if schedule.momentum else ()
        for name in kept:
            if name not in self.state:
                self.state[name] = {
                    key: weight.new_zeros(()) if name == "steps" else torch.zeros_like(weight)
                    for key, weight in self.weights.items()
                }
        for values in self.state.values():
            torch._foreach_zero_(list(values.values()))

    def step(self, loss: Tensor, learns: str | tuple[str, ...] = "") -> None:
        """Descend on a scalar loss of the weights.

        Args:
            loss: the scalar to be lowered.
            learns: a prefix of names, or several: other weights, and what is kept of them, are left
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
        clip_norm = self.schedule.clip_norm
        with torch.no_grad():
            if clip_norm is not None:
                norm = torch.stack(torch._foreach_norm(gradients)).norm()
                # As torch.nn.utils.clip_grad_norm_ does it, the small number included.
                torch._foreach_mul_(gradients, (clip_norm / (norm + 1e-6)).clamp(max=1))
            if self.schedule.optimizer == "sgd":
                self._sgd(names, weights, gradients)
            else:
                self._adam(names, weights, gradients)

    def _sgd(self, names: list[str], weights: list[Tensor], gradients: list[Tensor]) -> None:
        schedule = self.schedule
        if schedule.weight_decay:
            torch._foreach_add_(gradients, weights, alpha=schedule.weight_decay)
        if schedule.momentum:
            velocity = self._kept("momentum", names)
            torch._foreach_mul_(velocity, schedule.momentum)
            torch._foreach_add_(velocity, gradients)
            gradients = velocity
        if self.rate is None:
            torch._foreach_add_(weights, gradients, alpha=-schedule.learning_rate)
        else:
            torch._foreach_sub_(weights, torch._foreach_mul(gradients, self.rate))

    def _adam(self, names: list[str], weights: list[Tensor], gradients: list[Tensor]) -> None:
        schedule = self.schedule
        first, second, steps = (self._kept(name, names) for name in MOMENTS)
        # torch's fused kernels take it for granted that a gradient lies in memory as its weight.
        gradients = [
            gradient if gradient.stride() == weight.stride() else _laid_out_as(weight, gradient)
            for weight, gradient in zip(weights, gradients, strict=True)
        ]
        descend = adam if schedule.optimizer == "adam" else adamw
        descend(
            weights,
            gradients,
            first,
            second,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=schedule.learning_rate if self.rate is None else self.rate,
            weight_decay=schedule.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def _kept(self, name: str, names: list[str]) -> list[Tensor]:
        return [self.state[name][one] for one in names]


def _laid_out_as(weight: Tensor, gradient: Tensor) -> Tensor:
    return torch.empty_like(weight).copy_(gradient)


def _gradients(loss: Tensor, names: list[str], weights: list[Tensor]) -> list[Tensor]:
    """The gradients of a scalar loss; :class:`BadInput` if a weight has none."""
    check_tensor(loss, (), "loss", "a scalar")
    try:
        found = torch.autograd.grad(loss, weights, allow_unused=True) if loss.requires_grad else ()
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        raise BadInput(
            "loss: got one whose gradient goes back to an earlier step, expected that what is "
            "written to batch.memory is detached (value.detach())"
        ) from error
    gradients = [gradient for gradient in found if gradient is not None]
    if len(gradients) < len(weights):
        lacking = names[next((n for n, one in enumerate(found) if one is None), 0)]
        raise BadInput(
            f"loss: got one without a gradient of {lacking}, expected one of every weight that "
            "learns (Epoch.learns)"
        )
    return gradients
