"""The error about bad input, and the declaration of a component's options."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

from pydantic import Field

from noisyfl.core.text import printable

T = TypeVar("T")

LARGEST = 2**63
"""Whole numbers must be smaller in absolute value, so that they fit into arrays of int64."""

REFUSALS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.ENOSPC, errno.EDQUOT),
)
"""Error numbers of a file or folder that is closed to the user, or has another in its place, and of
a full disk.
"""


class BadInput(ValueError):
    """Something the user wrote is wrong. The message says where, what, and what was expected.

    Args:
        path: the keys and the numbers of list items that lead to the wrong value.
        where: what the path begins at; a file's name ends with ``": "``.
    """

    def __init__(self, problem: str, *path: str | int, where: str = "") -> None:
        super().__init__(problem)
        self.path, self.where = path, where

    def __str__(self) -> str:
        place = place_of(self.path, self.where)
        return printable(f"{place}: {self.args[0]}" if place else str(self.args[0]))

    def within(self, *outer: str | int, where: str = "") -> BadInput:
        """The same error with a longer path to its place."""
        self.path, self.where = (*outer, *self.path), self.where or where
        return self


def place_of(path: Iterable[str | int], where: str = "") -> str:
    """A path in words, such as ``rows[2].method``, behind what it begins at."""

    def word(key: str | int) -> str:
        if isinstance(key, int):
            return f"[{key}]"
        return f".{key if key.isprintable() else repr(key)}"

    words = "".join(map(word, path))
    if where and not where.endswith(": "):
        return where + words
    return where + words.removeprefix(".") if words else where.removesuffix(": ")


@contextlib.contextmanager
def within(*path: str | int, where: str = "") -> Iterator[None]:
    """Put a path before that of a :class:`BadInput` that is raised."""
    try:
        yield
    except BadInput as error:
        raise error.within(*path, where=where) from error.__cause__


def not_utf8(path: object, error: UnicodeDecodeError) -> BadInput:
    """The error about a file of which the whole content was decoded, and is not UTF-8."""
    line = error.object[: error.start].count(b"\n") + 1
    got = f"the byte {error.object[error.start]:#x}"
    return BadInput(f"{path}, line {line}: got {got}, expected UTF-8")


@contextlib.contextmanager
def permitted() -> Iterator[None]:
    """Raise a :class:`BadInput` where the system cannot read or write a file or folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        # Arrow has the name in its words.
        why = os.strerror(error.errno) if error.filename else error.strerror
        name = error.filename or "a file"
        raise BadInput(f"{name}: cannot be read or written ({why})") from error


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Raise a :class:`BadInput` for any error that occurs while user input is read.

    Args:
        where: what the message calls the input; a :class:`BadInput` keeps its own message.
    """
    try:
        with permitted():
            yield
    except BadInput:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise BadInput(f"{where}: cannot be read ({cause})") from error


def option(
    default: Any = ...,
    *,
    doc: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    share_of: tuple[str, float] | None = None,
    participants: tuple[int, int] | None = None,
    at_most_of: str | None = None,
    added_later: bool = False,
) -> Any:
    """Declare a field as an option: its default, its meaning and its bounds.

    Args:
        share_of: the measure of a run that the default scales with, and the amount of it for which
            the default is given: with ``("rounds", 500)`` a default of 100 is 20 in a run of 100
            rounds.
        participants: how many participants of a round a value needs: with ``(2, 3)``, twice the
            value plus three.
        at_most_of: the name of what the value must not exceed: another option of the component, or
            a measure of the run.
        added_later: whether specs leave the option out as long as it has its default, so that
            runs of earlier versions keep their ids.
    """
    more = {"share_of": share_of, "participants": participants, "at_most_of": at_most_of}
    extra: Any = {key: value for key, value in more.items() if value is not None}
    if added_later:
        extra["added_later"] = True
    return Field(
        default,
        description=doc,
        ge=at_least,
        gt=above,
        le=at_most,
        lt=below,
        json_schema_extra=extra or None,
    )


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that is closest to a word, ignoring case; empty if none is close."""
    words = {str(one).casefold(): str(one) for one in known}
    close = difflib.get_close_matches(word[:100].casefold(), words, 1, cutoff)
    return words[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if a known word is close, else an empty string."""
    close = closest(word, known)
    return f"; did you mean {close!r}?" if close else ""


def kind_of(given: object) -> str:
    """What a value is: of an array or a tensor the dtype and the shape, of a list its length, of
    other objects the class.
    """
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return f"{given.dtype} {list(given.shape)}"
    if isinstance(given, Sized) and not isinstance(given, str):
        return f"{type(given).__name__} of {len(given)}"
    return repr(given) if isinstance(given, str | float | int | None) else type(given).__name__


def check_count(value: Any, where: str, most: int | None = None) -> None:
    """Raise :class:`BadInput` unless a value is a whole number from 1 to ``most``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        end = "on" if most is None else f"to {most}"
        raise BadInput(f"got {value!r}, expected a whole number from 1 {end}", where=f"{where}: ")


def check_keys(raw: Iterable[str], known: Iterable[str], where: str, kind: str = "key") -> None:
    """Raise :class:`BadInput` if a key is given that is not known."""
    known = list(known)
    for key in raw:
        if key not in known:
            raise BadInput(unknown(key, known, kind), where=where)


def unknown(key: object, known: Iterable[str], kind: str = "key") -> str:
    """The error message about an unknown key."""
    known = list(known)
    listed = ", ".join(known) or "none"
    return f"unknown {kind} {key!r}{did_you_mean(str(key), known)} (known: {listed})"


def find(known: Mapping[str, T], name: object, kind: str, where: str = "") -> T:
    """``known[name]``, or a :class:`BadInput` that lists what is known."""
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known)
        names = ", ".join(sorted(known))
        raise BadInput(f"no {kind} is called {name!r}{hint} (known: {names})", where=where)
    return known[name]
