"""The hooks of components: public functions of a base class that a subclass may replace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from noisyfl.core.options import BadInput, closest

HOOK_TYPO_CUTOFF = 0.75
"""From this similarity on (:mod:`difflib`), a function's name is taken for a misspelled hook."""


def check_hooks(cls: type, bases: Sequence[type], of: str) -> None:
    """Check the public functions of a class against the hooks of its bases.

    Args:
        bases: the classes whose public functions are hooks; ``cls`` is a subclass of one.

    Raises:
        BadInput: a function would never be called, as its name is nearly that of a hook, or that of
            a hook of another base; a hook takes other arguments than it is given; or an option has
            the name of a hook or of an attribute of a base.
    """
    hooks, base_of = {}, {}
    attributes = {name for base in bases for name in getattr(base, "__class_vars__", ())}
    for base in sorted(bases, key=lambda base: issubclass(cls, base)):  # its own base wins
        for name, hook in _public_functions(base):
            hooks[name], base_of[name] = hook, base
    for name in getattr(cls, "model_fields", {}):
        if name in hooks or name in attributes:
            kind = "a hook" if name in hooks else "an attribute"
            raise BadInput(
                f"{of}got an option {name!r}, which is the name of {kind}; expected another name"
            )
    for name, function in vars(cls).items():
        if not inspect.isfunction(function) or name[0] == "_":
            continue
        if name not in hooks:
            if close := closest(name, hooks, HOOK_TYPO_CUTOFF):
                raise BadInput(
                    f"{of}there is no hook {name!r}; did you mean {close!r}? The name "
                    "of a function that is no hook starts with an underscore"
                )
            continue
        if not issubclass(cls, base_of[name]):
            raise BadInput(
                f"{of}{name} is a hook of a {base_of[name].__name__}, which {cls.__name__} is not"
            )
        takes = ", ".join(inspect.signature(function).parameters)
        given = ", ".join(inspect.signature(hooks[name]).parameters)
        if takes != given:
            raise BadInput(f"{of}{name} takes {takes}, expected {given}")


def check_returned(cls: type, bases: Sequence[type]) -> None:
    """Let the hooks of a class raise :class:`BadInput` where they forget to return something."""
    own = [base for base in bases if issubclass(cls, base)]
    for name in hooks_of(cls, bases):
        hook = next(getattr(base, name) for base in own if hasattr(base, name))
        expected = str(inspect.signature(hook).return_annotation)
        function = inspect.getattr_static(cls, name)
        is_checked = hasattr(function, "__wrapped__")  # inherited from a registered class
        if inspect.isfunction(function) and not is_checked and not expected.endswith("None"):
            setattr(cls, name, _never_none(function, expected))


def _never_none(function: Callable[..., Any], expected: str) -> Callable[..., Any]:
    code = function.__code__

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        returned = function(*given, **named)
        if returned is None:
            place = f"{code.co_filename}, line {code.co_firstlineno}"
            raise BadInput(f"{place}: {function.__name__}: got None, expected {expected}")
        return returned

    return call


def hooks_of(cls: type, bases: Sequence[type]) -> list[str]:
    """The hooks of the bases that a class replaces, or has from a class between them."""
    own = [base for base in bases if issubclass(cls, base)]
    hooks = ((name, hook) for base in own for name, hook in _public_functions(base))
    return [name for name, hook in dict(hooks).items() if getattr(cls, name) is not hook]


def _public_functions(cls: type) -> list[tuple[str, Any]]:
    return [one for one in inspect.getmembers(cls, inspect.isfunction) if one[0][0] != "_"]
