"""Checked options: what a component declares, and what a user gives for it."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import math
import operator
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


LARGEST = 2**63
"""Whole numbers must be smaller in absolute value, so that they fit into arrays of int64."""


class BadInput(ValueError):
    """Something the user wrote is wrong. The message says where, what, and what was expected."""


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn whatever fails while something of the user's is read into a :class:`BadInput`.

    Args:
        where: what the message calls it; a :class:`BadInput` keeps its own message.
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise BadInput(f"{where}: cannot be read ({cause})") from error


@dataclasses.dataclass(frozen=True)
class Option:
    """The declaration of one option.

    Attributes:
        kind: ``int``, ``float``, ``bool`` or ``str``; that of each element if ``many``.
        many: the value is a list.
        nullable: null is allowed.
        required: there is no default.
        limits: bounds by word ("at least", "above", "at most", "below").
        share_of: the measure of a run that the default scales with, and the amount of it for which
            the default is given: with ``("rounds", 500)`` a default of 100 is 20 in a run of 100
            rounds.
        participants: how many participants of a round a value needs: with ``(2, 3)``, twice the
            value plus three.
        at_most_of: the name of what the value must not exceed: another option of the component, or
            a measure of the run.
    """

    name: str
    kind: str
    doc: str
    default: Any = None
    required: bool = False
    many: bool = False
    nullable: bool = False
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    choices: tuple[Any, ...] | None = None
    share_of: tuple[str, float] | None = None
    participants: tuple[int, int] | None = None
    at_most_of: str | None = None

    def default_in(self, measures: Mapping[str, float]) -> Any:
        """The default; if it is a share of a given measure, scaled to that and at least 1."""
        if self.share_of is None or self.share_of[0] not in measures:
            return self.default
        name, whole = self.share_of
        return max(1, math.floor(self.default * measures[name] / whole + 0.5))


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a component declares: enough to check and name it without importing its class.

    Attributes:
        variants: named sets of options.
    """

    name: str
    options: tuple[Option, ...]
    variants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def canonical(
        self, given: Mapping[str, Any], where: str, measures: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """``{"name": ..., option: value, ...}`` with variants resolved and defaults filled in.

        Args:
            given: the options that the user has given.
            where: what the error messages call it.
            measures: by name, what defaults may scale with (:attr:`Option.share_of`) and values may
                be bounded by (:attr:`Option.at_most_of`).

        Raises:
            BadInput: naming ``where``, the key, the value and what was expected.
        """
        given = self.check(given, where)
        checked: dict[str, Any] = {"name": self.name}
        for option in self.options:
            if option.name in given:
                checked[option.name] = given[option.name]
            elif option.required:
                raise BadInput(f"{where}: option {option.name!r} is missing ({option.doc})")
            else:
                checked[option.name] = option.default_in(measures or {})
        bounds = {**(measures or {}), **checked}
        for option in self.options:
            value, most = checked[option.name], bounds.get(option.at_most_of or "")
            if value is not None and most is not None and value > most:
                raise BadInput(
                    f"{where}.{option.name}: got {value!r}, expected at most {most:g} "
                    f"({option.at_most_of})"
                )
        return checked

    def check(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The given options, checked, with those of a given variant; others may be missing.

        Raises:
            BadInput: as :meth:`canonical`.
        """
        given = dict(given)
        if "variant" in given and self.variants:
            variant = given.pop("variant")
            if not isinstance(variant, str) or variant not in self.variants:
                known = ", ".join(self.variants)
                hint = did_you_mean(str(variant), self.variants)
                raise BadInput(f"{where}.variant: got {variant!r}{hint} (known: {known})")
            given = {**self.variants[variant], **given}
        options = {option.name: option for option in self.options}
        check_keys(given, options, where, "option")
        return {
            key: check_value(given[key], option, f"{where}.{key}")
            for key, option in options.items()
            if key in given
        }


def option(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] | None = None,
    share_of: tuple[str, float] | None = None,
    participants: tuple[int, int] | None = None,
    at_most_of: str | None = None,
) -> Any:
    """Declare a dataclass field as an option: its default, its meaning and its allowed values.

    Bounds hold for each element of a sequence.

    Args:
        default: of the option; without one it is required.
        doc: what the option means; printed in the tables of options.
        at_least: the smallest value.
        above: values must be greater than this.
        at_most: the largest value.
        below: values must be less than this.
        choices: the only values that are allowed.
        share_of: how the default scales with a run's length (:attr:`Option.share_of`).
        participants: how many participants a value needs (:attr:`Option.participants`).
        at_most_of: what a value must not exceed, by name (:attr:`Option.at_most_of`).
    """
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    metadata = {
        "doc": doc,
        "limits": {word: bound for word, bound in limits.items() if bound is not None},
        "choices": None if choices is None else tuple(choices),
        "share_of": share_of,
        "participants": participants,
        "at_most_of": at_most_of,
    }
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if a known word is close, else an empty string."""
    close = difflib.get_close_matches(word[:100], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_keys(given: Iterable[str], known: Iterable[str], where: str, kind: str = "key") -> None:
    """Raise :class:`BadInput` if a key is given that is not known.

    Args:
        given: the keys.
        known: the keys that are allowed.
        where: what the error messages call the mapping.
        kind: what the error messages call a key.
    """
    known = list(known)
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), known)
            listed = ", ".join(known) or "none"
            raise BadInput(f"{where}: unknown {kind} {key!r}{hint} (known: {listed})")


def find(known: Mapping[str, T], name: str, kind: str, where: str) -> T:
    """``known[name]``, or a :class:`BadInput` that lists what is known.

    Args:
        known: by name.
        name: as the user has given it.
        kind: what the error messages call a thing that has such a name.
        where: what the error messages call the place of the name.
    """
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known)
        names = ", ".join(sorted(known))
        raise BadInput(f"{where}: no {kind} is called {name!r}{hint} (known: {names})")
    return known[name]


@functools.cache
def declare(cls: type) -> Declaration:
    """What a component class declares, read from its annotations and options."""
    hints = typing.get_type_hints(cls)
    options = tuple(
        _declare_option(field, hints[field.name])
        for field in dataclasses.fields(cls)
        if "doc" in field.metadata
    )
    return Declaration(cls.name, options, getattr(cls, "variants", {}))  # type: ignore[attr-defined]


def _declare_option(field: dataclasses.Field, hint: Any) -> Option:
    nullable = isinstance(hint, types.UnionType)
    if nullable:
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    many = typing.get_origin(hint) is tuple
    if many:
        hint = typing.get_args(hint)[0]
    required = field.default is dataclasses.MISSING
    default = None if required else field.default
    return Option(
        name=field.name,
        kind=hint.__name__,
        default=list(default) if isinstance(default, tuple) else default,
        required=required,
        many=many,
        nullable=nullable,
        **field.metadata,
    )


WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
}


def check_value(value: Any, option: Option, where: str) -> Any:
    """``value`` converted to the option's kind; :class:`BadInput` if it does not fit the option.

    Args:
        value: as the user has given it.
        option: the option that it is given for.
        where: what the error messages call it.
    """
    if value is None and option.nullable:
        return None
    if option.many:
        if not isinstance(value, list | tuple) or not value:
            raise BadInput(f"{where}: got {value!r}, expected a list of values")
        element = dataclasses.replace(option, many=False)
        return [check_value(item, element, f"{where}[{i}]") for i, item in enumerate(value)]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    number = number and (math.isfinite(value) if isinstance(value, float) else abs(value) < LARGEST)
    fits = {
        "int": number and float(value).is_integer(),
        "float": number,
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
    }[option.kind]
    if not fits:
        raise BadInput(f"{where}: got {value!r}, expected {WORDS[option.kind]}")
    value = {"int": int, "float": float, "bool": bool, "str": str}[option.kind](value)
    if option.choices is not None and value not in option.choices:
        listed = ", ".join(map(repr, option.choices))
        raise BadInput(f"{where}: got {value!r}, expected one of {listed}")
    holds = {
        "at least": operator.ge,
        "above": operator.gt,
        "at most": operator.le,
        "below": operator.lt,
    }
    if not all(holds[word](value, bound) for word, bound in option.limits.items()):
        wanted = " and ".join(f"{word} {bound}" for word, bound in option.limits.items())
        raise BadInput(f"{where}: got {value!r}, expected {wanted}")
    return value
