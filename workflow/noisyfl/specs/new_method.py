"""Write what a new method starts from: FedAvg, with the most common hooks spelled out."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from noisyfl import __version__
from noisyfl.core.artifacts import write_text
from noisyfl.core.options import BadInput
from noisyfl.core.places import PACKAGE, ROOT
from noisyfl.specs.catalogue import methods

TEMPLATE = ROOT / "workflow" / "template"
"""A package with the method ``fedexample``; a new one has another name in all of its files."""

NAME = "fedexample"

METHOD = TEMPLATE / "src" / NAME / "method.py"


def write_new_method(name: str) -> Path:
    """Write the file of a new method of the package, and return its path.

    Raises:
        BadInput: a method cannot have that name, or there is a method or file of that name.
    """
    path = PACKAGE / "methods" / f"{name}.py"
    for taken in (path, path.with_suffix("")):  # Python finds a folder before a file
        _check_new(name, taken)
    _write(path, METHOD, name)
    return path


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a package with a new method, its entry point and a test; return the paths of its files.

    Args:
        name: what it will be called in a scale: small letters, digits and underscores.
        folder: of the package; made if it is missing.

    Raises:
        BadInput: as :func:`write_new_method`, or there is another module of that name, which Python
            would no longer find once the package is installed.
    """
    files = [path for path in sorted(TEMPLATE.rglob("*")) if path.suffix in (".py", ".toml")]
    found = {
        folder / path.relative_to(TEMPLATE).as_posix().replace(NAME, name): path for path in files
    }
    for path in found:
        _check_new(name, path)
    there = importlib.util.find_spec(name)
    if there is not None and there.origin is not None:  # a folder without modules has none
        raise BadInput(
            f"new-method: got {name!r}, which is already the name of a module "
            f"({there.origin}); expected another name"
        )
    for path, template in found.items():
        _write(path, template, name)
    return [*found]


def _check_new(name: str, path: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BadInput(
            f"new-method: got {name!r}, expected small letters, digits and underscores, such as "
            "fedexample"
        )
    if name in methods():
        raise BadInput(f"new-method: got {name!r}, and a method is called so already")
    if path.exists():
        raise BadInput(f"new-method: got {name!r}, and there is {path} already")


def _write(path: Path, template: Path, name: str) -> None:
    released = __version__.partition("+")[0]  # a requirement names no commit
    replacements = {
        "noisyfl>=0": f"noisyfl>={released}",
        f"noisyfl-{NAME}": f"noisyfl-{name.replace('_', '-')}",
        NAME: name,
        NAME.capitalize(): "".join(part.capitalize() for part in name.split("_")),
    }
    text = template.read_text()
    for word, replacement in replacements.items():
        text = text.replace(word, replacement)
    write_text(path, text)
