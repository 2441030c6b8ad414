"""What things were computed from: digests of source files."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

from noisyfl.core.places import PACKAGE, ROOT

COMPUTING = (
    "core",
    "data",
    "method.py",
    "methods",
    "models",
    "simulation",
    "specs/build.py",
    "runs/gpu.py",
    "runs/processor.py",
    "runs/train.py",
)
"""What computes a run: subpackages and modules of the package."""

DIGESTS = PACKAGE / "methods" / "digests.json"
"""The digests of the methods' code, as they were when it was last confirmed (``make digests``)."""

PAGE_SUBPACKAGES = ("analysis", "claims", "explorer", "figures", "pages", "specs")
"""The subpackages that make pages and figures, and what these say of specs."""

PAGE_SUFFIXES = (".css", ".jinja", ".js", ".py")
"""The file name endings of what makes pages and figures."""

MESSAGE_MODULES = (
    *("core/checked_yaml.py", "core/code.py", "core/command_line.py", "core/log.py"),
    *("core/places.py", "core/script.py", "core/text.py", "core/tracked.py"),
)
"""Modules in these subpackages that read configurations, write logs and CSV or say where files lie,
and compute nothing."""


@functools.cache
def source_digest() -> str:
    """SHA-256 of the sources that compute runs, which a run's provenance records.

    Sources that plan, start or report runs are not part of it.
    """
    return _digest(computing_sources())


@functools.cache
def shared_digest() -> str:
    """As :func:`source_digest`, without the methods: of what runs of all methods have in common."""
    shared = computing_sources().items()
    return _digest({name: path for name, path in shared if not name.startswith("methods/")})


@functools.cache
def digest_of(*parts: str) -> str:
    """SHA-256 of the sources in parts of this package, each a subpackage or a module."""
    return _digest(_sources(*parts))


def printing_digest() -> str:
    """SHA-256 of the sources of pages and figures: their code, templates, styles and scripts."""
    folders = {name: PACKAGE / name for name in PAGE_SUBPACKAGES}
    folders["report"] = ROOT / "workflow" / "report"
    return _digest(
        {
            f"{name}/{path.relative_to(folder).as_posix()}": path
            for name, folder in folders.items()
            for path in folder.rglob("*")
            if path.suffix in PAGE_SUFFIXES
        }
    )


def computing_sources() -> dict[str, Path]:
    """The files of :data:`COMPUTING` but :data:`MESSAGE_MODULES`, by path within the package."""
    found = _sources(*COMPUTING)
    return {name: path for name, path in found.items() if name not in MESSAGE_MODULES}


def _sources(*parts: str) -> dict[str, Path]:
    """The Python sources in parts (subpackages or modules) of the package, by path within it."""
    found = (
        path
        for name in parts
        for path in ([PACKAGE / name] if name.endswith(".py") else (PACKAGE / name).rglob("*.py"))
    )
    return {path.relative_to(PACKAGE).as_posix(): path for path in found}


def _digest(sources: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        digest.update(f"{name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
