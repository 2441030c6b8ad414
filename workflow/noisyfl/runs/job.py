"""A training job, whether a Snakemake script or a person starts it.

This is the only entry point to training: a run has one lock, one log, one status and one
checkpoint.
"""

from __future__ import annotations

import errno
import logging
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from noisyfl.core.artifacts import NO_ROOM, DamagedArtifact, Results, RunFiles, remove_drafts
from noisyfl.core.log import log_to
from noisyfl.core.options import BadInput
from noisyfl.core.plugins import is_of_plugin, with_line
from noisyfl.core.provenance import read_provenance
from noisyfl.core.text import one_line
from noisyfl.data.datasets.dataset import dataset
from noisyfl.models import WeightFiles
from noisyfl.runs.artifact import verify
from noisyfl.runs.devices import gpu_seat
from noisyfl.runs.gpu import NoGpu
from noisyfl.runs.kept_labels import has_labels
from noisyfl.runs.status import RunStatus
from noisyfl.runs.store import forget, put_in_place, when_there_is_room
from noisyfl.runs.train import Inputs, TrainingOptions, train_run
from noisyfl.simulation.checkpoint import Interrupted
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import check_run

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers of a file system that has no locks."""


@dataclass(frozen=True)
class Outcome:
    """How a training job ended.

    Attributes:
        error: why the run is not complete, in one line, or None if it is.
        interrupted: it was asked to end, and resumes from its checkpoint when started again.
    """

    error: str | None = None
    interrupted: bool = False


@dataclass(frozen=True)
class TrainingJob:
    """All that a process must know to train a run; paths are text, so that JSON can hold it.

    Attributes:
        spec: canonical, as :func:`noisyfl.specs.spec.canonical_run` makes it.
        results: the folder of all results, with the dataset's parts and the noisy partition.
        data: the data folders, for published weights.
        download: fetch what is missing there.
        device: see :func:`noisyfl.runs.train.choose_device`.
        executor: a name of :data:`noisyfl.runs.train.EXECUTORS`.
        checkpoint_seconds: time between two checkpoints.
        keep_models: also save the final model.
        keep_labels: also save what the run found about each sample's label. A complete run without
            what it should keep is trained once more for it, and its artifact stays as it is.
        trackers: names of :data:`noisyfl.runs.trackers.TRACKERS`.
        attempt: counts Snakemake's attempts from 1.
    """

    spec: dict[str, Any]
    results: str
    data: Sequence[str] = ()
    download: bool = False
    device: str = "auto"
    executor: str = "fast"
    checkpoint_seconds: float = 60
    keep_models: bool = False
    keep_labels: bool = False
    trackers: tuple[str, ...] = ()
    attempt: int = 1

    @cached_property
    def run_id(self) -> str:
        """The id of the run."""
        return identity(self.spec)

    @cached_property
    def layout(self) -> Results:
        """The layout of the folder of all results."""
        return Results(Path(self.results))

    @property
    def log(self) -> str:
        """The log file."""
        return str(self.layout.log(self.run_id))

    @property
    def run_files(self) -> RunFiles:
        """The files of the run's artifact, as tables and figures know them."""
        return self.layout.run(self.run_id)

    @property
    def done(self) -> bool:
        """Whether the run is complete, with everything that it should keep."""
        return self.has_all(self.run_files)

    def has_all(self, files: RunFiles) -> bool:
        """Whether these files are complete, with everything that the run should keep; a diverged
        run keeps nothing.
        """
        lacks_labels = self.keep_labels and not has_labels(self.run_id, files)
        models = files.model, self.layout.stored(self.run_id).no_model
        lacks_model = self.keep_models and not any(path.exists() for path in models)
        return files.whole() and (
            not (lacks_labels or lacks_model)
            or read_provenance(files.provenance, self.run_id).status == "diverged"
        )

    def failure(self, error: str) -> str:
        """The message about a run that failed: two lines."""
        return f"failed: {one_line(f'{describe_run(self.spec)}: {error}')}\n  log: {self.log}"

    @property
    def status(self) -> RunStatus:
        """What the run says of itself while it is under way."""
        path = self.layout.status(self.run_id)
        return RunStatus(path, describe_run(self.spec), self.log)

    def run(self, echo: bool = False) -> Outcome:
        """Train the run, or wait for another process that does; a complete run is not retrained.

        Args:
            echo: print to standard output what the log says, but for errors.
        """
        status = self.status
        with log_to(Path(self.log), echo=echo) as log:
            if self.attempt > 1 and (known := status.known_failure()):
                error_before, advice = known
                log.error(
                    f"not tried again, as it would fail in the same way: {error_before}\n{advice}"
                )
                return Outcome(error_before)
            try:
                outcome = self._whole_run(log, status)
            except (BadInput, DamagedArtifact) as error:
                status.fail(str(error), permanent=not isinstance(error, NoGpu))
                log.error(f"error: {error}")
                return Outcome(str(error))
            except Exception as error:
                text = with_line(error, is_of_plugin)
                status.fail(text, permanent=is_permanent(error))
                log.exception(f"error: {text}")
                return Outcome(text)
            except BaseException:  # Ctrl-C
                status.interrupt()
                raise
            if outcome.interrupted:
                status.interrupt()
                log.info(outcome.error)
            else:
                status.remove()
        return outcome

    def _whole_run(self, log: logging.Logger, status: RunStatus) -> Outcome:
        """Under the run's lock, train it unless the store has it, and put its files in place.

        Errors are raised.
        """
        checkpoint, stored = self.layout.checkpoint(self.run_id), self.layout.stored(self.run_id)
        with only_trainer(checkpoint.with_suffix(".lock"), log.info) as alone:
            if alone:
                for path in (*stored.all(), *self.run_files.all(), checkpoint):
                    remove_drafts(path)
            whole = self._is_stored(log)
            if not (whole and self.has_all(stored)):
                status.begin()
                # Whoever has read the artifact of a complete run finds it as it was.
                files = RunFiles(stored.folder / "again") if whole else stored
                outcome = self._train(log, status, files)
                if outcome.interrupted:
                    return outcome
                if whole:
                    for kept, place in (
                        (files.labels, stored.labels),
                        (files.model, stored.model),
                        (files.no_model, stored.no_model),
                    ):
                        with suppress(FileNotFoundError):  # of a run that diverges this time
                            kept.replace(place)
                    shutil.rmtree(files.folder)
            for suffix in (".pt", ".refused", ".damaged"):
                checkpoint.with_suffix(suffix).unlink(missing_ok=True)
            put_in_place(stored, self.run_files)
            return Outcome()

    def _is_stored(self, log: logging.Logger) -> bool:
        """Whether the store has the complete run; a damaged one is forgotten."""
        stored = self.layout.stored(self.run_id)
        if not stored.whole():
            return False
        try:
            verify(self.run_id, stored)
        except DamagedArtifact as error:
            log.warning(f"{error}; training the run again")
            forget(stored)
            return False
        log.info(f"already complete: {stored.folder} ({describe_run(self.spec)})")
        return True

    def _train(self, log: logging.Logger, status: RunStatus, files: RunFiles) -> Outcome:
        # A method edited since the spec was made is not the revision that the spec names.
        check_run(self.spec, "spec")
        layout, partition = self.layout, self.spec["noisy_partition"]
        name = dataset(partition["dataset"]).name
        inputs = Inputs(
            layout.data(name, "train"),
            layout.data(name, "test"),
            layout.partition(identity(partition)),
        )
        handler = signal.getsignal(signal.SIGTERM)
        # For a GPU that the user names nobody waits. The process has asked CUDA nothing so far.
        any_gpu = self.device in ("auto", "cuda") and torch.backends.cuda.is_built()
        try:
            with gpu_seat(log.info) if any_gpu else nullcontext():
                options = TrainingOptions(
                    device=self.device,
                    executor=self.executor,
                    weight_files=WeightFiles([Path(root) for root in self.data], self.download),
                    checkpoint_seconds=self.checkpoint_seconds,
                    keep_model=self.keep_models,
                    keep_labels=self.keep_labels,
                    trackers=self.trackers,
                    results=layout.root,
                )
                checkpoint = layout.checkpoint(self.run_id)
                train_run(self.spec, inputs, files, checkpoint, options, log.info, status.report)
        except Interrupted as interrupted:
            return Outcome(str(interrupted), interrupted=True)
        finally:
            # Between two runs of a process the signal ends it; the last run's checkpoint is done.
            signal.signal(signal.SIGTERM, handler)
        return Outcome()


def is_permanent(error: Exception) -> bool:
    """Whether another attempt would end with the same error.

    A run repeats its computation exactly, so only errors of the machine or the network may pass:
    those of memory, devices, file systems and downloads. But a full disk stays full, and a missing
    file stays missing.
    """
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return True
    passing = OSError | MemoryError | RuntimeError  # the last is torch's, of a GPU or an allocator
    return isinstance(error, FileNotFoundError) or not isinstance(error, passing)


@contextmanager
def only_trainer(path: Path, log: Callable[[str], None]) -> Iterator[bool]:
    """Wait until no other process trains the run, such as one left by an aborted Snakemake.

    If the file system has no locks, do not wait.

    Args:
        path: of the run's lock file, which exists as long as somebody holds the lock.
        log: takes one line.

    Yields:
        Whether no other process trains the run; False if the file system has no locks.
    """
    # Other users of the results folder open the same file. Without locks, filelock would use a
    # marker file, which a killed process leaves for good.
    lock = FileLock(path, mode=0o666, fallback_to_soft=False)

    def take() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log("another process trains this run; waiting for it to end")
            lock.acquire(poll_interval=1.0)

    try:
        when_there_is_room(take, log, time.sleep)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        log(f"no locks on this file system ({error.strerror})")
        yield False
        return
    try:
        yield True
    finally:
        # A process that waits for this lock file then takes the next file of that name.
        path.unlink(missing_ok=True)
        lock.release()
