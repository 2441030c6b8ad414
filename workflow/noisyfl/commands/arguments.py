"""How a command reads its arguments, beyond what argparse does."""

from __future__ import annotations

import argparse
import ast
import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from noisyfl.core.options import BadInput, did_you_mean
from noisyfl.core.registry import UNREADABLE

T = TypeVar("T")


class WithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help that adds the default unless the text has it, or there is none."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if not action.default or "(default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


class Once(argparse.Action):
    """Stores an option's value; an option that is given twice is an error, since the first value
    would make no difference.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """See the class."""
        assert isinstance(parser, Command)
        if option_string is not None and self in parser.given:
            parser.error(f"{option_string} is given twice")
        parser.given.add(self)
        self.store(namespace, values)

    def store(self, namespace: argparse.Namespace, value: Any) -> None:
        """Store the value where it belongs."""
        setattr(namespace, self.dest, value)


class IntoSetting(Once):
    """Puts an option's value into the mapping ``setting``, under the key that ``const`` is."""

    def store(self, namespace: argparse.Namespace, value: Any) -> None:
        """See the class."""
        namespace.setting = {**namespace.setting, self.const: value}


def number_or_text(text: str) -> float | str:
    """A level: a number, or a component such as ``bernoulli_uniform(rho=0.6, tau=0.5)``."""
    try:
        return float(text)
    except ValueError:
        return text


def one_or_more(kind: Callable[[str], T]) -> Callable[[str], T | list[T]]:
    """The type of an option that takes a value, or several as in ``[0.01, 0.1]``."""

    @functools.wraps(kind, updated=())  # argparse's messages name it
    def read(text: str) -> T | list[T]:
        if not text.lstrip().startswith("["):
            return kind(text)
        try:
            found = ast.parse(text.strip(), mode="eval").body
        except UNREADABLE:
            return kind(text)
        items = found.elts if isinstance(found, ast.List) else [found]
        return [kind(str(ast.get_source_segment(text.strip(), item))) for item in items]

    return read


class Command(argparse.ArgumentParser):
    """A command; its description is the docstring of the function that it calls."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register("action", None, Once)  # what an option without an action does
        self.given: set[argparse.Action] = set()

    def format_help(self) -> str:
        """With the docstring of the command's function, which is imported for it."""
        self.description = function_of(self.get_default("command")).__doc__
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Also accept the items of a list after an option, as in ``compare fedavg --rounds 4 gce``,
        which argparse takes for unknown arguments. What is unknown is an error of the command.
        """
        found, left = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            if action.nargs in ("*", "+") and not any(word.startswith("-") for word in left):
                items = [self._get_value(action, word) for word in left]
                setattr(found, action.dest, [*(getattr(found, action.dest) or ()), *items])
                left = []
        if left and self._subparsers is None:
            known = [name for name in self._option_string_actions if name.startswith("--")]
            options = [word for word in left if word.startswith("-")] or left
            self.error(f"unknown argument {options[0]!r}{did_you_mean(options[0], known)}")
        return found, left


def function_of(command: str) -> Callable[..., None]:
    """The function ``module.name`` of :mod:`noisyfl.commands`; importing it may take seconds."""
    module, name = command.split(".")
    try:
        found = import_module(f"noisyfl.commands.{module}")
    except BadInput as error:  # the file of a method that cannot be imported, and its line
        sys.exit(f"error: {error}")
    function: Callable[..., None] = getattr(found, name)
    return function
