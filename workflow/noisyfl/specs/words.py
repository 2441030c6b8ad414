"""Specs and options in words, for messages, pages, trackers and the explorer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from noisyfl.core.registry import Component, parts_of
from noisyfl.core.typed import choices_of, is_list, is_nullable, limits_of, type_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.data.titles import title_of
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods
from noisyfl.specs.spec import REGISTRIES, measures_of

Spec = Mapping[str, Any]

ABOUT = ("name", "revision", "sha256")
"""Keys of a component that are not options; every checksum is in the run's ``spec.json``."""

# ---------------------------------------------------------------- a component of a run


@dataclass(frozen=True)
class Words:
    """A text in pieces.

    Attributes:
        pieces: in order, each with its mark: whether it is an option that is not the default.
    """

    pieces: tuple[tuple[str, bool], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)


def plain(text: str) -> Words:
    """A text without marks."""
    return Words(((text, False),))


def component(raw: Spec, changed: Collection[str] = ()) -> Words:
    """A component as a configuration writes it: ``name(option=value, ...)``.

    Args:
        raw: the component in canonical form.
        changed: the options to mark.
    """
    pieces = [(raw["name"], False)]
    if title := title_of(raw.get("sha256", "")):
        pieces.append((f"({title}", False))
    for key, value in raw.items():
        if key not in ABOUT:
            pieces.append((", " if len(pieces) > 1 else "(", False))
            pieces.append((f"{key}={value!r}", key in changed))
    return Words((*pieces, *([(")", False)] if len(pieces) > 1 else ())))


def in_short(raw: Spec, declared: Mapping[str, type[Component]]) -> str:
    """``name(option=value, ...)`` with the options that have no default or differ from it.

    Of a component that nobody declares any more, such as a method whose file is gone, all options.
    """
    one = declared.get(raw["name"])
    known = raw.keys() if one is None else one.model_fields
    defaults = {} if one is None else one.defaults()
    title = title_of(raw.get("sha256", ""))
    told = [title] if title else []
    told += [
        f"{key}={value}"
        for key, value in raw.items()
        if key in known and key not in ABOUT and not (key in defaults and defaults[key] == value)
    ]
    return raw["name"] + (f"({', '.join(told)})" if told else "")


# ---------------------------------------------------------------- a run


def describe_run(spec: Spec) -> str:
    """A run in words: its method, dataset, partition, noise and seed."""
    return f"{describe_trials(spec)}, seed {spec['seed']}"


def describe_trials(spec: Spec) -> str:
    """A run in words without its seed, as :func:`describe_run` has it."""
    given = spec["noisy_partition"]
    method = "+".join(in_short(part, methods()) for part in parts_of(spec["method"]))
    facts = dataset(given["dataset"])
    words = f"{method} on {facts.title}, {in_short(given['partition'], PARTITIONS.classes)}"
    if not facts.true_labels:
        return f"{words}, label noise as it comes"
    if given["label_noise"]["name"] == "none":
        return f"{words}, no label noise"
    return f"{words}, {describe_noise(given, ' label noise')}"


def describe_noise(partition: Spec, noun: str = "") -> str:
    """The label noise of a noisy partition and its level, without options that are defaults."""
    noise = in_short(partition["label_noise"], LABEL_NOISES.classes)
    level = in_short(partition["noise_level"], NOISE_LEVELS.classes)
    return f"{noise}{noun}" if level == "none" else f"{noise}{noun} at {level}"


def describe_setting(
    spec: Spec, changed: Mapping[str, Collection[str]] | None = None
) -> dict[str, Words]:
    """All items of a run's spec but its method and seed.

    Args:
        changed: the options to mark, as :func:`changed_options` returns them.
    """
    partition, marked = spec["noisy_partition"], changed or {}

    def words(key: str, raw: Spec) -> Words:
        return component(raw, marked.get(key, ()))

    labels = {"human": "as people labelled", "file": "as the file's labels are"}
    whose = labels.get(partition["label_noise"]["name"])
    schedule = {
        name.replace("_", " "): Words(
            ((str(spec["schedule"][name]), name in marked.get("schedule", ())),)
        )
        for name in Schedule.model_fields
    }
    return {
        "dataset": plain(dataset(partition["dataset"]).title),
        "clients": plain(str(partition["partition"]["clients"])),
        "partition": words("partition", partition["partition"]),
        "label noise": words("label_noise", partition["label_noise"]),
        "noise level": plain(whose) if whose else words("noise_level", partition["noise_level"]),
        "model": words("model", spec["model"]),
        "augmentation": plain(spec["augmentation"]),
        "normalization": plain(spec["normalization"]),
        **schedule,
    }


def changed_options(spec: Spec) -> dict[str, list[str]]:
    """The options of a canonical spec that have a default and differ from it, by what they are of:
    a component of the setting, the schedule, a method.

    Where a default scales with the length of a run, it is that of this run.
    """
    given = {**spec["noisy_partition"], "model": spec["model"]}
    found = {
        key: list(_changed(given[key], registry.get(given[key]["name"])))
        for key, registry in REGISTRIES.items()
        if given.get(key)
    }
    found["schedule"] = list(_changed(spec["schedule"], Schedule))
    measures = measures_of(spec["schedule"])
    for part in parts_of(spec["method"]):
        found[part["name"]] = list(_changed(part, methods()[part["name"]], measures))
    return {key: names for key, names in found.items() if names}


def _changed(
    raw: Spec, declared: type[Component], measures: Mapping[str, float] | None = None
) -> Iterator[str]:
    for name, default in declared.defaults(measures).items():
        if raw.get(name, default) != default:
            yield name


# ---------------------------------------------------------------- an option


class OptionText(NamedTuple):
    """An option of a component in words.

    Attributes:
        default: as YAML writes it, and what it is a share of; ``required`` if there is none.
        allowed: the values, or their kind and bounds.
        meaning: what it decides.
    """

    name: str
    default: str
    allowed: str
    meaning: str


def describe_option(declared: type[Component], option: str) -> OptionText:
    """An option of a method or of another component."""
    meaning = declared.model_fields[option].description or ""
    return OptionText(option, _default(declared, option), _allowed(declared, option), meaning)


def _default(declared: type[Component], option: str) -> str:
    if declared.model_fields[option].is_required():
        return "required"
    default = declared.defaults()[option]
    text = json.dumps(default, ensure_ascii=False)
    if share := declared.extras("share_of").get(option):
        measure, whole = share
        return f"{text} of {whole:g} {measure.replace('_', ' ')}"
    return "empty" if default == "" else text.strip('"')


def _allowed(declared: type[Component], option: str) -> str:
    field = declared.model_fields[option]
    choices = choices_of(field)
    if choices is not None:
        found = ", ".join(f"`{choice}`" for choice in choices)
    else:
        kinds = {bool: "`true`, `false`", int: "a whole number", float: "a number", str: "text"}
        bounds = " and ".join(f"{word} {bound:g}" for word, bound in limits_of(field).items())
        found = f"{kinds[type_of(field)]} {bounds}".strip()
    found = f"a list: {found}" if is_list(field) else found
    return f"{found}, or null" if is_nullable(field) else found
