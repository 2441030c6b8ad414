"""Check settings and options of methods, of experiments and of a scale's overlay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationInfo, field_validator

from noisyfl.core.options import BadInput, check_keys, find, within
from noisyfl.core.registry import Registry, split_component
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.own_images import Images
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.experiments.setting import Setting
from noisyfl.models import MODELS
from noisyfl.simulation.client_side import Side
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods

REGISTRIES: dict[str, Registry[Any]] = {
    "partition": PARTITIONS,
    "label_noise": LABEL_NOISES,
    "noise_level": NOISE_LEVELS,
    "model": MODELS,
}
"""By key of a setting, the components that may stand there."""


class CheckedSetting(Setting):
    """A setting of an experiment, or what a scale lays over one; all of it is checked at once.

    A component without a name changes single options of the component that is there.
    """

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, raw: Any) -> Any:
        name, options = split_component(raw, "dataset")
        if name != Images.name:
            return dataset(name).name
        with within(name):
            Images.check_options(options)
        return raw

    @field_validator("partition", "label_noise", "noise_level", "model")
    @classmethod
    def _component(cls, raw: Any, info: ValidationInfo) -> Any:
        registry = REGISTRIES[str(info.field_name)]
        if isinstance(raw, Mapping) and "name" not in raw:
            known = {name for one in registry.classes.values() for name in one.model_fields}
            check_keys(raw, sorted(known), "", "option")
            return raw
        name, options = split_component(raw, registry.kind)
        component = registry.get(name)
        with within(name):
            component.check_options(options)
        return raw

    @field_validator("augmentation")
    @classmethod
    def _augmentation(cls, name: str) -> str:
        find(AUGMENTATIONS, name, "augmentation")
        return name

    @field_validator("normalization")
    @classmethod
    def _normalization(cls, name: str) -> str:
        find(NORMALIZATIONS, name, "normalization")
        return name

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, raw: dict[str, Any]) -> dict[str, Any]:
        Schedule.check_options(raw)
        return raw


def check_overlay(overlay: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` if a scale's overlay names what is not there, or has wrong options.

    Args:
        overlay: as :class:`noisyfl.experiments.configuration.Overlay` has it.
        where: what the error messages call it.
    """
    with within(where=f"{where}.datasets"):
        for name in overlay.get("datasets", {}):
            dataset(name)
    check_setting(overlay.get("setting", {}), f"{where}.setting")
    for kind in ("datasets", "experiments"):
        for name, setting in overlay.get(kind, {}).items():
            check_setting(setting, f"{where}.{kind}.{name}")
    check_methods(overlay.get("methods", {}), f"{where}.methods")


def check_setting(raw: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` if a value of a setting is wrong; keys and options may be missing."""
    CheckedSetting.read(raw, where)


def check_methods(raw: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` if options of methods are wrong; required ones may be missing."""
    for name, options in raw.items():
        component_of(name, where).check_options(options, f"{where}.{name}")


def component_of(key: str, where: str) -> type[Side]:
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
