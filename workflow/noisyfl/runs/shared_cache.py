"""The folder in which Snakemake shares runs between users, checked before any run is trained."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from noisyfl.core.options import BadInput

VARIABLE = "SNAKEMAKE_OUTPUT_CACHE"


def check_shared_cache() -> None:
    """Raise :class:`BadInput` if the environment names a folder in which runs cannot be shared."""
    named = os.environ.get(VARIABLE)
    wrong = _problem_of(Path(named)) if named else ""
    if wrong:
        raise BadInput(
            f"{VARIABLE}: got {named!r}, expected the absolute path of a folder that you may write "
            f"to, without the sticky bit: {wrong}. Unset it to share no runs"
        )


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
