"""What every method declares, known without importing torch.

Naming a run takes its method's options, defaults and revision. They are read off the classes, and
those need torch, which takes seconds to import: too long for a Snakefile that every job of a
cluster parses anew. So what was read is kept beside the package's bytecode, under the digest of
the sources it was read from.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from noisyfl.artifacts import write_json
from noisyfl.options import Declaration, Option, find, split_component

PACKAGE = Path(__file__).parent


@functools.cache
def source_digest() -> str:
    """SHA-256 of the package's sources, as a run's provenance records it."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def methods() -> dict[str, Declaration]:
    """The declaration of every method, by name."""
    kept = PACKAGE / "__pycache__" / f"methods-{source_digest()[:16]}.json"
    with suppress(OSError, json.JSONDecodeError, KeyError, TypeError):
        return {name: _restore(item) for name, item in json.loads(kept.read_text()).items()}
    from noisyfl.methods import METHODS

    found = METHODS.declarations()
    with suppress(OSError):  # a read-only installation reads the classes every time
        for stale in kept.parent.glob("methods-*.json"):
            stale.unlink()
        write_json(kept, {name: dataclasses.asdict(item) for name, item in found.items()})
    return found


def _restore(item: dict[str, Any]) -> Declaration:
    options = tuple(
        Option(**{**option, "choices": option["choices"] and tuple(option["choices"])})
        for option in item.pop("options")
    )
    return Declaration(options=options, **item)


def canonical_method(given: str | Mapping[str, Any], where: str) -> dict[str, Any]:
    """A method with its revision and every default filled in.

    Raises:
        BadInput: unknown method, variant or option, or a value out of range.
    """
    name, options = split_component(given, "method", where)
    declaration = find(methods(), name, "method", where)
    canonical = declaration.canonical(options, f"{where}.{name}")
    return {**canonical, "revision": declaration.facts["revision"]}
