"""What methods estimate beside training: products and means of classes, of all their digits."""

from __future__ import annotations

import torch
from torch import Tensor


def product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` without rounding to TF32, even in a run whose training is rounded so."""
    matmul = torch.backends.cuda.matmul
    rounded, matmul.allow_tf32 = matmul.allow_tf32, False
    try:
        return left @ right
    finally:
        matmul.allow_tf32 = rounded


def mean_by_class(
    values: Tensor, labels: Tensor, classes: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The mean of the values of each class, [classes, width], zeros for a class without values; and
    how many each class has, int64 [classes].

    Args:
        values: [samples, width].
        labels: [samples].
        mask: bool [samples], which samples count; all by default.
    """
    member = labels[:, None] == torch.arange(classes, device=labels.device)
    if mask is not None:
        member = member & mask[:, None]
    count = member.sum(0)
    sums = product(member.to(values.dtype).T, values)
    return sums / count.clamp(min=1)[:, None].to(values.dtype), count
