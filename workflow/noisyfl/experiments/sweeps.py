"""The rows and the settings of a comparison: a list in the place of a value stands for several.

A list in a method or in the schedule makes rows, and one in the rest of the setting makes columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noisyfl.core.options import BadInput, find, within
from noisyfl.core.registry import split_component, split_method
from noisyfl.core.typed import each_once, is_list
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.experiments.compared_setting import FOR_ADAM
from noisyfl.specs.catalogue import methods
from noisyfl.specs.spec import REGISTRIES
from noisyfl.specs.words import component


@dataclass(frozen=True)
class ComparedRow:
    """A method of the comparison.

    Attributes:
        name: the method in words; different from that of the other rows.
        method: as an experiment's file has it.
        schedule: options of the schedule that are not the same for all rows, or not the default.
        sweep: the method as the user wrote it, if the row has one of several values of an option.
        swept: these values, by ``<method>.<option>`` or ``schedule.<option>``.
        note: what else the table says of it.
    """

    name: str
    method: dict[str, Any]
    schedule: dict[str, Any] = field(default_factory=dict)
    sweep: str = ""
    swept: dict[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class SweptOptions:
    """Options of a setting, of which several may be compared.

    Attributes:
        options: by key, one value each.
        swept: those of several values, by key or ``<component>.<option>``.
    """

    options: dict[str, Any]
    swept: dict[str, Any]


def in_words(raw: Any) -> str:
    """A component, a method or a number as a user would write it."""
    if is_numeric(raw):
        return str(raw).removesuffix(".0")
    if not isinstance(raw, Mapping):
        return str(raw)
    if "parts" in raw:
        return "+".join(map(in_words, raw["parts"]))
    return str(component(raw))


def compared_rows(
    raw: str | Mapping[str, Any], schedule: Mapping[str, Any], swept: Mapping[str, Sequence[Any]]
) -> list[ComparedRow]:
    """The rows of a method: one, or one for each value of an option, of the method or of the
    schedule, that is given as a list.

    Args:
        schedule: its options that have one value.
        swept: those that have several.
    """
    text = raw if isinstance(raw, str) else in_words(raw)
    parts = split_method(raw, text)
    with within("method"):
        choices = [
            [*_of_options(part, find(methods(), part["name"], "method").model_fields)]
            for part in parts
        ]
    rows = []
    for chosen, values in itertools.product(
        itertools.product(*choices), itertools.product(*swept.values())
    ):
        of_row = {key: value for _, of_part in chosen for key, value in of_part.items()}
        own = dict(zip(swept, values, strict=True))
        of_row |= {f"schedule.{option}": value for option, value in own.items()}
        found = [part for part, _ in chosen]
        name = ", ".join(["+".join(map(in_words, found)), *equations(own)])
        if {**schedule, **own}.get("optimizer", "sgd") != "sgd":
            own = {**{key: FOR_ADAM[key] for key in FOR_ADAM if key not in schedule}, **own}
        method = found[0] if len(found) == 1 else {"parts": found}
        rows.append(ComparedRow(name, method, own, text if of_row else "", of_row))
    return rows


def equations(values: Mapping[str, Any]) -> list[str]:
    """Values with their keys, such as ``noise_level=0.4``."""
    return [f"{key}={in_words(value)}" for key, value in values.items()]


def options_of(setting: Mapping[str, Any]) -> list[SweptOptions]:
    """What a setting without its schedule stands for: one choice of options, or one for each value
    of an option, or of a component's option, that is given as a list.
    """
    choices = [_choices(key, raw) for key, raw in setting.items()]
    return [
        SweptOptions(
            {key: value for key, (value, _) in zip(setting, chosen, strict=True)},
            {key: value for _, swept in chosen for key, value in swept.items()},
        )
        for chosen in itertools.product(*choices)
    ]


def split_schedule(
    schedule: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    """The options of a schedule that have one value, and those that have several."""
    swept = {key: value for key, value in schedule.items() if isinstance(value, list | tuple)}
    for key, values in swept.items():
        _check_any(values, "schedule", key)
    return {key: value for key, value in schedule.items() if key not in swept}, {**swept}


def _choices(key: str, raw: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The values of an option, each with what tells it from the others."""
    if isinstance(raw, list | tuple):
        _check_any(raw, key)
        values = [value for one in raw for value, _ in _choices(key, one)]
        with within(key):
            each_once([*map(in_words, values)])
        if len(values) == 1:
            return [(values[0], {})]
        return [(value, {key: value if is_numeric(value) else in_words(value)}) for value in values]
    if isinstance(raw, str | Mapping) and key in (*REGISTRIES, "dataset"):
        with within(key):
            name, options = split_component(raw, key.replace("_", " "))
            known = (KINDS if key == "dataset" else REGISTRIES[key].classes).get(name)
            if known is not None:
                found = [*_of_options({"name": name, **options}, known.model_fields)]
                if len(found) > 1:
                    return found
                if found[0][1]:  # a list of one value
                    return [(found[0][0], {})]
    return [(raw, {})]


def _of_options(
    part: Mapping[str, Any], fields: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """A component with one value for each of its options, of which several may be given in a list,
    unless its value is a list; each with those of several.
    """
    several = {
        option: value
        for option, value in part.items()
        if isinstance(value, list | tuple) and option in fields and not is_list(fields[option])
    }
    for option, values in several.items():
        _check_any(values, part["name"], option)
    for chosen in itertools.product(*several.values()):
        one = dict(zip(several, chosen, strict=True))
        yield {**part, **one}, {f"{part['name']}.{option}": one[option] for option in one}


def _check_any(values: Sequence[Any], *path: str) -> None:
    if not values:
        raise BadInput("got [], expected at least one value", *path)


def is_numeric(value: Any) -> bool:
    """Whether a value is a number, as which YAML's true and false do not count."""
    return isinstance(value, int | float) and not isinstance(value, bool)
