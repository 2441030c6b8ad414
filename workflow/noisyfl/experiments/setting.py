"""What scales and experiments both write: settings, and texts of several kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from noisyfl.core.options import BadInput
from noisyfl.core.registry import split_component
from noisyfl.core.typed import Typed, each_once
from noisyfl.data.noise.noise_level import level_of


def _text(pattern: str, expected: str) -> Any:
    """Text that matches a pattern as a whole."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise BadInput(f"got {text!r}, expected {expected}")
        return text

    return AfterValidator(check)


def check_declared(kind: str, value: Any, info: ValidationInfo) -> Any:
    """The value, checked against what components declare if the context has a ``check``.

    It has none when a configuration is read, which must not import every method, and with them
    torch; see :func:`noisyfl.specs.spec.check_part`.
    """
    if check := (info.context or {}).get("check"):
        check(kind, value)
    return value


def schema_of(kind: str) -> WithJsonSchema:
    """The schema for editors that is made from what components declare."""
    return WithJsonSchema({"declared": kind})


def declared(kind: str) -> tuple[AfterValidator, WithJsonSchema]:
    """The check and the schema of what components declare."""
    check = AfterValidator(lambda value, info: check_declared(kind, value, info))
    return check, schema_of(kind)


LINE = r"[^\x00-\x1f\x7f\x85\u2028\u2029]*"

NAME = "[a-z][a-z0-9_]*"
LETTERS = "a small letter, then small letters, digits and underscores"

Name = Annotated[str, Field(max_length=100), _text(NAME, LETTERS)]
FileName = Annotated[
    str,
    Field(max_length=100),
    _text(NAME, f"the name of a file without its folder and .yaml: {LETTERS}"),
]
Line = Annotated[str, _text(LINE, "text without line breaks (in YAML `>-` leaves them out)")]
Heading = Annotated[Line, _text(r".*\S.*", "text that is not empty")]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(each_once)]
TrialCount = Annotated[int, Field(ge=1, le=1000)]
Method = Annotated[str | dict[str, Any], schema_of("method")]
Methods = Annotated[dict[str, dict[str, Any]], *declared("methods")]
Component = str | dict[str, Any]


class Setting(Typed):
    """Everything of a run but its method and seed, or a part of it.

    Components stay as they are written, since another setting may override parts of them. One that
    is a mapping without a name overrides single options.
    """

    dataset: Annotated[Component, *declared("dataset")] = ""
    clients: int = Field(0, ge=1)
    partition: Annotated[Component, *declared("partition")] = ""
    label_noise: Annotated[Component, *declared("label_noise")] = ""
    noise_level: Annotated[Component, BeforeValidator(level_of), *declared("noise_level")] = ""
    model: Annotated[Component, *declared("model")] = ""
    augmentation: Annotated[str, *declared("augmentation")] = ""
    normalization: Annotated[str, *declared("normalization")] = ""
    schedule: Annotated[dict[str, Any], *declared("schedule")] = Field(default_factory=dict)


def merge(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in one; later ones take precedence.

    A component given as a mapping without a name changes only the options in that mapping; given in
    any other form, it replaces the component before. A number of clients replaces the one that an
    earlier partition has of its own.
    """
    merged: dict[str, Any] = {}
    for setting in settings:
        for key, value in setting.items():
            before = merged.get(key)
            if key == "schedule":
                merged[key] = {**(before or {}), **value}
            elif before is None or not is_change(value):
                merged[key] = value
            elif is_change(before):
                merged[key] = {**before, **value}
            else:
                name, options = split_component(before, key)
                merged[key] = {"name": name, **options, **value}
        beside = setting.get("partition", {})
        if "clients" in setting and "partition" in merged and _without_clients(beside) == beside:
            merged["partition"] = _without_clients(merged["partition"])
    return merged


def _without_clients(partition: Any) -> Any:
    """A partition that does not say how many clients there are."""
    if is_change(partition):
        return {option: value for option, value in partition.items() if option != "clients"}
    name, options = split_component(partition, "partition")
    if options.pop("clients", None) is None:
        return partition
    return {"name": name, **options}


def is_change(component: Any) -> bool:
    """Whether a component gives options without a name."""
    return isinstance(component, Mapping) and "name" not in component
