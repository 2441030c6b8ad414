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

from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.statistics import STATISTICS
from noisyfl.core.checked_yaml import SCHEMAS
from noisyfl.core.options import Declaration, Option
from noisyfl.core.registry import Registry
from noisyfl.data.augmentation.augment import AUGMENTATIONS, NORMALIZATIONS
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.documentation.option_tables import COMMON, COMPONENTS, declared_methods, summary
from noisyfl.experiments.config import DEFAULTS, EXECUTORS
from noisyfl.figures.draw import KINDS
from noisyfl.simulation.schedule import SCHEDULES

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

KINDS_OF_VALUES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}

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
    methods = declared_methods()
    return {
        **{key: _component(registry) for key, registry in COMPONENTS.items()},
        "schedule": _options(SCHEDULES.declarations()["schedule"]),
        "dataset": {"enum": list(DATASETS)},
        "augmentation": {"enum": list(AUGMENTATIONS)},
        "normalization": {"enum": list(NORMALIZATIONS)},
        "method": _method(methods),
        "methods": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name: {**_options(one), "description": summary(name)}
                for name, one in methods.items()
            },
            # A combination has the options of its second method.
            "patternProperties": {
                rf"^\w+\+{name}$": {"$ref": f"#/$defs/methods/properties/{name}"}
                for name in methods
            },
        },
    }


def _component(registry: Registry) -> Schema:
    """A component: a name or a name with options, as text; or a mapping, maybe without the name."""
    declarations = registry.declarations()
    whats = {
        name: (inspect.getdoc(registry.get(name, "schema")) or "").split("\n")[0]
        for name in declarations
    }
    anything: Schema = {}
    for one in declarations.values():
        anything |= _options(one)["properties"]
    changed = {
        "type": "object",
        "description": "options of the component that is there",
        "additionalProperties": False,
        "properties": anything,
    }
    return {
        "anyOf": [*_named(declarations.values(), whats), {"not": {"required": ["name"]}, **changed}]
    }


def _method(methods: Mapping[str, Declaration]) -> Schema:
    """A method, as text or as a mapping, or two methods that are combined."""
    found = _named(methods.values(), {name: summary(name) for name in methods})
    called = rf"({'|'.join(methods)})\s*(\(.*\))?"
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


def _named(declarations: Iterable[Declaration], whats: Mapping[str, str]) -> list[Schema]:
    """Declared components in the ways they may be written, as text and as a mapping."""
    texts, mappings = [], []
    for one in declarations:
        what = whats[one.name]
        needed = [o.name for o in one.options if o.required and o.name not in COMMON]
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


def _options(declared: Declaration) -> Schema:
    """A mapping of a component's options, none of which is required."""
    properties = {option.name: _option(option) for option in declared.options}
    if declared.variants:
        properties["variant"] = {"enum": list(declared.variants)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _option(option: Option) -> Schema:
    """One option: its meaning, its allowed values and its default."""
    value: Schema = {"type": KINDS_OF_VALUES[option.kind]}
    value |= {LIMITS[word]: bound for word, bound in option.limits.items()}
    if option.choices is not None:
        value = {"enum": list(option.choices)}
    if option.many:
        value = {"type": "array", "minItems": 1, "items": value}
    if option.nullable and "enum" in value:
        value["enum"].append(None)
    elif option.nullable:
        value["type"] = [value["type"], "null"]
    described: Schema = {"description": option.doc, **value}
    return described if option.required else {**described, "default": option.default}
