"""What runs have in common: what they start from, and what they are trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.specs.identity import identity


def start_of(spec: Mapping[str, Any]) -> str:
    """Name what a run starts from, but for its seed.

    Runs of two methods with the same start and the same seed begin with the same weights and learn
    from the same noisy partition.
    """
    partition = {**spec.get("noisy_partition", {}), "seed": None}
    return identity({"noisy_partition": partition, "model": spec.get("model")})


def setting_of(spec: Mapping[str, Any]) -> str:
    """Name what a run's method is trained on, and for how long.

    Runs of two methods with the same setting have the same noisy partition, network, augmentation,
    rounds, local epochs and participation. They may differ in what a paper tunes for its own
    method: the learning rate, the momentum, the batch size.
    """
    shared = {name: spec.get(name) for name in ("noisy_partition", "model", "augmentation")}
    lengths = ("rounds", "local_epochs", "participation")
    return identity({**shared, **{name: spec["schedule"].get(name) for name in lengths}})
