"""The means of classes, on which several client sides base their estimates."""

from __future__ import annotations

import torch
from torch import Tensor


def mean_by_class(
    values: Tensor, labels: Tensor, classes: int, counted: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The mean of the values of each class, [classes, width], zeros for a class without values; and
    whether each class has any, bool [classes].

    Args:
        values: [samples, width].
        labels: [samples].
        classes: how many.
        counted: bool [samples], which samples count; all by default.
    """
    member = labels[:, None] == torch.arange(classes, device=labels.device)
    if counted is not None:
        member = member & counted[:, None]
    count = member.sum(0)
    sums = member.to(values.dtype).T @ values
    return sums / count.clamp(min=1)[:, None].to(values.dtype), count > 0
