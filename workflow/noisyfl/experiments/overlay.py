"""Check what a scale lays over the experiments, before and independently of these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from noisyfl.core.options import BadInput, check_keys, find
from noisyfl.core.registry import Component, Registry, split_component
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.models import MODELS
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods

REGISTRIES: dict[str, Registry[Any]] = {
    "partition": PARTITIONS,
    "label_noise": LABEL_NOISES,
    "noise_level": NOISE_LEVELS,
    "model": MODELS,
}
"""By key of a setting, the registry of the components that it may name."""


def check_overlay(overlay: Mapping[str, Any], where: str) -> None:
    """Check all of an overlay that can be checked without the experiments.

    Args:
        overlay: of a configuration that fits the schema.
        where: what the error messages call it.

    Raises:
        BadInput: naming the key, the value and what was expected.
    """
    for name, over in overlay.get("datasets", {}).items():
        dataset(name, f"{where}.datasets")
        _check_setting(over, f"{where}.datasets.{name}")
    _check_setting(overlay.get("setting", {}), f"{where}.setting")
    for name, over in overlay.get("experiments", {}).items():
        _check_setting(over, f"{where}.experiments.{name}")
    for name, options in overlay.get("methods", {}).items():
        declaration = declared_of(name, f"{where}.methods")
        declaration.check_options(options, f"{where}.methods.{name}")


def declared_of(key: str, where: str) -> type[Component]:
    """The declaration of the method whose options stand under a key of ``methods``.

    That is the method that the key names; of a combination, such as ``centralized+dividemix``, the
    second one.

    Raises:
        BadInput: there is no such method, or the key names more than two.
    """
    names = key.split("+")
    found = [find(methods(), name, "method", where) for name in names]
    if len(found) > 2:
        raise BadInput(f"{where}: got {key!r}, expected one method or two")
    return found[-1]


def _check_setting(given: Mapping[str, Any], where: str) -> None:
    """Check values laid over a setting; a component without a name changes single options only."""
    for key, value in given.items():
        place = f"{where}.{key}"
        if key == "dataset":
            dataset(value, place)
        elif key == "augmentation":
            find(AUGMENTATIONS, value, "augmentation", place)
        elif key == "normalization":
            find(dict.fromkeys(NORMALIZATIONS), value, "normalization", place)
        elif key == "schedule":
            Schedule.check_options(value, place)
        elif key in REGISTRIES:
            _check_component(REGISTRIES[key], value, place)


def _check_component(registry: Registry, given: Any, where: str) -> None:
    if isinstance(given, Mapping) and "name" not in given:
        known = {name for cls in registry.classes.values() for name in cls.model_fields}
        check_keys(given, sorted(known), where, "option")
        return
    name, options = split_component(given, registry.kind, where)
    registry.get(name, where).check_options(options, f"{where}.{name}")


def blamed(
    error: BadInput,
    where: str,
    overlay: Mapping[str, Any],
    experiments: Sequence[str],
    dataset: Any,
) -> str:
    """The key of the overlay that a run's mistake comes from; empty if it comes from none.

    Args:
        error: what is wrong with the run, whose message begins with ``where``.
        where: what that message calls the run.
        overlay: what was laid over the experiment.
        experiments: the keys of ``experiments`` that were laid over it, the last one first.
        dataset: of the experiment's setting.
    """
    words = re.findall(r"\w+", str(error).removeprefix(where).partition(": ")[0])
    if not words:
        return ""
    key, *options = words
    if key == "method":
        name = options[0] if options else ""
        return f"methods.{name}" if name in overlay.get("methods", {}) else ""
    parts = {
        **{f"experiments.{k}": overlay.get("experiments", {}).get(k, {}) for k in experiments},
        "setting": overlay.get("setting", {}),
        f"datasets.{dataset}": overlay.get("datasets", {}).get(dataset, {}),
    }
    found = [
        (f"{place}.{name}", part[name])
        for place, part in parts.items()
        for name in (key, *(["clients"] if key == "partition" else []))
        if name in part
    ]
    for place, value in found:
        # A mapping without a name changes only the options in it.
        if not isinstance(value, Mapping) or "name" in value or set(options[-1:]) & set(value):
            return place
    return found[0][0] if found else ""
