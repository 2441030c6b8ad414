"""Which options of a run are not the defaults, which pages set in bold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.options import Declaration
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.models import MODELS
from noisyfl.simulation.schedule import SCHEDULES
from noisyfl.specs.catalogue import methods
from noisyfl.specs.parts import parts_of
from noisyfl.specs.spec import measures_of

Changed = Mapping[str, list[str]]
"""Names of options by what they belong to: a component of the setting, the schedule, a method."""


def changed_options(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """The options of a canonical spec that have a default and differ from it.

    Where a default scales with the length of a run, it is that of this run.
    """
    partition, measures = spec["noisy_partition"], measures_of(spec["schedule"])
    given = {
        **{
            key: (partition[key], registry.declarations()[partition[key]["name"]])
            for key, registry in (
                ("partition", PARTITIONS),
                ("label_noise", LABEL_NOISES),
                ("noise_level", NOISE_LEVELS),
            )
            if partition.get(key)
        },
        "model": (spec["model"], MODELS.declarations()[spec["model"]["name"]]),
        "schedule": (spec["schedule"], SCHEDULES.declarations()["schedule"]),
    }
    found = {key: _changed(*one, {}) for key, one in given.items()}
    for part in parts_of(spec["method"]):
        found[part["name"]] = _changed(part, methods()[part["name"]], measures)
    return {key: names for key, names in found.items() if names}


def _changed(
    given: Mapping[str, Any], declared: Declaration, measures: Mapping[str, float]
) -> list[str]:
    return [
        option.name
        for option in declared.options
        if not option.required
        and option.name in given
        and given[option.name] != option.default_in(measures)
    ]
