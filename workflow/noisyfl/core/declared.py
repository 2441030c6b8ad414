"""Checks of what the class of a component declares, since a plugin's may be wrong."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import create_model

from noisyfl.core.options import BadInput, closest, find
from noisyfl.core.places import PACKAGE
from noisyfl.core.typed import LIMITS, Typed, is_list

if TYPE_CHECKING:
    from noisyfl.core.registry import Component

MEASURES = ("rounds", "visits", "local_epochs", "clients")
"""What options scale with and are bounded by, of a run (:func:`noisyfl.specs.spec.measures_of`)."""

OTHER_KEYS = ("variant", "parts")
"""Keys of a component that is given as a mapping which are no options, beside its name."""

NEARLY = 0.85
"""From this likeness on (:mod:`difflib`), a function's name is taken for a hook's with a slip."""


class Attributes(Typed):
    """The attributes of a class, or of one of its values."""

    key_word: ClassVar[str] = "attribute"


def is_ours(cls: type) -> bool:
    """Whether a class is this package's own."""
    return cls.__module__.partition(".")[0] == PACKAGE.name


def check_declared(cls: type[Component], bases: Sequence[type], of: str) -> None:
    """Check the attributes, the options, the variants and the hooks of a class.

    Args:
        cls: a component.
        bases: the classes of which it is a subclass of one.
        of: begins the error.

    Raises:
        BadInput: an attribute is missing or of another type; an option has the name of an
            attribute, bounds for a list, a measure that there is not, or a default that is no
            value of it; a variant has an option that there is not, or no value of it; a function
            is nearly a hook, or a hook that takes other arguments.
    """
    where = of + cls.__name__
    for base in bases:
        if issubclass(cls, base):
            known = _attributes(base).model_fields
            given = {name: getattr(cls, name) for name in known if hasattr(cls, name)}
            check_attributes(base, given, where)
    _check_names(cls, where)
    _check_bounds(cls, of)
    cls.check_options(cls.defaults(), where)
    for variant, options in cls.variants.items():
        cls.check_options(options, f"{where}.variants.{variant}")
    check_hooks(cls, bases, of)


def check_attributes(kind: type, given: Mapping[str, Any], where: str) -> None:
    """Check values against the annotations of a class, as strictly as options.

    Args:
        kind: a dataclass, or a component, of which the class attributes count.
        given: the values by name; those of properties are not known.
        where: what the error calls them.

    Raises:
        BadInput: one is missing or of another type.
    """
    known = {name: value for name, value in given.items() if not isinstance(value, property)}
    _attributes(kind, frozenset(given.keys() - known.keys())).read(known, where)
    for name, value in known.items():
        if dataclasses.is_dataclass(value):
            check_attributes(type(value), vars(value), f"{where}.{name}")


@functools.cache
def _attributes(kind: type, unknown: frozenset[str] = frozenset()) -> type[Attributes]:
    """A model whose keys are the attributes that a class declares, without those that a registry
    sets, and those that are not known.
    """
    found: dict[str, Any] = {}
    for one in filter(is_ours, reversed(kind.__mro__)):
        found |= inspect.get_annotations(one, eval_str=True)
    if not dataclasses.is_dataclass(kind):
        found = {
            name: typing.get_args(hint)[0]
            for name, hint in found.items()
            if typing.get_origin(hint) is ClassVar and name not in ("name", "key_word")
        }
    keys: Any = {name: (hint, ...) for name, hint in found.items() if name not in unknown}
    return create_model(kind.__name__, __base__=Attributes, **keys)


def _check_names(cls: type[Component], where: str) -> None:
    for option in cls.model_fields:
        if option in OTHER_KEYS:
            raise BadInput(
                f"{where}.{option}: got an option, expected another name for it, as {option!r} is "
                "a key of its own where a component is given"
            )
        for base in filter(is_ours, cls.__mro__[1:]):
            if option in vars(base) or option in base.__class_vars__:  # type: ignore[attr-defined]
                raise BadInput(
                    f"{where}.{option}: got an option, expected another name for it, as "
                    f"{base.__name__} has an attribute of this one; to set that, leave out the "
                    "annotation"
                )


def _check_bounds(cls: type[Component], of: str) -> None:
    fields = cls.model_fields
    for option, field in fields.items():
        bounded = any(hasattr(one, by) for one in field.metadata for by in LIMITS)
        if bounded and is_list(field):
            raise BadInput(
                f"{of}{option}: got bounds for a list, expected them for its items, such as "
                "list[Annotated[float, Field(ge=0)]]"
            )
    for extra, known in (("share_of", MEASURES), ("at_most_of", (*MEASURES, *fields))):
        for option, given in cls.extras(extra).items():
            measure = given if isinstance(given, str) else given[0]
            find(dict.fromkeys(known), measure, "measure", f"{of}{option}: {extra}")


def check_hooks(cls: type, bases: Sequence[type], of: str) -> None:
    """Check the public functions of a class: none is nearly a hook of its bases, and hooks take
    what they are given.

    Args:
        cls: a component.
        bases: the classes whose public functions are hooks.
        of: begins the error.

    Raises:
        BadInput: one of the functions would never be called, or be called with other arguments.
    """
    hooks, of_base = {}, {}
    for base in sorted(bases, key=lambda base: issubclass(cls, base)):
        for name, value in inspect.getmembers(base, inspect.isfunction):
            if name[0] != "_":
                hooks[name], of_base[name] = value, base
    for name, function in vars(cls).items():
        if not inspect.isfunction(function) or name[0] == "_":
            continue
        if name not in hooks:
            if close := closest(name, hooks, NEARLY):
                raise BadInput(f"{of}there is no hook {name!r}; did you mean {close!r}?")
            continue
        if not issubclass(cls, of_base[name]):
            raise BadInput(
                f"{of}{name} is a hook of a {of_base[name].__name__}, and {cls.__name__} is none"
            )
        takes = [*inspect.signature(function).parameters]
        given = [*inspect.signature(hooks[name]).parameters]
        if takes != given:
            raise BadInput(f"{of}{name} takes {', '.join(takes)}, expected {', '.join(given)}")
