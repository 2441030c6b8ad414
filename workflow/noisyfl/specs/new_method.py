"""Write what a new method starts from: FedAvg, with the most common hooks spelled out."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from noisyfl import __version__
from noisyfl.core.artifacts import replacing
from noisyfl.core.options import BadInput
from noisyfl.core.places import PACKAGE
from noisyfl.specs.catalogue import methods

TEMPLATE = '''"""{title}: what it does, in one line.

It trains as FedAvg. Change the hooks that the method is about, and delete the others: a hook that
is not here is FedAvg's, and a method without a server side, or without a client side, names the
other base class alone. docs/add-a-method.md has all hooks, and what they are given.
"""

from __future__ import annotations

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("{name}")
class {title}(fl.ServerSide, fl.ClientSide):
    """What it minimises, and how models are combined, with the paper's equation numbers."""

    reference = "authors, title, venue and year"
    revision = 0  # while it is being written, so that every edit makes new runs; then 1

    strength: float = fl.option(
        1.0, doc="an option of the method; this one does nothing", at_least=0
    )

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """What the participants find out before they train, by passes."""

    def memory(self, client: fl.Client, federation: fl.Federation) -> fl.Memory:
        """Tensors that the loss reads and writes, by name."""
        return super().memory(client, federation)

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """The samples of each step, their targets, and what else the loss needs of a step."""
        return super().epoch(client, turn)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """What a step descends on; a loss of logits and labels alone overrides ``losses``."""
        return super().loss(model, batch)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """What the participants keep of their local updates."""

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The next global model."""
        return super().aggregate(updates, federation)

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """What is estimated, corrected and reported once the new global model stands."""
'''


PACKAGE_FILES = {
    "pyproject.toml": """# Into the environment that has noisyfl:
#
#   pip install --no-deps --editable .
#   noisyfl check-method {name}
#   pytest
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
description = "{title}, a method for noisyfl"
requires-python = ">=3.11"
dependencies = ["noisyfl>={version}"]

# noisyfl imports this module, and finds there what is registered under this name. Models, datasets,
# partitions, label noises and noise levels have groups of their own.
[project.entry-points."noisyfl.methods"]
{name} = "{name}.method"

[tool.setuptools.packages.find]
where = ["src"]
""",
    "src/{name}/__init__.py": '''"""{title}, a method for noisyfl."""
''',
    "src/{name}/method.py": TEMPLATE,
    "tests/test_{name}.py": '''"""What every method has to do, and that it learns."""

import pytest

from noisyfl.checks.method import CHECKS
from noisyfl.checks.small_run import prepare_digits, spec_of, train_small
from noisyfl.core.artifacts import read_table
from noisyfl.core.plugins import load

METHOD = {{"name": "{name}"}}

load([])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_digits(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_method_has_to_do(check, data, tmp_path):
    CHECKS[check](METHOD, data, tmp_path)


def test_it_learns(data, tmp_path):
    rounds = read_table(train_small(spec_of(METHOD), data, tmp_path).rounds)[0].to_pylist()
    assert rounds[-1]["test_accuracy"] > rounds[0]["test_accuracy"] + 0.1
''',
}
"""What is in the package of a method, by path."""


def write_new_method(name: str, folder: Path = PACKAGE / "methods") -> Path:
    """Write the file of a new method, and return its path.

    Raises:
        BadInput: a method cannot have that name, or there is a method or file of that name.
    """
    path = folder / f"{name}.py"
    for taken in (path, path.with_suffix("")):  # Python finds a folder before a file
        _check_new(name, taken)
    _write(path, TEMPLATE, name)
    return path


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a package with a new method, its entry point and a test; return the paths of its files.

    Args:
        name: what it will be called in a scale: small letters, digits and underscores.
        folder: of the package; made if it is missing.

    Raises:
        BadInput: a method cannot have that name; or there is a method of that name, or one of the
            files, or another module that Python would no longer find once the package is installed.
    """
    found = {folder / path.format(name=name): text for path, text in PACKAGE_FILES.items()}
    for path in found:
        _check_new(name, path)
    there = importlib.util.find_spec(name)
    if there is not None and there.origin is not None:  # a mere folder of that name has none
        raise BadInput(
            f"new-method: got {name!r}, expected the name of no module that Python can import "
            f"already, and there is {there.origin}"
        )
    for path, text in found.items():
        _write(path, text, name)
    return [*found]


def _check_new(name: str, path: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BadInput(
            f"new-method: got {name!r}, expected small letters, digits and underscores, such as "
            "fedexample"
        )
    if name in methods() or path.exists():
        raise BadInput(
            f"new-method: there is a method, file or folder called {name!r} already: {path}"
        )


def _write(path: Path, text: str, name: str) -> None:
    title = "".join(part.capitalize() for part in name.split("_"))
    package = f"noisyfl-{name.replace('_', '-')}"
    released = __version__.partition("+")[0]  # a requirement names no commit
    with replacing(path) as draft:
        draft.write_text(text.format(name=name, title=title, package=package, version=released))
