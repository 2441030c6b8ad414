"""Whether a folder's disk has room."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from pathlib import Path

from noisyfl.core.artifacts import NO_ROOM
from noisyfl.core.options import BadInput

LEAST_ROOM = 2**20
"""Bytes that Snakemake needs for its locks and logs."""


def check_room(folder: Path) -> None:
    """Raise :class:`BadInput` if the disk of Snakemake's own folder is full; Snakemake itself would
    end in a traceback.
    """
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(LEAST_ROOM))
            if file.tell() == LEAST_ROOM:
                return
            number = errno.ENOSPC
    except OSError as error:
        if error.errno not in NO_ROOM:
            return
        number = error.errno
    logging.raiseExceptions = False  # else a traceback for each line that the log does not take
    raise BadInput(f"{folder}: cannot be written ({os.strerror(number)}), expected 1 MiB of room")
