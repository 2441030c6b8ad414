"""What the page says of each method: a description, its source, its options and their reasons."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from noisyfl.core.code import source_file
from noisyfl.core.plugins import plugin_of
from noisyfl.pages.markdown import from_docstring
from noisyfl.pages.reasons import method_reasons
from noisyfl.specs.catalogue import is_bound, methods
from noisyfl.specs.words import describe_option


def describe_methods() -> dict[str, dict[str, Any]]:
    """Every method by name."""
    known = method_reasons()
    found = {}
    for name, declared in sorted(methods().items()):
        reasons = known.get(name)
        path = source_file(declared.__module__)
        plugin = plugin_of(declared.__module__)
        found[name] = {
            "about": about(path) if path else "",
            "reference": declared.reference,
            "file": f"workflow/noisyfl/methods/{name}.py" if plugin is None else str(plugin),
            "sides": [
                *(["server"] if declared.is_server else []),
                *(["client"] if declared.is_client else []),
            ],
            "revision": declared.revision,
            "bound": is_bound(name),
            "variants": {key: dict(value) for key, value in declared.variants.items()},
            "title": reasons.title if reasons else None,
            "options": [
                {
                    **describe_option(declared, option)._asdict(),
                    "why": reasons.of_option(option) if reasons else {},
                }
                for option in declared.model_fields
            ],
        }
    return found


def about(path: Path) -> str:
    """The docstring of a module without markup, except for single backticks around code."""
    return from_docstring(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
