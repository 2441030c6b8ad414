"""Checkpoints: a run that was stopped goes on where it was, to the same result."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from noisyfl.artifacts import replacing
from noisyfl.simulation.federation import Federation


class Interrupted(Exception):
    """The run was asked to end; a checkpoint of its last whole round was written."""


class Checkpoint:
    """The checkpoint file of one run.

    Args:
        path: where it lies, outside of the run's declared outputs, which a failed job loses.
        key: what the run is and what computes it. A checkpoint of another key is not loaded.
        every: seconds between two checkpoints.
    """

    def __init__(self, path: Path, key: dict[str, str], every: float) -> None:
        self.path = path
        self.key = key
        self.every = every
        self._saved = time.monotonic()
        self._asked_to_end = False

    def restore(self, federation: Federation) -> tuple[int, str]:
        """Put a federation where the checkpoint left it.

        Returns:
            The number of rounds done, and a line on what was found.
        """
        if not self.path.exists():
            return 0, "no checkpoint; starting with the first round"
        try:
            held = torch.load(self.path, map_location=federation.executor.device)
        except Exception as error:
            # torch raises whatever its unpickler trips over; none of it is worth losing the run.
            return 0, f"checkpoint unreadable ({type(error).__name__}); starting over"
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
        return held["rounds"], f"resuming after round {held['rounds']}"

    def after_round(self, rounds: int, federation: Federation) -> None:
        """Save if it is time to, or if the run was asked to end.

        Raises:
            Interrupted: the run was asked to end.
        """
        due = time.monotonic() - self._saved >= self.every
        if due or self._asked_to_end:
            self._save(rounds, federation)
        if self._asked_to_end:
            raise Interrupted(f"asked to end; checkpoint written after round {rounds}")

    def end_on_sigterm(self) -> None:
        """From now on SIGTERM ends the run after the round under way."""
        signal.signal(signal.SIGTERM, self._ask_to_end)

    def remove(self) -> None:
        """The run is whole; its checkpoint is of no more use."""
        self.path.unlink(missing_ok=True)

    def _ask_to_end(self, signum: int, frame: FrameType | None) -> None:
        self._asked_to_end = True

    def _save(self, rounds: int, federation: Federation) -> None:
        records = federation.records
        held: dict[str, Any] = {
            "key": self.key,
            "rounds": rounds,
            "weights": federation.weights,
            "state": federation.state,
            "labels": [client.labels for client in federation.clients],
            "client_states": [client.state for client in federation.clients],
            "records": (records.rounds, records.clients, records.slots),
        }
        with replacing(self.path) as draft:
            torch.save(held, draft)
        self._saved = time.monotonic()
