"""Mixup (Zhang et al., ICLR 2018): what it draws, the images that it makes, and their losses."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.updates import Batch


def mixup_draws(steps: list[np.ndarray], turn: Turn, alpha: float) -> dict[str, list]:
    """What mixup draws in a local epoch, for each step: the ``share`` of an image in its mixture,
    and the ``mixup_index`` of each image, the place in the batch of what it is mixed with.

    Args:
        steps: positions of each step's samples, int64 [batch].
        alpha: both parameters of the beta distribution.
    """
    rng = turn.random_stream("mixup")
    shares = rng.beta(alpha, alpha, size=len(steps))
    return {
        "share": list(shares.astype(np.float32)),
        "mixup_index": [rng.permutation(len(step)) for step in steps],
    }


def mixed_images(batch: Batch) -> Tensor:
    """The batch's images, each mixed with the one that its index says."""
    share = batch["share"]
    return share * batch.images + (1 - share) * batch.images[batch["mixup_index"]]


def mixed_losses(logits: Tensor, batch: Batch) -> Tensor:
    """The cross-entropies [batch] of both images' labels, mixed in the same share as the images."""
    share, other = batch["share"], batch.target[batch["mixup_index"]]
    return share * cross_entropy(logits, batch.target) + (1 - share) * cross_entropy(logits, other)
