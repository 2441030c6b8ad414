"""What scales and experiments both write: settings, and texts of several kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_validator

from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.statistics import STATISTICS
from noisyfl.core.options import BadInput, check_keys, find, within
from noisyfl.core.registry import Registry, split_component
from noisyfl.core.typed import Typed
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.models import MODELS
from noisyfl.simulation.schedule import Schedule

REGISTRIES: dict[str, Registry[Any]] = {
    "partition": PARTITIONS,
    "label_noise": LABEL_NOISES,
    "noise_level": NOISE_LEVELS,
    "model": MODELS,
}
"""By key of a setting, the components that may stand there."""


def _text(pattern: str, expected: str) -> Any:
    """Text that matches a pattern as a whole."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise BadInput(f"got {text!r}, expected {expected}")
        return text

    return AfterValidator(check)


def _one_of(known: Mapping[str, Any], kind: str) -> Any:
    def check(name: Any) -> Any:
        find(known, name, kind)
        return name

    return BeforeValidator(check)


def declared(name: str) -> WithJsonSchema:
    """The schema for editors that is made from what components declare, by its name."""
    return WithJsonSchema({"declared": name})


def each_once(names: list[str]) -> list[str]:
    """The names, if none stands twice; else raise :class:`BadInput`."""
    if len(set(names)) < len(names):
        raise BadInput(f"got {names!r}, expected each once")
    return names


LINE = r"[^\x00-\x1f\x7f\x85\u2028\u2029]*"

Name = Annotated[
    str,
    Field(max_length=100),
    _text("[a-z][a-z0-9_]*", "a small letter, then small letters, digits and underscores"),
]
Line = Annotated[str, _text(LINE, "text without line breaks (in YAML `>-` leaves them out)")]
Heading = Annotated[Line, _text(r".*\S.*", "text that is not empty")]
Names = Annotated[list[str], Field(min_length=1)]
Trials = Annotated[int, Field(ge=1, le=1000)]
Metric = Annotated[str, _one_of(METRICS, "metric"), declared("metric")]
Statistic = Annotated[str, _one_of(STATISTICS, "statistic"), declared("statistic")]
Method = Annotated[str | dict[str, Any], declared("method")]
Methods = Annotated[dict[str, dict[str, Any]], declared("methods")]
Component = str | dict[str, Any]


class Setting(Typed):
    """Everything of a run but its method and seed, or a part of it.

    Components stay as they are written, since another setting may be laid over them.
    """

    dataset: Annotated[str, declared("dataset")] = ""
    clients: int = Field(0, ge=1)
    partition: Annotated[Component, declared("partition")] = ""
    label_noise: Annotated[Component, declared("label_noise")] = ""
    noise_level: Annotated[Component, declared("noise_level")] = ""
    model: Annotated[Component, declared("model")] = ""
    augmentation: Annotated[str, declared("augmentation")] = ""
    normalization: Annotated[str, declared("normalization")] = ""
    schedule: Annotated[dict[str, Any], declared("schedule")] = Field(default_factory=dict)


class Overlaid(Setting):
    """A setting that a scale lays over those of experiments; all of it is checked at once.

    A component without a name changes single options of the component that is there.
    """

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, name: str) -> str:
        return dataset(name).name

    @field_validator("partition", "label_noise", "noise_level", "model")
    @classmethod
    def _component(cls, given: Any, info: Any) -> Any:
        registry = REGISTRIES[info.field_name]
        if isinstance(given, Mapping) and "name" not in given:
            known = {name for one in registry.classes.values() for name in one.model_fields}
            check_keys(given, sorted(known), "", "option")
            return given
        name, options = split_component(given, registry.kind)
        component = registry.get(name)
        with within(name):
            component.check_options(options)
        return given

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
    def _schedule(cls, given: dict[str, Any]) -> dict[str, Any]:
        Schedule.check_options(given)
        return given
