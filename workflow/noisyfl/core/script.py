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


def end_quietly_on_ctrl_c() -> None:
    """Make Ctrl-C do what SIGTERM does: a training saves its state and ends, everything else ends,
    and nothing prints a traceback.
    """
    signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))


@contextmanager
def job(snakemake: Any) -> Iterator[Callable[[str], None]]:
    """Run a job's work with a log file and the scale's plugins; yield a function that writes a line
    to the log.

    Any error ends the process with exit code 1. The log has it, with its traceback unless it is an
    error in the input; whoever shows the job's failure reads it there.
    """
    end_quietly_on_ctrl_c()
    with log_to(Path(snakemake.log[0]), "w") as log:
        try:
            load(snakemake.config.get("plugins", ()))
            with permitted():
                yield log.info
        except (BadInput, DamagedArtifact) as error:
            log.error(f"error: {error}")
            sys.exit(1)
        except Exception as error:
            log.exception(f"error: {type(error).__name__}: {error}")
            sys.exit(1)
