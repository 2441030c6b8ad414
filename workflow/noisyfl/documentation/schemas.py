"""Make JSON schemas of the configuration's files for editors, and lists of names for the forms.

The forms are the schemas in ``workflow/schemas``: they say which keys a file has, and every start
checks the configuration against them. The values of keys (methods, components, their options) are
checked by their declarations, whose messages say more than a schema's. A schema for editors is a
form with the declarations written into it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.statistics import STATISTICS
from noisyfl.core.checked_yaml import SCHEMAS
from noisyfl.core.registry import Component, Registry
from noisyfl.core.typed import choices_of, is_list, is_nullable, limits_of, type_of
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.documentation.option_tables import COMMON, COMPONENTS, summary
from noisyfl.experiments.config import DEFAULTS, EXECUTORS
from noisyfl.figures.draw import KINDS
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

KINDS_OF_VALUES = {int: "integer", float: "number", bool: "boolean", str: "string"}

LIMITS = {
    "at least": "minimum",
    "above": "exclusiveMinimum",
    "at most": "maximum",
    "below": "exclusiveMaximum",
}


def files(root: Path) -> dict[Path, str]:
    """The generated schemas, by path: the names, and for each form one for editors."""
    folder = root / SCHEMAS.relative_to(SCHEMAS.parents[1])
    found = {folder / "names.schema.json": {"$schema": DIALECT, "$defs": names()}}
    for form in ("config", "experiment"):
        found[folder / "editor" / f"{form}.schema.json"] = for_editors(form)
    return {path: json.dumps(it, indent=1, ensure_ascii=False) + "\n" for path, it in found.items()}


def names() -> Schema:
    """The allowed values of keys whose values are names, by what the forms call them."""
    return {
        "metric": {"enum": list(METRICS)},
        "statistic": {"enum": list(STATISTICS)},
        "figure_kind": {"enum": list(KINDS)},
        "executor": {"enum": list(EXECUTORS)},
    }


def for_editors(form: str) -> Schema:
    """A form with all that is declared, as one schema that refers to no other file.

    Args:
        form: ``config`` or ``experiment``.
    """
    text = (SCHEMAS / f"{form}.schema.json").read_text()
    scales = json.loads((SCHEMAS / "config.schema.json").read_text())
    schema = json.loads(re.sub(r'"\w+\.schema\.json#', '"#', text))
    schema["$defs"] = {**schema["$defs"], **scales["$defs"], **names(), **declared()}
    if form == "config":
        _add_defaults(schema["properties"], DEFAULTS)
    return schema


def _add_defaults(properties: Schema, defaults: Mapping[str, Any]) -> None:
    for key, default in defaults.items():
        if isinstance(default, dict) and default:
            _add_defaults(properties[key]["properties"], default)
        else:
            properties[key]["default"] = default


def declared() -> Schema:
    """Schemas made from the declarations, by what the forms call them."""
    return {
        **{key: _component(registry) for key, registry in COMPONENTS.items()},
        "schedule": _options(Schedule),
        "dataset": {"enum": list(DATASETS)},
        "augmentation": {"enum": list(AUGMENTATIONS)},
        "normalization": {"enum": list(NORMALIZATIONS)},
        "method": _method(),
        "methods": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name: {**_options(one), "description": summary(name)}
                for name, one in methods().items()
            },
            # A combination has the options of its second method.
            "patternProperties": {
                rf"^\w+\+{name}$": {"$ref": f"#/$defs/methods/properties/{name}"}
                for name in methods()
            },
        },
    }


def _component(registry: Registry) -> Schema:
    """A component: a name or a name with options, as text; or a mapping, maybe without the name."""
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
    return {"anyOf": [*_named(classes, whats), {"not": {"required": ["name"]}, **changed}]}


def _method() -> Schema:
    """A method, as text or as a mapping, or two methods that are combined."""
    found = _named(methods().values(), {name: summary(name) for name in methods()})
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


def _options(declared: type[Component]) -> Schema:
    """A mapping of a component's options, none of which is required."""
    properties = {name: _option(field) for name, field in declared.model_fields.items()}
    if declared.variants:
        properties["variant"] = {"enum": list(declared.variants)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _option(option: FieldInfo) -> Schema:
    """One option: its meaning, its allowed values and its default."""
    choices = choices_of(option)
    value: Schema = (
        {"enum": list(choices)} if choices else {"type": KINDS_OF_VALUES[type_of(option)]}
    )
    value |= {LIMITS[word]: bound for word, bound in limits_of(option).items()}
    if is_list(option):
        value = {"type": "array", "minItems": 1, "items": value}
    if is_nullable(option) and "enum" in value:
        value["enum"].append(None)
    elif is_nullable(option):
        value["type"] = [value["type"], "null"]
    described: Schema = {"description": option.description, **value}
    return described if option.is_required() else {**described, "default": option.default}
