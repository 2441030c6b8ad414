"""Components and options as a configuration writes them; what is not the default is marked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

OMITTED = ("name", "revision", "sha256")
"""Keys of a component that are not written as options, since they stand elsewhere: every checksum
is in the run's ``spec.json``."""


@dataclass(frozen=True)
class Words:
    """A text in pieces.

    Attributes:
        pieces: in order, each with its mark: whether it is an option that is not the default.
    """

    pieces: tuple[tuple[str, bool], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)


def plain(text: str) -> Words:
    """A text without marks."""
    return Words(((text, False),))


def component(raw: Mapping[str, Any], changed: Collection[str] = ()) -> Words:
    """A component as a configuration writes it: ``name(option=value, ...)``.

    Args:
        raw: the component in canonical form.
    """
    pieces = [(raw["name"], False)]
    for key, value in raw.items():
        if key not in OMITTED:
            pieces.append((", " if len(pieces) > 1 else "(", False))
            pieces.append((f"{key}={value!r}", key in changed))
    return Words((*pieces, *([(")", False)] if len(pieces) > 1 else ())))
