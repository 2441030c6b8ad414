"""What a user should know of a noisy partition: labels that cannot be meant, levels not reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.core.randomness import stream
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.drawn import check_levels
from noisyfl.data.noise.agreement import doubt
from noisyfl.data.noise.label_noise import LABEL_NOISES, Flipping
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.noisy_partition import UNKNOWN, read

TOLERANCE = 0.02
"""How far the share of flipped labels may be from the levels without a remark."""


def remarks_on(spec: Mapping[str, Any]) -> list[str]:
    """What a user should know of a noisy partition before it is made: whether clients are so small
    that whole numbers of flipped labels are far from what the levels say.
    """
    noise = LABEL_NOISES.build(spec["label_noise"])
    level = NOISE_LEVELS.build(spec["noise_level"])
    if not isinstance(noise, Flipping) or noise.count == "bernoulli" or level.before_split:
        return []
    if type(noise).choose is not Flipping.choose:
        return []
    dealt, clients = spec["partition"], spec["partition"]["clients"]
    if dealt.get("per_client"):
        size = dealt["per_client"]
    else:
        size = (dealt["samples"] or dataset(spec["dataset"]).task_size) // clients
    if size > 1 / TOLERANCE:
        return []
    levels = level.draw(clients, stream(spec["seed"], "noise level"))
    check_levels(levels, clients, f"noise_level.{level.name}.draw")
    wanted = float(np.mean(levels))
    flipped = float(np.mean([noise.number_of_flips(float(one), size) / size for one in levels]))
    if abs(flipped - wanted) <= TOLERANCE:
        return []
    return [
        f"{noise.name} noise with count={noise.count} flips {flipped:.0%} of the labels of clients "
        f"with {size} samples, where their levels say {wanted:.0%}"
    ]


def doubt_about(path: Path) -> str:
    """What is odd about a noisy partition whose labels are from a file; empty if nothing is.

    Planning says it first where it can: it knows no true labels of a dataset that is not prepared.
    """
    partition = read(path)
    from_file = LABEL_NOISES.get(partition.spec["label_noise"]["name"]).whole
    if not from_file or UNKNOWN in partition.true_labels:
        return ""
    return doubt(partition.given_labels, partition.true_labels)
