"""JSON schemas of scales and experiments for editors: the models, and what components declare."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noisyfl.analysis.metrics import METRICS, OF_CLIENTS, REPORTED, Metrics
from noisyfl.analysis.summaries import STATISTICS
from noisyfl.core.artifacts import write_text
from noisyfl.core.registry import Component, Registry
from noisyfl.core.typed import Typed
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.experiments.config import Configuration
from noisyfl.experiments.experiment import Experiment
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import method_summary, methods
from noisyfl.specs.spec import REGISTRIES

Schema = dict[str, Any]

FOLDER = Path("workflow/schemas")
"""Where they go in the working folder, and what the first lines of the files in config/ name."""

FORMS: dict[str, type[Typed]] = {"config": Configuration, "experiment": Experiment}
"""What files hold, by the name of their schema."""

COMMON = ("clients", "samples")
"""Options that every partition has."""


def write_schemas() -> list[Path]:
    """Write a schema for each of :data:`FORMS`; return their paths."""
    paths = []
    for form in FORMS:
        paths.append(FOLDER / f"{form}.schema.json")
        text = json.dumps(for_editors(form), indent=1, ensure_ascii=False) + "\n"
        write_text(paths[-1], text)
    return paths


def for_editors(form: str) -> Schema:
    """A schema that refers to no other file.

    Args:
        form: a key of :data:`FORMS`.
    """
    text = json.dumps(FORMS[form].model_json_schema())
    schema = json.loads(re.sub(r'"declared": "(\w+)"', r'"$ref": "#/$defs/\1"', text))
    for value in schema["$defs"]["Setting"]["properties"].values():
        value.pop("default", None)  # what a setting lacks is taken from another setting
    schema["$defs"] |= component_schemas()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def component_schemas() -> Schema:
    """Schemas made from what components declare, by the names that the models give them."""
    return {
        **{key: _component(registry) for key, registry in REGISTRIES.items()},
        "noise_level": _component(REGISTRIES["noise_level"], {"type": "number"}),
        "metric": _metric(METRICS),
        "of_clients": _metric(OF_CLIENTS),
        "statistic": {"enum": list(STATISTICS)},
        "schedule": _options(Schedule),
        "dataset": {
            "anyOf": [
                {"enum": list(DATASETS)},
                *_named([*KINDS.values()], {kind: f"your own {kind}" for kind in KINDS}),
            ]
        },
        "augmentation": {"enum": list(AUGMENTATIONS)},
        "normalization": {"enum": list(NORMALIZATIONS)},
        "method": _method(),
        "methods": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name: {**_options(one), "description": method_summary(name)}
                for name, one in methods().items()
            },
            # A combination has the options of its second method.
            "patternProperties": {
                rf"^\w+\+{name}$": {"$ref": f"#/$defs/methods/properties/{name}"}
                for name in methods()
            },
        },
    }


def _metric(known: Metrics) -> Schema:
    """The names of metrics, and those of columns that methods report."""
    return {"anyOf": [{"enum": list(known)}, {"pattern": f"^{REPORTED.pattern}$"}]}


def _component(registry: Registry, *more: Schema) -> Schema:
    """A component: a name or a name with options, as text; or a mapping, maybe without the name;
    or in some more ways.
    """
    classes = [registry.get(name) for name in registry.names()]
    whats = {one.name: (inspect.getdoc(one) or "").split("\n")[0] for one in classes}
    anything: Schema = {}
    for one in classes:
        anything |= _options(one)["properties"]
    changed = {
        "type": "object",
        "description": "options of the component that is there",
        "additionalProperties": False,
        "properties": anything,
    }
    return {"anyOf": [*more, *_named(classes, whats), {"not": {"required": ["name"]}, **changed}]}


def _method() -> Schema:
    """A method, as text or as a mapping, or two methods that are combined."""
    found = _named(methods().values(), {name: method_summary(name) for name in methods()})
    called = rf"({'|'.join(methods())})\s*(\(.*\))?"
    found.append({"type": "string", "pattern": rf"^\s*{called}\s*\+\s*{called}\s*$"})
    parts = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"$ref": "#/$defs/method"}}
    found.append(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["parts"],
            "properties": {"name": {"type": "string"}, "parts": parts},
        }
    )
    return {"anyOf": found}


def _named(classes: Iterable[type[Component]], whats: Mapping[str, str]) -> list[Schema]:
    """Declared components in the ways they may be written, as text and as a mapping."""
    texts, mappings = [], []
    for one in classes:
        what = whats[one.name]
        needed = [
            name
            for name, field in one.model_fields.items()
            if field.is_required() and name not in COMMON
        ]
        if not needed:
            texts.append({"const": one.name, "description": what})
        called = rf"^\s*{one.name}\s*\(.*\)\s*$"
        texts.append({"type": "string", "pattern": called, "description": what})
        options = _options(one)
        mappings.append(
            {
                **options,
                "description": what,
                "required": ["name", *needed],
                "properties": {"name": {"const": one.name}, **options["properties"]},
            }
        )
    return texts + mappings


def _options(component: type[Component]) -> Schema:
    """A mapping of a component's options, none of which is required."""
    properties = component.model_json_schema().get("properties", {})
    if component.variants:
        properties["variant"] = {"enum": list(component.variants)}
    return {"type": "object", "additionalProperties": False, "properties": properties}
