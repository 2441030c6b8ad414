"""What things were computed from: digests of source files."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

COMPUTING = (
    "core",
    "data",
    "methods",
    "models",
    "simulation",
    "specs/build.py",
    "runs/gpu.py",
    "runs/processor.py",
    "runs/train.py",
)
"""What computes a run: subpackages and modules of the package."""

PRINTING_ROOMS = ("analysis", "claims", "explorer", "figures", "pages")
"""The subpackages that make pages and figures."""

PRINTING = (".css", ".jinja", ".js", ".py")
"""The file name endings of what makes pages and figures."""

TELLING = (
    *("core/checked_yaml.py", "core/command_line.py", "core/log.py", "core/script.py"),
    *("core/spreadsheet.py", "core/text.py"),
)
"""Modules in these subpackages that read configurations or write logs and CSV, and compute
nothing."""


@dataclass(frozen=True)
class MethodSource:
    """What a method or a combination is made of.

    Attributes:
        digest: see :func:`method_digest`.
        files: the names of its parts' files.
    """

    digest: str
    files: tuple[str, ...]


@functools.cache
def source_digest(package: Path = PACKAGE) -> str:
    """SHA-256 of the sources that compute a run, which its checkpoint and its provenance record.

    Sources that plan, start or report runs are not part of it.
    """
    return _digest(computing_sources(package))


@functools.cache
def digest_of(*parts: str) -> str:
    """SHA-256 of the sources in parts of this package, each a subpackage or a module."""
    return _digest(_sources(PACKAGE, *parts))


def printing_digest() -> str:
    """SHA-256 of the sources of pages and figures: their code, templates, styles and scripts."""
    folders = *(PACKAGE / room for room in PRINTING_ROOMS), PACKAGE.parent / "report"
    files = (path for folder in folders for path in folder.rglob("*") if path.suffix in PRINTING)
    return _digest({path.relative_to(PACKAGE.parent).as_posix(): path for path in files})


def computing_sources(package: Path) -> dict[str, Path]:
    """The files of :data:`COMPUTING` without :data:`TELLING`, by path within the package."""
    found = _sources(package, *COMPUTING)
    return {name: path for name, path in found.items() if name not in TELLING}


def _sources(package: Path, *parts: str) -> dict[str, Path]:
    """The Python sources in parts (subpackages or modules) of the package, by path within it."""
    found = (
        path
        for name in parts
        for path in ([package / name] if name.endswith(".py") else (package / name).rglob("*.py"))
    )
    return {path.relative_to(package).as_posix(): path for path in found}


def _digest(sources: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        digest.update(f"{name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def method_digest(*modules: str) -> str:
    """SHA-256 of what methods are made of: the code of their modules, and of all modules among the
    methods that these import, but for comments, docstrings and layout.

    Args:
        modules: by name, ``noisyfl.methods.fedavg``.
    """
    digest = hashlib.sha256()
    for name, tree in sorted(_imported(modules).items()):
        digest.update(f"{name}\n{ast.unparse(_without_docstrings(tree))}\n".encode())
    return digest.hexdigest()


def method_file(module: str) -> Path:
    """The source file of a module of methods."""
    return PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")


def _imported(modules: tuple[str, ...]) -> dict[str, ast.Module]:
    """The syntax trees of modules and of the methods' modules that they import, by name."""
    found: dict[str, ast.Module] = {}
    wanted = [*modules]
    while wanted:
        name = wanted.pop()
        if name in found or not method_file(name).exists():
            continue
        found[name] = ast.parse(method_file(name).read_text())
        for node in ast.walk(found[name]):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            wanted += [name for name in names if name.startswith(f"{PACKAGE.name}.methods.")]
    return found


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest or [ast.Pass()]
    return tree
