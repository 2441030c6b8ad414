"""The status file of a run that is under way, and the message about a run that failed.

A status is a small JSON file (:meth:`noisyfl.core.artifacts.Results.status`): ``state``
(``running``, ``interrupted`` or ``failed``), ``setting`` (the run in words), ``host``, ``process``,
``begun`` and ``updated`` (UTC, ISO 8601), ``rounds_done``, ``rounds`` and ``resumed_after``
(rounds; null until the first round begins), ``accuracy`` on the test part (of 1; null until a round
is evaluated), ``seconds_left`` after ``updated`` (null until a round is done), ``error`` (one line,
or null), ``permanent`` (whether another attempt would end with the same error), ``log`` (a path, or
null) and ``slurm_job`` (the id of the Slurm job that trains it, or null). A complete run has none.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, Results, read_json, write_json
from noisyfl.core.paths import from_here
from noisyfl.core.text import one_line

WRITE_SECONDS = 10.0
"""Shortest time between two writes of how many rounds are done, once a run has trained for long."""

WRITE_SHARE = 0.1
"""Before that, this time as a share of the run's time so far."""

BEAT_SECONDS = 60.0
"""Time between two writes that show that the run is alive, since a round may take hours."""

STATES = ("running", "interrupted", "failed")

TEXT, COUNT, NUMBER, NOTHING = (str,), (int,), (int, float), (type(None),)

KEYS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("state", "setting", "host", "begun", "updated"), TEXT),
    **dict.fromkeys(("error", "log", "slurm_job"), TEXT + NOTHING),
    **dict.fromkeys(("rounds_done", "rounds", "resumed_after"), COUNT + NOTHING),
    **dict.fromkeys(("seconds_left", "accuracy"), NUMBER + NOTHING),
    "process": COUNT,
    "permanent": (bool,),
}
"""The keys that every status has, and the types of their values."""

FOUND = ("Snakefile", "workflow/Snakefile")
"""Where Snakemake finds a workflow by itself."""


class RunStatus:
    """The status file of one run. If it cannot be written, the run goes on without it.

    Args:
        path: where it lies.
        setting: the run in words.
        log: the run's log file, if it has one.
    """

    def __init__(self, path: Path, setting: str, log: str | None) -> None:
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
            "accuracy": None,
            "error": None,
            "permanent": False,
            "log": log,
            "slurm_job": os.environ.get("SLURM_JOB_ID"),
        }
        self._ends_at: float | None = None
        self._begun = time.monotonic()
        self._written = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def begin(self) -> None:
        """Write that the run is being prepared, and from then on regularly that it is alive."""
        with self._lock:
            self._write()
        with suppress(RuntimeError):  # a machine that has no thread left
            threading.Thread(target=self._beat, name="status", daemon=True).start()

    def report(
        self,
        rounds_done: int,
        rounds: int,
        seconds_left: float | None = None,
        accuracy: float | None = None,
    ) -> None:
        """Note how many rounds are done. The first and the last report are written at once.

        Args:
            rounds_done: by this attempt and those before it.
            rounds: of the whole run.
            seconds_left: until the run is whole, if that is known yet.
            accuracy: on the test part, if this round was evaluated.
        """
        now = time.monotonic()
        first = self._content["resumed_after"] is None
        due = min(WRITE_SECONDS, WRITE_SHARE * (now - self._begun))
        with self._lock:
            if first:
                self._content["resumed_after"] = rounds_done
            self._content |= {"rounds_done": rounds_done, "rounds": rounds}
            if accuracy is not None:
                self._content["accuracy"] = accuracy
            self._ends_at = None if seconds_left is None else now + seconds_left
            if first or rounds_done == rounds or now - self._written >= due:
                self._write()

    def interrupt(self) -> None:
        """Write that the run was asked to end; it goes on when it is started again."""
        self._end(state="interrupted")

    def fail(self, error: str, permanent: bool = False) -> None:
        """Write that the run ended with an error, which is kept as one line.

        Args:
            error: why it failed.
            permanent: whether another attempt would end with the same error.
        """
        # Kept here too, since Snakemake begins a run's log anew with each attempt.
        self._content["traceback"] = traceback.format_exc() if permanent else None
        self._end(state="failed", error=one_line(error), permanent=permanent)

    def known_failure(self) -> tuple[str, str] | None:
        """Why the attempt before this one failed, if this one would fail too.

        The reason is the error as one line, and Python's traceback.
        """
        with suppress(OSError, DamagedArtifact):  # then the run is simply tried
            before = read_status(self._path)
            if before is not None and before["state"] == "failed" and before["permanent"]:
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
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
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


def failure_text(name: str, error: str, log: str | None, alone: str) -> str:
    """The message about a job that failed: three lines."""
    lines = [f"failed: {name}: {error}", f"log: {log or 'none'}", f"again, alone: {alone}"]
    return "\n".join([one_line(lines[0]), *(f"  {one_line(line)}" for line in lines[1:])])


def scale_words(
    paths: Iterable[Path | str], values: Mapping[str, Any], snakefile: Path | str
) -> list[str]:
    """The words of a command line with which Snakemake takes a configuration.

    Args:
        paths: the configuration's files, as Snakemake was given them.
        values: what it was given with ``--config``.
        snakefile: the workflow's.
    """
    words = []
    if values:
        given = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in values.items()]
        words += ["--config", *given]
    if files := list(map(from_here, paths)):
        words += ["--configfile", *files]
    if (found := from_here(snakefile)) not in FOUND:
        words += ["--snakefile", found]
    return words


def snakemake_alone(target: Path, options: Sequence[str], on_slurm: bool) -> str:
    """The command with which Snakemake makes one file, and nothing that depends on it.

    Args:
        target: of a run its provenance, as the rule ``train`` names it.
        options: of the configuration, see :func:`scale_words`.
        on_slurm: whether the command is to train on a cluster.
    """
    # The target comes first: --configfile takes a list, and would take it for another file.
    profile = ["--profile", "slurm"] if on_slurm else []
    return shlex.join(["snakemake", str(target), "--cores", "1", *profile, *options])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
