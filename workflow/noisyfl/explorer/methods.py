"""What the page says of each method: a description, its source, its options and their reasons."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from noisyfl.core.options import Option
from noisyfl.explorer.fidelity import Section, sections
from noisyfl.specs.catalogue import methods
from noisyfl.specs.sources import PACKAGE

DECLARED = ("default", "alternatives", "what it decides", "meaning")
"""Columns of the fidelity page that repeat the declarations; the others give reasons."""


def describe_methods() -> dict[str, dict[str, Any]]:
    """Every method by name, without importing torch."""
    known = sections()
    found = {}
    for name, declared in sorted(methods().items()):
        section = known.get(name, Section("", "", {}))
        path = PACKAGE / "methods" / f"{name}.py"
        found[name] = {
            "about": about(path),
            "reference": declared.reference,
            "file": path.relative_to(PACKAGE.parents[1]).as_posix(),
            "sides": [
                *(["server"] if declared.is_server else []),
                *(["client"] if declared.is_client else []),
            ],
            "revision": declared.revision,
            "variants": {key: dict(value) for key, value in declared.variants.items()},
            "fidelity": [section.heading, section.anchor] if section.heading else None,
            "options": [option_to_json(option, section) for option in declared.options],
        }
    return found


def option_to_json(option: Option, section: Section) -> dict[str, Any]:
    """An option, and what the fidelity page says of it by column header."""
    line = section.lines.get(option.name, {})
    why = {key: text for key, text in line.items() if text and key not in DECLARED}
    said = section.says_of(option.name)
    default = "required" if option.required else option.default
    if option.share_of is not None:
        default = f"{default} of {option.share_of[1]:g} {option.share_of[0]}"
    return {
        "name": option.name,
        "default": default,
        "choices": option.choices,
        "doc": option.doc,
        "why": why or ({"reason": said} if said else {}),
    }


def about(path: Path) -> str:
    """The docstring of a module without markup, except for single backticks around code."""
    text = inspect.cleandoc(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")
