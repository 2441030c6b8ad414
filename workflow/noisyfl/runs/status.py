"""The status file of a run that is under way, and the message about a run that failed.

A status is a small JSON file (:meth:`noisyfl.core.artifacts.Results.status`): ``state``
(``running``, ``interrupted`` or ``failed``), ``setting`` (the run in words), ``host``, ``process``,
``begun`` and ``updated`` (UTC, ISO 8601), ``rounds_done``, ``rounds`` and ``resumed_after``
(rounds; null until the first round begins), ``seconds_left`` after ``updated`` (null until a round
is done), ``error`` (one line, or null), ``hopeless_in`` (the Snakemake command that need not try
it again, or null), ``log`` (a path, or null) and ``alone`` (the command that runs it again and
nothing else). A whole run has no status.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, Results, read_json, write_json
from noisyfl.core.paths import from_here
from noisyfl.core.text import one_line

WRITE_SECONDS = 10.0
"""Shortest time between two writes of how many rounds are done."""

BEAT_SECONDS = 60.0
"""Time between two writes that show that the run is alive, since a round may take hours."""

STATES = ("running", "interrupted", "failed")

TEXT, COUNT, NUMBER, NOTHING = (str,), (int,), (int, float), (type(None),)

KEYS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("state", "setting", "host", "begun", "updated", "alone"), TEXT),
    **dict.fromkeys(("error", "hopeless_in", "log"), TEXT + NOTHING),
    **dict.fromkeys(("rounds_done", "rounds", "resumed_after"), COUNT + NOTHING),
    "process": COUNT,
    "seconds_left": NUMBER + NOTHING,
}
"""The keys that every status has, and the types of their values."""

VALUES = "NOISYFL_CONFIG"
"""The environment variable with what is given with ``--config``, as words, in JSON."""

CONFIGFILES = "NOISYFL_CONFIGFILES"
"""The environment variable that tells Snakemake's jobs which ``--configfile`` it was given."""

SNAKEFILE = "NOISYFL_SNAKEFILE"
"""The environment variable that tells them which ``--snakefile`` it was given."""

FOUND = ("Snakefile", "workflow/Snakefile")
"""Where Snakemake finds a workflow by itself."""

COMMAND = "NOISYFL_COMMAND"
"""The environment variable that tells Snakemake's jobs which command they belong to."""


class RunStatus:
    """The status file of one run. If it cannot be written, the run goes on without it.

    Args:
        path: where it lies.
        setting: the run in words.
        log: the run's log file, if it has one.
        alone: the command that runs it again, and nothing else.
    """

    def __init__(self, path: Path, setting: str, log: str | None, alone: str) -> None:
        self._path = path
        self._content: dict[str, Any] = {
            "state": "running",
            "setting": setting,
            "host": platform.node(),
            "process": os.getpid(),
            "begun": _now(),
            "rounds_done": None,
            "rounds": None,
            "resumed_after": None,
            "error": None,
            "hopeless_in": None,
            "log": log,
            "alone": alone,
        }
        self._ends_at: float | None = None
        self._written = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def begin(self) -> None:
        """Write that the run is being prepared, and from then on regularly that it is alive."""
        with self._lock:
            self._write()
        with suppress(RuntimeError):  # a machine that has no thread left
            threading.Thread(target=self._beat, name="status", daemon=True).start()

    def report(self, rounds_done: int, rounds: int, seconds_left: float | None = None) -> None:
        """Note how many rounds are done. The first and the last report are written at once.

        Args:
            rounds_done: by this attempt and those before it.
            rounds: of the whole run.
            seconds_left: until the run is whole, if that is known yet.
        """
        now = time.monotonic()
        first = self._content["resumed_after"] is None
        with self._lock:
            if first:
                self._content["resumed_after"] = rounds_done
            self._content |= {"rounds_done": rounds_done, "rounds": rounds}
            self._ends_at = None if seconds_left is None else now + seconds_left
            if first or rounds_done == rounds or now - self._written >= WRITE_SECONDS:
                self._write()

    def interrupt(self) -> None:
        """Write that the run was asked to end; it goes on when it is started again."""
        self._end(state="interrupted")

    def fail(self, error: str, hopeless: bool = False) -> None:
        """Write that the run ended with an error, which is kept as one line."""
        command = os.environ.get(COMMAND) if hopeless else None
        # Kept here too, since Snakemake begins a run's log anew with each attempt.
        self._content["traceback"] = traceback.format_exc() if command else None
        self._end(state="failed", error=one_line(error), hopeless_in=command)

    def hopeless(self) -> tuple[str, str] | None:
        """Why an earlier attempt of the same command failed, if this one would fail too.

        The reason is the error as one line, and Python's traceback.
        """
        command = os.environ.get(COMMAND)
        with suppress(OSError, DamagedArtifact):  # then the run is simply tried
            before = read_status(self._path)
            if before is not None and command is not None and before["hopeless_in"] == command:
                return before["error"] or "", str(before.get("traceback") or "")
        return None

    def remove(self) -> None:
        """Remove the status of a run that is whole: its artifact says everything."""
        with self._lock, suppress(OSError):
            self._over.set()
            self._path.unlink(missing_ok=True)

    def _end(self, **changes: Any) -> None:
        with self._lock:
            self._over.set()
            self._content |= changes
            self._write()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            with self._lock:
                if not self._over.is_set():  # the run may have ended since
                    self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        left = None if self._ends_at is None else max(0.0, self._ends_at - self._written)
        with suppress(OSError):
            write_json(self._path, {**self._content, "updated": _now(), "seconds_left": left})


def read_status(path: Path) -> dict[str, Any] | None:
    """The status of a run, or None if there is none.

    Raises:
        DamagedArtifact: the file is not a status.
        OSError: it cannot be read.
    """
    try:
        found = read_json(path)
    except FileNotFoundError:
        return None
    for key, kinds in KEYS.items():
        value = found.get(key, ...)
        if not isinstance(value, kinds) or isinstance(value, bool):
            got = "nothing" if value is ... else repr(value)
            raise DamagedArtifact(f"{path}: not a status ({key}: got {got}); delete it")
    moments = []
    for key in ("begun", "updated"):
        try:
            moments.append(datetime.fromisoformat(found[key]))
        except ValueError as error:
            raise DamagedArtifact(f"{path}: not a status ({key}: {error}); delete it") from error
    if found["state"] not in STATES or any(moment.tzinfo is None for moment in moments):
        raise DamagedArtifact(
            f"{path}: not a status (state: got {found['state']!r}, expected {', '.join(STATES)}; "
            "begun, updated: moments in UTC); delete it"
        )
    return found


def read_statuses(results: Results) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """By run, the statuses in a results folder, and what is wrong with damaged ones."""
    pattern = results.status("*")
    found, damage = {}, {}
    for path in sorted(pattern.parent.glob(pattern.name)):
        try:
            status = read_status(path)
            if status is not None:
                found[path.stem] = status
        except (OSError, DamagedArtifact) as error:
            damage[path.stem] = str(error)
    return found, damage


def failure_text(setting: str, error: str, log: str | None, alone: str) -> str:
    """The message about a run that failed: three lines."""
    lines = [f"failed: {setting}: {error}", f"log: {log or 'none'}", f"again, alone: {alone}"]
    return "\n".join([one_line(lines[0]), *(f"  {one_line(line)}" for line in lines[1:])])


def tell_jobs(
    paths: Iterable[Path | str],
    values: Mapping[str, Any],
    command: str | None,
    snakefile: Path | str,
) -> None:
    """Tell every job that is started from this process its configuration and its command.

    Args:
        paths: the configuration's files, as Snakemake was given them.
        values: what it was given with ``--config``.
        command: a name for this Snakemake command; None in one of its jobs, which was told it.
        snakefile: the workflow's.
    """
    if command is not None:
        os.environ[COMMAND] = command
        os.environ[VALUES] = json.dumps(
            [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in values.items()]
        )
    os.environ[CONFIGFILES] = json.dumps(list(map(from_here, paths)))
    os.environ[SNAKEFILE] = from_here(snakefile)


def again_alone(results: Results, run: str, status: Mapping[str, Any]) -> str:
    """The command with which Snakemake trains a run that failed. The command in its status is not
    used: somebody else may have written the file.
    """
    return snakemake_alone(results.run(run).provenance, "--profile slurm" in status["alone"])


def snakemake_alone(provenance: Path, on_slurm: bool) -> str:
    """The command with which Snakemake trains one run, and makes nothing that depends on it.

    It has the configuration that :func:`tell_jobs` was given, here or in the process that started
    this one.

    Args:
        provenance: the run's provenance file, as the rule ``train`` names it.
        on_slurm: whether the command is to train on a cluster.
    """
    # The target comes first: --configfile takes a list, and would take it for another file.
    words = ["snakemake", str(provenance), "--cores", "1"]
    if on_slurm:
        words += ["--profile", "slurm"]
    if values := json.loads(os.environ.get(VALUES, "[]")):
        words += ["--config", *values]
    if configfiles := json.loads(os.environ.get(CONFIGFILES, "[]")):
        words += ["--configfile", *configfiles]
    snakefile = os.environ.get(SNAKEFILE, FOUND[0])
    if snakefile not in FOUND:
        words += ["--snakefile", snakefile]
    return shlex.join(words)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
