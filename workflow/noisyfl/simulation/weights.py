"""Models as tensors by name: their mean, and their size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from noisyfl.core.options import BadInput

Weights = dict[str, Tensor]
"""All tensors of a model, parameters and buffers, by name. Names in a model's first network start
with ``0.``, in its second with ``1.``.
"""


def average(weights: list[Weights], shares: list[float]) -> Weights:
    """The weighted mean of models, buffers included; counters are taken from the first.

    Args:
        weights: the models, at least one.
        shares: a non-negative number for each, with a positive sum.

    Raises:
        BadInput: the shares are others.
    """
    total = sum(shares)
    if len(shares) != len(weights) or not (min(shares) >= 0 and 0 < total < math.inf):
        raise BadInput(
            f"average: got the shares {[*map(float, shares)]} for {len(weights)} models, expected "
            "a number from 0 on for each, and not 0 for all"
        )
    mean: Weights = {}
    for name, first in weights[0].items():
        if not first.is_floating_point():
            mean[name] = first.clone()
            continue
        mean[name] = torch.zeros_like(first)
        for model, share in zip(weights, shares, strict=True):
            mean[name].add_(model[name], alpha=share / total)
    return mean


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; a GPU fetches it while the host goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def size_in_bytes(weights: Weights, names: Sequence[str] | None = None) -> int:
    """Bytes of the named weights; by default of all, as a model is sent."""
    chosen = list(weights) if names is None else names
    return sum(weights[name].numel() * weights[name].element_size() for name in chosen)
