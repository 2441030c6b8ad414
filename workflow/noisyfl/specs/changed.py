"""Which options of a run are not the defaults, which pages set in bold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.registry import Component, Registry
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.models import MODELS
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods
from noisyfl.specs.parts import parts_of
from noisyfl.specs.spec import measures_of


def changed_options(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """The options of a canonical spec that have a default and differ from it, by what they are of:
    a component of the setting, the schedule, a method.

    Where a default scales with the length of a run, it is that of this run.
    """
    partition, measures = spec["noisy_partition"], measures_of(spec["schedule"])
    registries: dict[str, Registry[Any]] = {
        "partition": PARTITIONS,
        "label_noise": LABEL_NOISES,
        "noise_level": NOISE_LEVELS,
    }
    found = {
        key: _changed(partition[key], registry.get(partition[key]["name"]))
        for key, registry in registries.items()
        if partition.get(key)
    }
    found["model"] = _changed(spec["model"], MODELS.get(spec["model"]["name"]))
    found["schedule"] = _changed(spec["schedule"], Schedule)
    for part in parts_of(spec["method"]):
        found[part["name"]] = _changed(part, methods()[part["name"]], measures)
    return {key: names for key, names in found.items() if names}


def _changed(
    raw: Mapping[str, Any],
    component: type[Component],
    measures: Mapping[str, float] | None = None,
) -> list[str]:
    defaults = component.defaults(measures)
    return [name for name, default in defaults.items() if raw.get(name, default) != default]
