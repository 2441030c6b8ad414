"""A step of a method: the outputs of its official code and of ours for the same inputs."""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

Values = dict[str, Any]
"""Arrays, numbers and lists of them, by name."""


class Step(ABC):
    """One step of a method, in the official code and in ours.

    Attributes:
        method: the name in this project of the method, or of the network, noise or partition.
        what: the step in a few words.
        file: the path in the repository of the file with the official code.
        function: its name in the file; ``Class.method`` for a method, empty for lines of a script.
        lines: first and last line, where there is no function.
        tolerance: the largest difference that is allowed, see :meth:`difference`.
        seed: of the random generator that the inputs are drawn from.
    """

    method: ClassVar[str]
    what: ClassVar[str]
    file: ClassVar[str]
    function: ClassVar[str] = ""
    lines: ClassVar[tuple[int, int]] = (0, 0)
    tolerance: ClassVar[float] = 1e-5
    seed: ClassVar[int] = 1

    @abstractmethod
    def inputs(self, rng: np.random.RandomState) -> Values:
        """The inputs of both sides. Draws come from ``RandomState``, numpy's frozen generator."""

    @abstractmethod
    def official(self, code: Code, given: Values) -> Values:
        """The outputs of the official code for these inputs."""

    @abstractmethod
    def ours(self, given: Values) -> Values:
        """The outputs of our code for these inputs, under the same names."""

    @property
    def name(self) -> str:
        """The step's name, which is that of its class."""
        return type(self).__name__

    def difference(self, ours: Values, official: Values) -> float:
        """The largest difference of any number, relative to the largest number of its array.

        Raises:
            ValueError: the two sides do not have the same names or shapes.
        """
        if ours.keys() != official.keys():
            raise ValueError(f"{self.name}: got {sorted(ours)}, recorded {sorted(official)}")
        return max(relative(ours[name], official[name], name) for name in official)


def relative(ours: Any, official: Any, name: str) -> float:
    """The largest absolute difference, divided by the largest absolute value that is recorded.

    Raises:
        ValueError: the shapes differ.
    """
    if isinstance(official, Mapping):
        return max(relative(ours[key], official[key], f"{name}.{key}") for key in official)
    one, other = np.asarray(ours, dtype=float), np.asarray(official, dtype=float)
    if one.shape != other.shape:
        raise ValueError(f"{name}: got shape {one.shape}, recorded {other.shape}")
    if not one.size or np.array_equal(one, other, equal_nan=True):
        return 0.0
    apart = float(np.abs(one - other).max())
    return apart / max(float(np.abs(other).max()), 1e-12)


class Code:
    """A checkout of official code, and ways to import or run parts of it.

    Args:
        folder: the path of the checkout.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, name: str, below: str = "") -> Any:
        """Import a module of the checkout.

        Args:
            name: the module's dotted name.
            below: the folder in the checkout that the module's imports start from.
        """
        place = str(self.folder / below)
        if place not in sys.path:
            sys.path.insert(0, place)
        return importlib.import_module(name)

    def definitions(self, file: str, names: list[str], **known: Any) -> Any:
        """Functions and classes of a script, for scripts whose import would run everything in them.

        Args:
            file: path of the script in the checkout.
            names: of the functions and classes.
            known: the global names that they refer to.
        """
        source = (self.folder / file).read_text()
        nodes: list[ast.stmt] = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names
        ]
        space = dict(known)
        exec(compile(ast.Module(nodes, []), file, "exec"), space)
        return type("Definitions", (), {name: staticmethod(space[name]) for name in names})

    def block(self, file: str, lines: tuple[int, int], /, **known: Any) -> dict[str, Any]:
        """Run some lines of a script.

        Args:
            file: path of the script in the checkout.
            lines: first and last.
            known: the variables that the lines read.

        Returns:
            All variables afterwards.
        """
        source = (self.folder / file).read_text().splitlines()[lines[0] - 1 : lines[1]]
        space = dict(known)
        exec(compile(textwrap.dedent("\n".join(source)), file, "exec"), space)
        return space

    def lines(self, file: str, function: str) -> tuple[int, int]:
        """The first and the last line of a function."""
        body: list[ast.stmt] = ast.parse((self.folder / file).read_text()).body
        found: Any = None
        for part in function.split("."):
            nodes = (n for node in body for n in ast.walk(node))
            found = next(
                n for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part
            )
            body = found.body
        return found.lineno, found.end_lineno


def packed(value: Any) -> Any:
    """A value in a form that JSON can store; float32 with just enough digits to identify it."""
    if isinstance(value, Mapping):
        return {str(key): packed(part) for key, part in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            return [packed(part) for part in value] if value.ndim else float(str(value))
        return value.tolist()
    if isinstance(value, np.float32):
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [packed(part) for part in value]
    return value
