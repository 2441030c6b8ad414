"""What client sides estimate: means of classes, and how well wrong labels were found."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from noisyfl.simulation.local import Client


def mean_by_class(
    values: Tensor, labels: Tensor, classes: int, counted: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The mean of each class's values, [classes, width], zeros if it has none; and whether it has
    any, bool [classes].

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


def detected(client: Client, called: Tensor) -> dict[str, float]:
    """How well wrong labels were found: ``noise_precision``, wrong among those called so, and
    ``noise_recall``, called so among the wrong; NaN of none.

    Args:
        client: whose labels.
        called: bool [samples].
    """
    wrong = client.given != client.true
    hits = float((called & wrong).sum())
    return {"noise_precision": ratio(hits, called), "noise_recall": ratio(hits, wrong)}


def ratio(hits: float, among: Tensor) -> float:
    """Hits over the number of flags set in ``among``; NaN if none is."""
    count = int(among.sum())
    return hits / count if count else math.nan
