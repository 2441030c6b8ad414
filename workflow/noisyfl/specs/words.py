"""Settings and options in words. Pages need these, and no method and no torch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from noisyfl.core.registry import Component
from noisyfl.core.typed import choices_of, is_list, is_nullable, limits_of, type_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.titles import title_of
from noisyfl.simulation.schedule import Schedule

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
    shown = [title] if title else []
    shown += [
        f"{key}={value}"
        for key, value in raw.items()
        if key in known and key not in ABOUT and not (key in defaults and defaults[key] == value)
    ]
    return raw["name"] + (f"({', '.join(shown)})" if shown else "")


# ---------------------------------------------------------------- a setting


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
        changed: the options to mark (:func:`noisyfl.specs.run_words.changed_options`).
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
        if name in spec["schedule"]
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
