"""Paths as users write them, and as they read them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from noisyfl.core.options import BadInput


def expanded(text: str) -> str:
    """A path with its environment variables and a leading ``~`` replaced.

    Raises:
        BadInput: a variable is not set or not closed, or there is no such user.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not os.environ.get(name):
            raise BadInput(
                f"got {text!r}, expected environment variables that are set, and {name} is not"
            )
        return os.environ[name]

    variable = r"\$(?:(\w+)|\{(\w+)\})"
    if "$" in re.sub(variable, "", text):
        raise BadInput(f"got {text!r}, expected $NAME or ${{NAME}} behind each $")
    path = re.sub(variable, value, text)
    try:
        return str(Path(path).expanduser())
    except RuntimeError as error:
        raise BadInput(f"got {text!r}, expected a user's home that is known") from error


def from_here(path: Path | str) -> str:
    """A path, relative if it lies in the working folder."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else str(path)
