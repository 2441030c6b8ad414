"""Data folders: one, or several that are searched one after the other.

All but the last are only read, and may be shared; the last is the user's own, where downloads go.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from noisyfl.core.options import BadInput
from noisyfl.core.paths import expanded

Roots = Path | Sequence[Path]
"""One data folder, or several in the order in which they are searched."""

Found = TypeVar("Found")


class NotFound(BadInput):
    """Something that a data folder should have is missing or damaged.

    Args:
        name: of what was looked for.
        remedy: what to do about it; empty if that is clear.
    """

    def __init__(self, name: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"{name}: {problem}" + (f"; {remedy}" if remedy else ""))
        self.name, self.problem, self.remedy = name, problem, remedy


class NotRead(BadInput):
    """A spec names a file of a user's own that has not been read yet."""


def each(roots: Roots) -> tuple[Path, ...]:
    """The folders, in the order in which they are searched."""
    return (roots,) if isinstance(roots, Path) else tuple(roots)


def first(roots: Roots, look: Callable[[Path], Found]) -> Found:
    """What ``look`` returns for the first folder that has what it looks for.

    Args:
        look: searches one folder; raises :class:`NotFound` if nothing suitable is in it.

    Raises:
        NotFound: no folder has it; the message says what is wrong in each of them, and what to do
            about the last.
    """
    problems = []
    for root in each(roots):
        try:
            return look(root)
        except NotFound as error:
            last = error
        except PermissionError as error:
            last = NotFound(str(root), f"{error.filename}: {error.strerror}")
        problems.append(last.problem)
    raise NotFound(last.name, "; ".join(problems), last.remedy)


def places_of(path: str, roots: Roots) -> list[Path]:
    """Where a user's own file or folder may be: in a data folder, or in a home folder (``~``)."""
    full = os.path.expanduser(path)  # noqa: PTH111 (Path's raises)
    return list(dict.fromkeys(root / full for root in each(roots)))


def located(path: str, roots: Roots, option: str) -> Path:
    """Where a user's own file or folder is: in the first data folder that has it.

    Raises:
        BadInput: no data folder has it.
    """
    if not path.strip():
        raise BadInput(f"got {path!r}, expected a path", option)
    places = places_of(path, roots)
    for place in places:
        if place.exists():
            return place
    listed = " or ".join(map(str, places))
    hint = f"; did you mean {str(Path(path).absolute())!r}?" if Path(path).exists() else ""
    raise BadInput(f"got {path!r}, and there is neither file nor folder {listed}{hint}", option)


Stamp = list[int] | None
"""Size of a file, and the times (nanoseconds) at which its content and its state last changed; None
if there is none. A copy may keep the first of these times, but not the second.
"""


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file, which tells cheaply whether it is still the same."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def checked_folder(given: Any, to_be_made: bool = False) -> Path:
    """A folder's path, with ``~`` and environment variables replaced.

    Args:
        to_be_made: the folder need not exist yet.

    Raises:
        BadInput: what was given is no path, or there is no such folder.
    """
    if not isinstance(given, str | Path):
        raise BadInput(f"got {given!r}, expected the path of a folder")
    text = str(given)
    path = expanded(text)
    if re.search(r"[\x00-\x1f\x7f]", path):
        raise BadInput(f"got {text[:80]!r}, expected a path without line breaks and such")
    try:
        fits = Path(path).is_dir() or (to_be_made and not Path(path).exists())
    except OSError as error:
        raise BadInput(
            f"got {text!r}, expected a folder that can be read ({error.strerror})"
        ) from error
    if not fits:
        there = Path(path).absolute()  # a relative path may have been meant from another folder
        raise BadInput(f"got {text!r}, expected a folder, and there is none at {there}")
    return Path(path)
