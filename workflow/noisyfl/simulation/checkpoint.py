"""Checkpoints: a run that was stopped goes on where it was, to the same result."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor
from torch.types import Storage
from torch.utils._pytree import keystr, tree_leaves, tree_leaves_with_path, tree_map_only

from noisyfl.core.artifacts import is_transient, replacing, why_not_loaded
from noisyfl.core.options import BadInput
from noisyfl.simulation.federation import Federation


class Interrupted(BaseException):
    """The run was asked to end, and goes on from its checkpoint when it is started again.

    It is raised wherever the signal comes in, so also in torch's and other libraries' code, which
    would take an ``Exception`` for an error of their own.
    """


PLACES = {
    "weights": "federation.weights",
    "state": "federation.state",
    "labels": "client.labels",
    "client_states": "client.state",
}
"""What a checkpoint calls the tensors that outlive a round, and where a method finds them."""

STORABLE = (Tensor, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""What a checkpoint may hold, beside lists and mappings of these."""

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
        machine: where the run is trained. It may go on elsewhere, as on the CPU when a GPU is no
            longer lent; its numbers then differ by how the two round.

    Attributes:
        earlier: the machines that trained the run before this one, each with its last round.
    """

    def __init__(
        self,
        path: Path,
        key: dict[str, str],
        every: float,
        log: Callable[[str], None] = print,
        machine: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self.key = key
        self.every = every
        self.log = log
        self.machine = dict(machine)
        self.earlier: list[dict[str, Any]] = []
        self.rounds_saved = 0
        self._saved = time.monotonic()
        self._cost = 0.0
        self._asked_to_end = False
        self._in_round = False

    def restore(self, federation: Federation) -> tuple[int, str]:
        """Restore a federation to the state that the checkpoint holds.

        Args:
            federation: before its first round.

        Returns:
            The number of rounds done, and a log line that says what was found.

        Raises:
            Exception: of the machine; the checkpoint stays where it is, for another attempt.
        """
        if not self.path.exists():
            return 0, "no checkpoint; starting with the first round"
        try:
            content = self._read(federation)
            differing = [name for name in self.key if content["key"].get(name) != self.key[name]]
            if differing:
                aside = self._aside("refused")
                what = ", ".join(differing)
                return 0, f"checkpoint of another {what} set aside as {aside}; starting over"
            shapes = [client.labels.shape for client in federation.clients]
            if [labels.shape for labels in content["labels"]] != shapes:
                raise ValueError("its labels are those of other clients")
            content = _on_device(content, federation.executor.device)
        except Exception as error:
            if is_transient(error) or _of_the_gpu(error):
                raise
            # torch's unpickler may raise any other exception; whichever it is, the run can start
            # over.
            why = why_not_loaded(error)
            aside = self._aside("damaged")
            return 0, f"checkpoint damaged ({why}); set aside as {aside}; starting over"
        federation.weights = content["weights"]
        federation.state = content["state"]
        for client, labels, state in zip(
            federation.clients, content["labels"], content["client_states"], strict=True
        ):
            client.labels, client.state = labels, state
        records = federation.records
        records.rounds, records.clients, records.counted = content["records"]
        if records.ledger is not None:
            records.ledger.state = content["ledger"]
        rounds = self.rounds_saved = content["rounds"]
        federation.round = max(0, rounds - 1)
        self.earlier = content["earlier"]
        if content["machine"] == self.machine:
            return rounds, f"resuming after round {rounds}"
        self.earlier.append({**content["machine"], "rounds": rounds})
        there = ", ".join(content["machine"].values())
        return rounds, f"resuming after round {rounds}, trained elsewhere until then ({there})"

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
            BadInput: the method has written in place to a tensor from before the round.
        """
        before = self._content(rounds, federation)
        versions = _versions(before)
        try:
            self._in_round = True
            if self._asked_to_end:
                raise Interrupted
            yield
            for name, found in _versions(before).items():
                if found != versions[name]:
                    raise BadInput(
                        f"the method has written in place to a tensor, list or mapping in "
                        f"{PLACES[name]} in round {rounds + 1}, expected a new one in its place, "
                        "such as torch.where(mask, new, old) or [*old, new]"
                    )
            self._check_storable(rounds + 1, federation)
        except Interrupted:
            self._in_round = False
            if rounds > self.rounds_saved:
                self._save(before)
            raise self._interrupted() from None
        finally:
            self._in_round = False

    def _check_storable(self, round: int, federation: Federation) -> None:
        """Raise :class:`BadInput` if a method keeps what a checkpoint cannot hold."""
        kept = {
            "state": federation.state,
            "client_states": [client.state for client in federation.clients],
        }
        for name, states in kept.items():
            for path, leaf in tree_leaves_with_path(states):
                if not isinstance(leaf, STORABLE) or isinstance(leaf, np.generic):
                    raise BadInput(
                        f"{PLACES[name]}: got {type(leaf).__name__} at {keystr(path)} in round "
                        f"{round}, expected tensors, numbers, texts, and lists or mappings of these"
                    )

    def after_round(self, rounds: int, federation: Federation) -> None:
        """Save a checkpoint if enough time has passed since the last one."""
        wait = max(self.every, self._cost / SHARE)
        if time.monotonic() - self._saved >= wait:
            self._save(self._content(rounds, federation))

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
                    self._save(self._content(rounds, federation))
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

    def _aside(self, why: str) -> Path:
        """Set the file aside; returns where it is then."""
        aside = self.path.with_suffix(f".{why}")
        self.path.replace(aside)
        return aside

    def _interrupted(self) -> Interrupted:
        text = f"asked to end; its checkpoint is from after round {self.rounds_saved}"
        return Interrupted(text)

    def _read(self, federation: Federation) -> dict[str, Any]:
        """What the file holds.

        Raises:
            ValueError: the file does not match its checksums. The libraries that read it may raise
                other exceptions.
        """
        # torch.load does not look at the checksums that torch.save has written.
        with ZipFile(self.path) as file:
            changed = file.testzip()
        if changed is not None:
            raise ValueError(f"{changed} does not match its checksum")
        device = str(federation.executor.device)

        def place(stored: Storage, where: str) -> Storage:
            """Keep on the host what was on the host; all else goes to the run's device, since its
            GPU may have another number than when the checkpoint was saved.
            """
            where = where if where == "cpu" else device
            return torch.serialization.default_restore_location(stored, where)

        # Said, since otherwise an environment variable of torch's lets a file run code.
        content: dict[str, Any] = torch.load(self.path, map_location=place, weights_only=True)
        return content

    def _content(self, rounds: int, federation: Federation) -> dict[str, Any]:
        records = federation.records
        return {
            "key": self.key,
            "machine": self.machine,
            "earlier": self.earlier,
            "rounds": rounds,
            "weights": federation.weights,
            "state": dict(federation.state),
            "labels": [client.labels for client in federation.clients],
            "client_states": [dict(client.state) for client in federation.clients],
            "records": (list(records.rounds), list(records.clients), records.counted),
            **({} if records.ledger is None else {"ledger": records.ledger.state}),
        }

    def _save(self, content: dict[str, Any]) -> None:
        begun = time.monotonic()
        try:
            with replacing(self.path) as draft:
                torch.save(content, draft)
        except (OSError, RuntimeError) as error:  # RuntimeError: torch, full disk
            self.log(f"no checkpoint could be written: {error}")
        else:
            self.rounds_saved = content["rounds"]
        self._saved = time.monotonic()
        self._cost = self._saved - begun


def _versions(content: Mapping[str, Any]) -> dict[str, list[int]]:
    """How often each tensor that outlives a round has been written to in place."""
    leaves = {name: tree_leaves(content[name]) for name in PLACES}
    return {
        name: [
            leaf._version for leaf in found if isinstance(leaf, Tensor) and not leaf.is_inference()
        ]
        for name, found in leaves.items()
    }


def _on_device(content: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """What a checkpoint holds. If it was written on a CPU and the run is on a GPU, its tensors are
    moved there, but for the ledger's; in a GPU's checkpoint, those on the host belong there.
    """
    if device.type != "cuda" or any(value.is_cuda for value in content["weights"].values()):
        return content

    @cache  # a tensor that several clients keep remains a single one
    def move(value: Tensor) -> Tensor:
        return value.to(device)

    return content | {name: tree_map_only(Tensor, move, content[name]) for name in PLACES}


def _of_the_gpu(error: Exception) -> bool:
    """Whether an error is a GPU's, or of its memory: torch raises a RuntimeError, as it does for a
    file that it cannot read.
    """
    return isinstance(error, RuntimeError) and ("CUDA" in str(error) or "allocate" in str(error))
