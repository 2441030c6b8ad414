"""The store: where training leaves a run's artifact, so that a complete run is never trained again.

Snakemake deletes the outputs of a job that it believes unfinished, even if they are complete: its
own process may have been killed while the training went on, or the training may have been killed
just before its process ended. So a run is trained into ``store/<id>/``, and the outputs that
Snakemake knows, in ``runs/<id>/``, are further names of the same files.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TypeVar

from noisyfl.core.artifacts import NO_ROOM, RunFiles, replacing

Made = TypeVar("Made")


def put_in_place(store: RunFiles, files: RunFiles) -> None:
    """Give the files of a stored run their names in the results folder, the provenance last.

    The names are hard links, or copies if the file system has no hard links. Symbolic links would
    break, since a shared cache moves the files elsewhere; those that it left here, which may lead
    to nothing or to the stored file itself, are replaced.
    """
    names = [*zip(store.all(), files.all(), strict=True)]
    for kept, target in ((store.model, files.model), (store.labels, files.labels)):
        if kept.exists():
            names.insert(0, (kept, target))
        else:
            target.unlink(missing_ok=True)  # of a training before
    for source, target in names:
        if not target.is_symlink() and target.exists() and target.samefile(source):
            continue
        with replacing(target) as draft:
            try:
                os.link(source, draft)
            except OSError:
                shutil.copyfile(source, draft)


def forget(store: RunFiles) -> None:
    """Make a stored run incomplete, so that it is trained again; its other names keep its files."""
    # The model and the labels too, since the next training may leave none.
    for path in (store.provenance, store.model, store.no_model, store.labels):
        path.unlink(missing_ok=True)


def when_there_is_room(
    write: Callable[[], Made], log: Callable[[str], None], pause: Callable[[float], None]
) -> Made:
    """Write; as long as the file system is full, wait and try again.

    Args:
        write: does the writing; leaves nothing behind when it fails.
        log: takes one line.
        pause: waits for a number of seconds, or raises if there is a reason to stop waiting.

    Raises:
        OSError: the write failed for another reason.
    """
    waited = False
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            if not waited:
                # The log may be on the full disk itself.
                print(f"{error}; waiting for room", file=sys.stderr, flush=True)
                log(f"{error}; waiting for room")
            waited = True
        pause(10.0)
