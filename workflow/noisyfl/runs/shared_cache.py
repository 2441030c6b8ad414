"""The folder in which Snakemake shares runs between users, checked before any run is trained."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from noisyfl.core.options import BadInput

VARIABLE = "SNAKEMAKE_OUTPUT_CACHE"


def shared_cache() -> Path | None:
    """The folder that the environment names, or None where it names none.

    Raises:
        BadInput: runs could not be put there.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    wrong = _problem_of(Path(named))
    if wrong:
        raise BadInput(
            f"{VARIABLE}: got {named!r}, expected the absolute path of a folder that you may write "
            f"to, without the sticky bit: {wrong}. Unset it to share no runs"
        )
    return Path(named)


def _problem_of(folder: Path) -> str:
    """Why runs cannot be shared in a folder; empty if they can."""
    if not folder.is_absolute():
        return "a link to a relative path leads nowhere"
    try:
        mode = folder.stat().st_mode
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(mode):
        return "it is no folder"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "you may not write to it"
    # With the sticky bit, no user could replace what another user has left half stored.
    return "it has the sticky bit (chmod -t removes it)" if mode & stat.S_ISVTX else ""
