"""Named components with checked options.

Every partition, label noise, noise level, model and method is a frozen dataclass in a
:class:`Registry`. What a user writes for one, ``dirichlet(alpha=0.5, clients=100)`` or the same as
a mapping, is checked here once, and becomes a plain mapping with every default filled in. From
such mappings the id of a run is made.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from noisyfl.core.options import BadInput, Declaration, declare, find

T = TypeVar("T")

LONGEST = 2_000
"""Most characters of a component that is given as text."""

UNREADABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What Python's parser may raise; deep nesting in a text exhausts its stack or its memory."""


@functools.lru_cache
def _expression(text: str) -> ast.expr:
    """The syntax tree of a text; cached, since a scale has few texts, thousands of times each."""
    return ast.parse(text, mode="eval").body


YAML_WORDS = {"true": True, "false": False, "null": None}
"""YAML's words for constants, which are accepted beside Python's own."""


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in YAML_WORDS:
        return YAML_WORDS[node.id]
    return ast.literal_eval(node)


def parse_component(text: str, where: str) -> dict[str, Any]:
    """Read ``name`` or ``name(key=value, ...)`` with literal values into a mapping.

    Raises:
        BadInput: if the text is neither, or a value is not a literal.
    """
    expected = "expected name or name(key=value, ...), such as dirichlet(alpha=0.5, clients=100)"
    if len(text) > LONGEST:
        raise BadInput(f"{where}: got {len(text):,} characters, {expected}")
    try:
        match _expression(text):
            case ast.Name(id=name):
                return {"name": name}
            case ast.Call(ast.Name(id=name), [], words) if all(word.arg for word in words):
                options = [(str(word.arg), _literal(word.value)) for word in words]
            case _:
                raise ValueError("it is neither")
    except UNREADABLE as error:
        raise BadInput(f"{where}: cannot read {text!r}; {expected}") from error
    keys = [key for key, _ in options]
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(f"{where}: cannot read {text!r}: {key!r} stands twice, expected it once")
    return {"name": name, **dict(options)}


def split_sum(text: str) -> list[str]:
    """The components of ``one(key=value)+another``, as texts; a text without a plus is one."""
    parts: list[str] = []
    try:
        node = _expression(text[: LONGEST + 1])
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts.insert(0, ast.unparse(node.right))
            node = node.left
        return [ast.unparse(node), *parts] if parts else [text]
    except UNREADABLE:
        return [text]


def split_component(
    given: str | Mapping[str, Any], kind: str, where: str
) -> tuple[str, dict[str, Any]]:
    """The name and the options of a component given as text or as a mapping.

    Args:
        given: ``name(key=value)``, or a mapping with a ``name``.
        kind: of the component.
        where: what the error messages call it.
    """
    mapping = parse_component(given, where) if isinstance(given, str) else given
    if not isinstance(mapping, Mapping) or not isinstance(mapping.get("name"), str):
        raise BadInput(f"{where}: got {given!r}, expected the name of a {kind}")
    return mapping["name"], {key: value for key, value in mapping.items() if key != "name"}


class Registry:
    """Components of one kind by name.

    Args:
        kind: what they are, in the words of the error messages ("partition").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type] = {}
        self._checked: dict[str, dict[str, Any]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator: make the class a frozen dataclass and register it as ``name``."""

        def add(cls: type[T]) -> type[T]:
            if name in self._classes:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            component = dataclasses.dataclass(frozen=True)(cls)
            component.name = name  # type: ignore[attr-defined]
            self._classes[name] = component
            return component

        return add

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._classes)

    def get(self, name: str, where: str) -> type:
        """The class registered as ``name``; :class:`BadInput` if there is none."""
        return find(self._classes, name, self.kind, where)

    def build(self, given: str | Mapping[str, Any], where: str) -> Any:
        """The checked component that ``given`` (text or mapping) describes.

        Raises:
            BadInput: unknown name or key, missing option, wrong type, or value out of range.
        """
        canonical = self.canonical(given, where)
        cls = self._classes[canonical.pop("name")]
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in canonical.items()})

    def canonical(self, given: str | Mapping[str, Any], where: str) -> dict[str, Any]:
        """``{"name": ..., option: value, ...}`` with every default filled in.

        Results are cached, since a scale names few components, thousands of times each.
        """
        key = repr(given)
        if key not in self._checked:
            name, options = split_component(given, self.kind, where)
            checked = declare(self.get(name, where)).canonical(options, f"{where}.{name}")
            self._checked[key] = checked
        known = self._checked[key]
        return {k: [*v] if isinstance(v, list) else v for k, v in known.items()}

    def declarations(self) -> dict[str, Declaration]:
        """What every component of this kind declares, by name."""
        return {name: declare(self._classes[name]) for name in self.names()}
