"""What every Snakemake script shares: its log, and errors that a person can read."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.log import log_to
from noisyfl.core.options import BadInput, permitted
from noisyfl.core.plugins import load
from noisyfl.core.text import printable


def end_quietly_on_ctrl_c() -> None:
    """Make Ctrl-C do what SIGTERM does: a training saves its state and ends, everything else ends,
    and nothing prints a traceback.
    """
    signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))


@contextmanager
def job(snakemake: Any) -> Iterator[Callable[[str], None]]:
    """Run a job's work with a log file and the scale's plugins; yield a function that writes a line
    to the log.

    Any error ends the process with exit code 1. The log keeps the traceback; standard error gets
    one line, since Snakemake shows it among many jobs' output.
    """
    end_quietly_on_ctrl_c()
    path = snakemake.log[0]
    with log_to(Path(path), "w") as log:
        try:
            load(snakemake.config.get("plugins", ()))
            with permitted():
                yield log.info
        except (BadInput, DamagedArtifact) as error:
            log.error(f"error: {error}")
            sys.exit(f"error: {error}")
        except Exception as error:
            log.exception(f"error: {type(error).__name__}: {error}")
            said = printable(f"{type(error).__name__}: {error}")
            sys.exit(f"error: {said} (traceback in {path})")
