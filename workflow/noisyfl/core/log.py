"""The log file of a job."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def log_to(path: Path, mode: str = "a", echo: bool = False) -> Iterator[logging.Logger]:
    """A logger that writes to a job's log file. If the file cannot be written, the job goes on.

    Args:
        path: of the file, whose folder is created if it is missing.
        mode: ``a`` appends to the file, ``w`` overwrites it.
        echo: also print all messages except errors to standard output.
    """
    # Not one of logging.getLogger(), which are shared: one process may do several jobs.
    logger = logging.Logger("noisyfl")
    file = _File(path, mode, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(file)
    if echo:
        console = logging.StreamHandler(sys.stdout)
        console.addFilter(lambda record: record.levelno < logging.ERROR)
        logger.addHandler(console)
    try:
        yield logger
    finally:
        with suppress(OSError):
            file.close()


class _File(logging.FileHandler):
    """A log file that ignores failures to write, since a disk may fill up while a run goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        pass
