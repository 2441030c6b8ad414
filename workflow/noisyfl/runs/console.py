"""Snakemake's console: a failed job's own error, and at the end all failed jobs again.

A job says itself why it failed, in a line or three. Snakemake's twelve lines about it (the script's
temporary copy, all inputs and outputs) go to its log file in ``.snakemake/log`` alone.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import NO_ROOM, DamagedArtifact, Results
from noisyfl.core.options import BadInput
from noisyfl.core.text import one_line
from noisyfl.runs.slurm import REJECTED
from noisyfl.runs.status import again_alone, failure_text, read_status

MOST = 10
"""How many failed jobs are named at the end."""

SAID = re.compile(r"CalledProcessError.*(returned non-zero exit status 1|Signals\.SIGTERM)", re.S)
"""What Snakemake says of a script that has ended with an error line of its own, or on Ctrl-C."""

KILLED = "it ended without an error of its own: killed, maybe for want of memory or of disk space"
"""What is said of a job that does not say why it ended."""

NOT_BEGUN = "its job ended before it began to train; Snakemake's lines above may say why"
"""What is said of a run that has no status."""

HANDLER = "DefaultStreamHandler"
"""What Snakemake calls the handler that writes to its console."""


LEAST_ROOM = 2**20
"""Bytes that Snakemake needs for its locks and logs."""


def check_room(folder: Path) -> None:
    """Raise :class:`BadInput` if the disk of Snakemake's own folder is full, of which Snakemake
    itself would say so in a traceback.
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


class Console(logging.Filter):
    """A filter of what Snakemake writes to its console, which remembers the jobs that failed.

    Args:
        results: the layout in which the runs have their statuses.
        configuration: the scale's file, for the command that says more.
        shows_logs: ``--show-failed-logs``, so that Snakemake's own lines stay: they have the logs.
    """

    def __init__(self, results: Results, configuration: str, shows_logs: bool) -> None:
        super().__init__()
        self._results = results
        self._progress = f"python -m noisyfl progress --config {shlex.quote(configuration)}"
        self._shows_logs = shows_logs
        self._failed: dict[int, tuple[str, str | None]] = {}
        self._said: dict[str, object] = {}

    def attach(self, handlers: Iterable[logging.Handler]) -> None:
        """Filter what Snakemake's console handler writes; there is none with a logger plugin."""
        for handler in handlers:
            if handler.name == HANDLER:
                handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; the words of a locked folder are changed."""
        error = getattr(record, "exception", None)
        if error == "LockException":
            record.msg = (
                f"{Path.cwd()} is locked: another Snakemake is at work there, or was killed. "
                f"`{self._progress}` says how far it is; if none is at work, "
                "the same command with `--unlock` frees the folder."
            )
        if error == "RuleException" and SAID.search(record.getMessage()):
            return False
        if str(getattr(record, "event", "")) == "job_error":
            return self._is_news(vars(record))
        return True

    def _is_news(self, record: dict[str, Any]) -> bool:
        """Remember a failed job; return whether Snakemake says more of it than the job itself."""
        self._failed[record["jobid"]] = record["rule_name"], next(iter(record["log"]), None)
        if rejected := REJECTED.search(record["rule_msg"] or ""):
            said = one_line(rejected[1])
            mine = object()
            if self._said.setdefault(said, mine) is mine:  # jobs are submitted by several threads
                print(f"sbatch rejects jobs: {said}", file=sys.stderr, flush=True)
            return False
        # A cluster's executor has a message of its own, and the job's words are in a file there.
        return self._shows_logs or record["rule_msg"] is not None

    def summary(self) -> str:
        """All jobs that failed, each with its error, its log and, of a run, how to run it alone.

        A run that a later attempt made, or that was asked to end, has not failed.
        """
        texts = [self._text(rule, log) for rule, log in self._failed.values()]
        texts = list(filter(None, texts))
        if not texts:
            return ""
        many = f"{len(texts)} jobs" if len(texts) > 1 else "1 job"
        lines = [f"{many} failed:", *texts[:MOST]]
        if len(texts) > MOST:
            lines.append(f"and {len(texts) - MOST} more: {self._progress}")
        return "\n".join(lines)

    def _text(self, rule: str, log: str | None) -> str:
        if rule != "train" or log is None:
            return f"failed: {rule}: {_last_error(log)}\n  log: {log or 'none'}"
        run = Path(log).stem
        status = None
        with suppress(OSError, DamagedArtifact):
            status = read_status(self._results.status(run))
        if status is None:
            whole = self._results.run(run).whole()
            return "" if whole else f"failed: run {run}: {NOT_BEGUN}"
        if status["state"] == "interrupted":
            return ""
        error = status["error"] if status["state"] == "failed" else KILLED
        alone = again_alone(self._results, run, status)
        return failure_text(status["setting"], error, log, alone)


def _last_error(log: str | None) -> str:
    """The last error line of a job's log."""
    found = [KILLED]
    with suppress(OSError, ValueError):
        text = "" if log is None else Path(log).read_text(encoding="utf-8")
        found += [line.partition("  error: ")[2] for line in text.splitlines()]
    return one_line([line for line in found if line][-1])
