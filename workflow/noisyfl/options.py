"""Named components with checked options.

Every partition, label noise, noise level, model and method is a frozen dataclass in a
:class:`Registry`. What a user writes for one, ``dirichlet(alpha=0.5, clients=100)`` or the same as
a mapping, is checked here once, and becomes a plain mapping with every default filled in. That
mapping is what a run is named by.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class BadInput(ValueError):
    """Something the user wrote is wrong. The message says where, what, and what was expected."""


def option(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] | None = None,
) -> Any:
    """Declare a dataclass field as an option: its default, its meaning and its allowed values.

    Bounds hold for each element of a sequence. Without a ``default`` the option is required.
    """
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    metadata = {
        "doc": doc,
        "limits": {word: bound for word, bound in limits.items() if bound is not None},
        "choices": None if choices is None else tuple(choices),
    }
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if a known word is close, else an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def parse_component(text: str, where: str) -> dict[str, Any]:
    """Read ``name`` or ``name(key=value, ...)`` with literal values into a mapping.

    Raises:
        BadInput: if the text is neither, or a value is not a literal.
    """
    expected = "expected name or name(key=value, ...), such as dirichlet(alpha=0.5, clients=100)"
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Name):
            return {"name": node.id}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            options = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            return {"name": node.func.id, **options}
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{where}: cannot read {text!r}; {expected}") from error
    raise BadInput(f"{where}: cannot read {text!r}; {expected}")


class Registry:
    """Components of one kind by name.

    Args:
        kind: what they are, in the words of the error messages ("partition").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator: make the class a frozen dataclass and know it by ``name``."""

        def add(cls: type[T]) -> type[T]:
            if name in self._classes:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            component = dataclasses.dataclass(frozen=True)(cls)
            component.name = name  # type: ignore[attr-defined]
            self._classes[name] = component
            return component

        return add

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._classes)

    def get(self, name: str, where: str) -> type:
        """The class registered as ``name``; :class:`BadInput` if there is none."""
        if name not in self._classes:
            known = ", ".join(self.names())
            hint = did_you_mean(name, self._classes)
            raise BadInput(f"{where}: no {self.kind} is called {name!r}{hint} (known: {known})")
        return self._classes[name]

    def build(self, given: str | Mapping[str, Any], where: str) -> Any:
        """The checked component that ``given`` (text or mapping) describes.

        Raises:
            BadInput: unknown name or key, missing option, wrong type, or value out of range.
        """
        mapping = parse_component(given, where) if isinstance(given, str) else dict(given)
        name = mapping.pop("name", None)
        if not isinstance(name, str):
            raise BadInput(f"{where}: a {self.kind} needs a name, got {given!r}")
        cls = self.get(name, where)
        return cls(**check_options(cls, mapping, f"{where}.{name}"))

    def canonical(self, given: str | Mapping[str, Any], where: str) -> dict[str, Any]:
        """``{"name": ..., option: value, ...}`` with every default filled in."""
        return describe(self.build(given, where))


def describe(component: Any) -> dict[str, Any]:
    """The canonical mapping of a component: its name and all of its options, as plain values."""
    options = {field.name: getattr(component, field.name) for field in option_fields(component)}
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in options.items()}
    return {"name": component.name, **plain}


def option_fields(component: Any) -> list[dataclasses.Field]:
    """The fields of a component (or its class) that were declared with :func:`option`."""
    return [field for field in dataclasses.fields(component) if "doc" in field.metadata]


def check_options(cls: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options of ``cls`` as given, converted to their declared types.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    fields = {field.name: field for field in option_fields(cls)}
    hints = typing.get_type_hints(cls)
    for key in given:
        if key not in fields:
            known = ", ".join(fields) or "none"
            hint = did_you_mean(key, fields)
            raise BadInput(f"{where}: unknown option {key!r}{hint} (known: {known})")
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in given:
            raise BadInput(f"{where}: option {key!r} is missing ({field.metadata['doc']})")
    return {
        key: check_value(value, hints[key], fields[key].metadata, f"{where}.{key}")
        for key, value in given.items()
    }


def check_value(value: Any, kind: Any, metadata: Mapping[str, Any], where: str) -> Any:
    """``value`` converted to ``kind`` (int, float, bool, str, ``tuple[...]``, ``X | None``)."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list | tuple) or not value:
            raise BadInput(f"{where}: got {value!r}, expected a list of values")
        element = typing.get_args(kind)[0]
        return tuple(
            check_value(item, element, metadata, f"{where}[{i}]") for i, item in enumerate(value)
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        int: number and float(value).is_integer(),
        float: number,
        bool: isinstance(value, bool),
        str: isinstance(value, str),
    }[kind]
    if not fits:
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise BadInput(f"{where}: got {value!r}, expected {words[kind]}")
    value = kind(value)
    choices = metadata["choices"]
    if choices is not None and value not in choices:
        listed = ", ".join(map(repr, choices))
        raise BadInput(f"{where}: got {value!r}, expected one of {listed}")
    holds = {
        "at least": lambda bound: value >= bound,
        "above": lambda bound: value > bound,
        "at most": lambda bound: value <= bound,
        "below": lambda bound: value < bound,
    }
    limits = metadata["limits"]
    # A NaN fails every comparison, and so is refused wherever there is a limit.
    if not all(holds[word](bound) for word, bound in limits.items()):
        wanted = " and ".join(f"{word} {bound}" for word, bound in limits.items())
        raise BadInput(f"{where}: got {value!r}, expected {wanted}")
    return value
