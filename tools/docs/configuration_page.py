"""A reference of the configuration's keys, from the JSON schemas for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from markdown_table import table
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.experiments.editor_schemas import Schema, for_editors

SETTING = "Setting"
"""The model whose table is shown once, not wherever it is used."""

FORMS = {
    "config": ("A scale", "config/*.yaml"),
    "experiment": ("An experiment", "config/papers/*.yaml"),
}


def pages() -> dict[str, str]:
    """The reference page, by its name in the site."""
    lines = ["# Every key of the configuration", ""]
    lines += [
        "Which keys does each file have, and what do they mean?",
        "",
        "This page follows the schemas in `workflow/schemas/`. [Configuration](configuration.md)",
        "explains the keys with examples; [Methods](methods/index.md) has the options of methods.",
    ]
    for form, (title, files) in FORMS.items():
        schema = for_editors(form)
        lines += ["", f"## {title}: `{files}`", "", *_table(schema, schema["$defs"])]
    setting = for_editors("config")
    lines += ["", "## A setting", "", *_table(setting["$defs"][SETTING], setting["$defs"])]
    for key in ("schedule", "partition", "label_noise", "noise_level", "model"):
        lines += ["", f"## `{key}`", ""]
        one = setting["$defs"][key]
        if "properties" in one:
            lines += _table(one, setting["$defs"])
            continue
        for choice in one["anyOf"]:
            properties = choice.get("properties", {})
            if "name" not in properties:
                continue
            lines += ["", f"### {key}: `{properties['name']['const']}`", "", choice["description"]]
            own = {k: v for k, v in properties.items() if k != "name"}
            if own:
                lines += ["", *_table({**choice, "properties": own}, setting["$defs"])]
    for name, kind in KINDS.items():
        what = f"The options of a dataset of your own, `{name}(...)`."
        lines += ["", f"## `{name}`", "", what, ""]
        lines += _table(kind.model_json_schema(), {})
    return {"configuration-reference.md": "\n".join(lines) + "\n"}


def _table(schema: Schema, definitions: Schema) -> list[str]:
    return table(("key", "is", "default", "meaning"), _rows(schema, definitions, ""))


def _rows(schema: Schema, definitions: Schema, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """A row of the table for each key of a mapping and of the mappings in it."""
    for key, value in schema.get("properties", {}).items():
        if not value:
            continue
        required = key in schema.get("required", ())
        default = json.dumps(value["default"]) if "default" in value else ""
        meaning = value.get("description", "").replace("<", "&lt;")
        name = f"{prefix}{key}"
        yield f"`{name}`", _kind(value, definitions), "required" if required else default, meaning
        value = _resolved(value, definitions)
        yield from _rows(value, definitions, f"{name}.")
        if isinstance(inner := value.get("additionalProperties"), dict):
            yield from _rows(_resolved(inner, definitions), definitions, f"{name}.*.")


def _resolved(value: Schema, definitions: Schema) -> Schema:
    """A model's schema for a reference to one, what several have in common for a choice of them,
    anything else as it is.
    """
    if "discriminator" in value:
        models = [_resolved(one, definitions) for one in value["oneOf"]]
        keys = set.intersection(*(set(model["properties"]) for model in models))
        common = {key: one for key, one in models[0]["properties"].items() if key in keys}
        kind = {"enum": list(value["discriminator"]["mapping"])}
        return {**models[0], "properties": common | {value["discriminator"]["propertyName"]: kind}}
    name = str(value.get("$ref", "")).rpartition("/")[2]
    return definitions[name] if name[:1].isupper() and name != SETTING else value


def _kind(value: Schema, definitions: Schema) -> str:
    """What a value is, in a few words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        known = definitions.get(name, {})
        if "enum" in known:
            return _kind(known, definitions)
        if name == SETTING:
            return "setting"
        return "object" if name[:1].isupper() else name.replace("_", " ")
    if "enum" in value:
        return ", ".join(f"`{json.dumps(one)}`".replace('"', "") for one in value["enum"])
    if "discriminator" in value:
        return "object"
    if several := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(_kind(one, definitions) for one in several)
    kinds = value.get("type", "any value")
    words = " or ".join(kinds) if isinstance(kinds, list) else kinds
    inner: Any = value.get("items")
    if words == "array" and isinstance(inner, dict):
        return f"list of: {_kind(inner, definitions)}"
    inner = value.get("additionalProperties")
    if words == "object" and isinstance(inner, dict):
        return f"by name: {_kind(inner, definitions)}"
    return words
