"""Paths as users write them, and as they read them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from noisyfl.core.options import BadInput


def expanded(text: str) -> str:
    """A path with its environment variables and a leading ``~`` replaced.

    Raises:
        BadInput: a variable is not set, or there is no such user.
    """
    empty = [name for name in re.findall(r"\$\{?(\w+)", text) if not os.environ.get(name)]
    path = os.path.expanduser(os.path.expandvars(text))  # noqa: PTH111 (Path's raises)
    if empty or "$" in path or path.startswith("~"):
        raise BadInput(
            f"got {text!r}, expected environment variables that are set and users that are known"
        )
    return path


def from_here(path: Path | str) -> str:
    """A path, relative if it lies in the working folder."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else str(path)
