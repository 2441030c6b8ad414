"""Checkpoints: a run that was stopped goes on where it was, to the same result."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from zipfile import ZipFile

import torch
from torch.types import Storage

from noisyfl.core.artifacts import replacing
from noisyfl.simulation.federation import Federation


class Interrupted(Exception):
    """The run was asked to end, and goes on from its checkpoint when it is started again.

    Attributes:
        rounds_done: the number of rounds done in that checkpoint.
    """

    def __init__(self, text: str = "", rounds_done: int = 0) -> None:
        super().__init__(text)
        self.rounds_done = rounds_done


SHARE = 0.05
"""The largest share of a run's time spent on writing checkpoints, however large they are."""


class Checkpoint:
    """The checkpoint file of one run.

    Args:
        path: of the file. It is not among the run's declared outputs, which a failed job loses.
        key: what the run is and what computes it. A checkpoint with another key is not loaded.
        every: the least number of seconds between two checkpoints; it is longer where writing one
            takes long.
        log: takes a line if a checkpoint could not be written; the run goes on.
    """

    def __init__(
        self, path: Path, key: dict[str, str], every: float, log: Callable[[str], None] = print
    ) -> None:
        self.path = path
        self.key = key
        self.every = every
        self.log = log
        self.rounds_saved = 0
        self._saved = time.monotonic()
        self._cost = 0.0
        self._asked_to_end = False
        self._in_round = False

    def restore(self, federation: Federation) -> tuple[int, str]:
        """Restore a federation to the state that the checkpoint holds.

        Returns:
            The number of rounds done, and a log line that says what was found.
        """
        if not self.path.exists():
            return 0, "no checkpoint; starting with the first round"
        try:
            held = self._read(federation)
        except Exception as error:
            # torch's unpickler may raise any exception; whichever it is, the run can start over.
            aside = self.path.with_suffix(".damaged")
            self.path.replace(aside)
            why = " ".join(str(error).split()) or type(error).__name__
            return 0, f"checkpoint damaged ({why}); set aside as {aside}; starting over"
        if held["key"] != self.key:
            differing = [name for name in self.key if held["key"].get(name) != self.key[name]]
            return 0, f"checkpoint of another {', '.join(differing)} refused; starting over"
        federation.weights = held["weights"]
        federation.state = held["state"]
        for client, labels, state in zip(
            federation.clients, held["labels"], held["client_states"], strict=True
        ):
            client.labels, client.state = labels, state
        records = federation.records
        records.rounds, records.clients, records.slots = held["records"]
        self.rounds_saved = held["rounds"]
        return held["rounds"], f"resuming after round {held['rounds']}"

    @contextmanager
    def guard(self, rounds: int, federation: Federation) -> Iterator[None]:
        """Context manager around a round: if the run is asked to end within it, save the state from
        before the round, and end at once.

        The state from before is still there, since a round replaces what it changes, and writes in
        place to no tensor that outlives it.

        Args:
            rounds: the number of rounds done so far.
            federation: between two rounds.

        Raises:
            Interrupted: the run was asked to end.
        """
        before = self._held(rounds, federation)
        try:
            self._in_round = True
            if self._asked_to_end:
                raise Interrupted
            yield
        except Interrupted:
            self._in_round = False
            self._save(before)
            raise self._interrupted() from None
        finally:
            self._in_round = False

    def after_round(self, rounds: int, federation: Federation) -> None:
        """Save a checkpoint if enough time has passed since the last one."""
        wait = max(self.every, self._cost / SHARE)
        if time.monotonic() - self._saved >= wait:
            self._save(self._held(rounds, federation))

    def pause(self, seconds: float, rounds: int, federation: Federation) -> None:
        """Wait after the last round.

        Args:
            seconds: to wait.
            rounds: the number of rounds done after which the run may be resumed. A run that
                diverged must not be resumed after its last round: for it, those of the last
                checkpoint.
            federation: as the last round left it.

        Raises:
            Interrupted: the run was asked to end.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._asked_to_end:
                if rounds > self.rounds_saved:
                    self._save(self._held(rounds, federation))
                raise self._interrupted()
            time.sleep(0.2)

    def end_on_sigterm(self) -> None:
        """From now on SIGTERM ends the run: at once in a round, else before the next one."""
        signal.signal(signal.SIGTERM, self._ask_to_end)

    def remove(self) -> None:
        """Delete the file, which a complete run does not need."""
        self.path.unlink(missing_ok=True)

    def _ask_to_end(self, signum: int, frame: FrameType | None) -> None:
        self._asked_to_end = True
        if self._in_round:
            # A second signal must not interrupt the handling of the first one.
            self._in_round = False
            raise Interrupted

    def _interrupted(self) -> Interrupted:
        text = f"asked to end; its checkpoint is from after round {self.rounds_saved}"
        return Interrupted(text, self.rounds_saved)

    def _read(self, federation: Federation) -> dict[str, Any]:
        """What the file holds.

        Raises:
            ValueError: the file does not match its checksums, or is no checkpoint of a run. The
                libraries that read it may raise other exceptions.
        """
        # torch.load does not look at the checksums that torch.save has written.
        with ZipFile(self.path) as file:
            changed = file.testzip()
        if changed is not None:
            raise ValueError(f"{changed} does not fit its checksum")
        device = str(federation.executor.device)

        def place(stored: Storage, where: str) -> Storage:
            """Keep on the host what was on the host; all else goes to the run's device, since its
            GPU may have another number than when the checkpoint was saved.
            """
            where = where if where == "cpu" else device
            return torch.serialization.default_restore_location(stored, where)

        held = torch.load(self.path, map_location=place)
        known = self._held(0, federation)
        if not isinstance(held, dict) or any(
            not isinstance(held.get(name), type(value)) for name, value in known.items()
        ):
            raise ValueError("it is not what a run saves")
        return held

    def _held(self, rounds: int, federation: Federation) -> dict[str, Any]:
        records = federation.records
        return {
            "key": self.key,
            "rounds": rounds,
            "weights": federation.weights,
            "state": dict(federation.state),
            "labels": [client.labels for client in federation.clients],
            "client_states": [dict(client.state) for client in federation.clients],
            "records": (list(records.rounds), list(records.clients), records.slots),
        }

    def _save(self, held: dict[str, Any]) -> None:
        begun = time.monotonic()
        try:
            with replacing(self.path) as draft:
                torch.save(held, draft)
        except (OSError, RuntimeError) as error:  # RuntimeError: torch, full disk
            self.log(f"no checkpoint could be written: {error}")
        else:
            self.rounds_saved = held["rounds"]
        self._saved = time.monotonic()
        self._cost = self._saved - begun
