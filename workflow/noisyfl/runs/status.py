"""The status file of a run that is under way, and the message about a run that failed."""

from __future__ import annotations

import argparse
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
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from noisyfl.core.artifacts import DamagedArtifact, Results, read_json, write_json
from noisyfl.core.options import BadInput
from noisyfl.core.paths import from_here
from noisyfl.core.text import one_line
from noisyfl.core.typed import Typed

WRITE_SECONDS = 10.0
"""Shortest time between two writes of how many rounds are done, once a run has trained for long."""

WRITE_SHARE = 0.1
"""Before that, this time as a share of the run's time so far."""

BEAT_SECONDS = 60.0
"""Time between two writes that show that the run is alive, since a round may take hours."""

FOUND = ("Snakefile", "workflow/Snakefile")
"""Where Snakemake finds a workflow by itself."""


Moment = Annotated[AwareDatetime, Field(strict=False)]  # JSON has it as a text


class StatusRecord(Typed):
    """The status of a run, a small JSON file (:meth:`noisyfl.core.artifacts.Results.status`). A
    complete run has none.

    Attributes:
        setting: the run in words.
        rounds_done: by this attempt and those before it; None until the first round begins, as
            are ``rounds``, of the complete run, and ``resumed_after``.
        accuracy: on the test part, of 1; None until a round is evaluated.
        seconds_left: after ``updated``; None until a round is done.
        error: in one line.
        permanent: whether another attempt would end with the same error.
        log: a path.
        slurm_job: the id of the Slurm job that trains the run.
    """

    model_config = ConfigDict(extra="ignore")

    state: Literal["running", "interrupted", "failed"] = "running"
    setting: str
    host: str
    process: int
    begun: Moment
    updated: Moment
    rounds_done: int | None = None
    rounds: int | None = None
    resumed_after: int | None = None
    accuracy: float | None = None
    seconds_left: float | None = None
    error: str | None = None
    traceback: str | None = None
    permanent: bool = False
    log: str | None = None
    slurm_job: str | None = None

    def age(self, now: datetime) -> float:
        """Seconds since the run's last sign of life."""
        return (now - self.updated).total_seconds()


class RunStatus:
    """The status file of one run. If it cannot be written, the run goes on without it."""

    def __init__(self, path: Path, setting: str, log: str | None) -> None:
        self._path = path
        self._status = StatusRecord(
            setting=setting,
            host=platform.node(),
            process=os.getpid(),
            begun=_now(),
            updated=_now(),
            log=log,
            slurm_job=os.environ.get("SLURM_JOB_ID"),
        )
        self._ends_at: float | None = None
        self._begun = time.monotonic()
        self._written = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def begin(self) -> None:
        """Write that the run is being prepared, and from then on regularly that it is alive."""
        with self._lock:
            self._write()
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
            rounds: of the complete run.
            seconds_left: until the run is complete, if that is known yet.
            accuracy: on the test part, if this round was evaluated.
        """
        now = time.monotonic()
        first = self._status.resumed_after is None
        due = min(WRITE_SECONDS, WRITE_SHARE * (now - self._begun))
        with self._lock:
            changes: dict[str, Any] = {"rounds_done": rounds_done, "rounds": rounds}
            if first:
                changes["resumed_after"] = rounds_done
            if accuracy is not None:
                changes["accuracy"] = accuracy
            self._change(**changes)
            self._ends_at = None if seconds_left is None else now + seconds_left
            if first or rounds_done == rounds or now - self._written >= due:
                self._write()

    def interrupt(self) -> None:
        """Write that the run was asked to end; it resumes when it is started again."""
        self._end(state="interrupted")

    def fail(self, error: str, permanent: bool = False) -> None:
        """Write that the run ended with an error, which is kept as one line, and whether another
        attempt would end with the same error.
        """
        # Kept here too, since Snakemake overwrites a run's log with each attempt.
        trace = traceback.format_exc() if permanent else None
        self._end(state="failed", error=one_line(error), permanent=permanent, traceback=trace)

    def known_failure(self) -> tuple[str, str] | None:
        """Why the attempt before this one failed, if this one would fail too.

        The reason is the error as one line, and Python's traceback.
        """
        with suppress(OSError, DamagedArtifact):  # then the run is simply tried
            before = read_status(self._path)
            if before is not None and before.state == "failed" and before.permanent:
                return before.error or "", before.traceback or ""
        return None

    def remove(self) -> None:
        """Remove the status of a complete run: its artifact has all facts."""
        with self._lock, suppress(OSError):
            self._over.set()
            self._path.unlink(missing_ok=True)

    def _end(self, **changes: Any) -> None:
        with self._lock:
            self._over.set()
            self._change(**changes)
            self._write()

    def _change(self, **changes: Any) -> None:
        self._status = self._status.model_copy(update=changes)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            with self._lock:
                if not self._over.is_set():  # the run may have ended since
                    self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        left = None if self._ends_at is None else max(0.0, self._ends_at - self._written)
        with suppress(OSError):
            self._change(updated=_now(), seconds_left=left)
            write_json(self._path, self._status.model_dump(mode="json"))


def read_status(path: Path) -> StatusRecord | None:
    """The status of a run, or None if there is none.

    Raises:
        DamagedArtifact: the file is not a status.
        OSError: it cannot be read.
    """
    try:
        return StatusRecord.read(read_json(path))
    except FileNotFoundError:
        return None
    except BadInput as error:
        raise DamagedArtifact(f"{path}: not a status ({error}); delete it") from None


def read_statuses(results: Results) -> tuple[dict[str, StatusRecord], dict[str, str]]:
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


def forget_failures(results: Results, runs: Iterable[str]) -> None:
    """Remove the statuses of runs that failed before, as their causes may be repaired since."""
    statuses, _ = read_statuses(results)
    for run in runs:
        if run in statuses and statuses[run].state == "failed":
            results.status(run).unlink(missing_ok=True)


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


def slurm_profiles(words: Sequence[str] = ()) -> list[str]:
    """The profiles with which Snakemake trains on a cluster: those that it was given, or else the
    repository's.

    Args:
        words: of Snakemake's command line, if it is known.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="append")
    given = parser.parse_known_args(words)[0].profile or [os.environ.get("SNAKEMAKE_PROFILE")]
    return [one for one in given if one not in (None, "", "none")] or ["slurm"]


def snakemake_alone(target: Path, options: Sequence[str], profiles: Sequence[str] = ()) -> str:
    """The command with which Snakemake makes one file, and nothing that depends on it.

    Args:
        target: of a run its provenance, as the rule ``train`` names it.
        options: of the configuration, see :func:`scale_words`.
        profiles: that the command needs, such as those of :func:`slurm_profiles`.
    """
    # The target comes first: --configfile takes a list, and would take it for another file.
    given = [word for profile in profiles for word in ("--profile", profile)]
    return shlex.join(["snakemake", str(target), "--cores", "1", *given, *options])


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
