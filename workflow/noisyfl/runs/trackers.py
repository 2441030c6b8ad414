"""Trackers: what shows a run's columns while it is trained, each in its own way.

A tracker only reads rounds that are over. If it fails, the run goes on without it.
"""

from __future__ import annotations

import functools
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from noisyfl.data.datasets.dataset import dataset
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.rounds import Report
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run

PROJECT = "noisyfl"
"""The experiment in MLflow, and the project in Weights & Biases, that runs are put into."""


class Tracker(ABC):
    """Takes the numbers of one run, round by round.

    Args:
        spec: of the run.
        results: the folder of all artifacts; a tracker has a folder or file of its name in it.
    """

    @abstractmethod
    def __init__(self, spec: Mapping[str, Any], results: Path) -> None: ...

    @abstractmethod
    def write(self, round: int, numbers: Mapping[str, float]) -> None:
        """Write the columns of a round, which are finite numbers, by name."""

    @abstractmethod
    def close(self, finished: bool) -> None:
        """Say that the run has ended, or that it is interrupted and will go on."""


class TensorBoard(Tracker):
    """Event files in ``tensorboard/<id>/``."""

    def __init__(self, spec: Mapping[str, Any], results: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = str(results / "tensorboard" / identity(spec))
        # What a killed process wrote after its last checkpoint is written again.
        self._open = functools.partial(SummaryWriter, folder)
        self._writer: SummaryWriter | None = None

    def write(self, round: int, numbers: Mapping[str, float]) -> None:
        """Each column is a scalar."""
        self._writer = self._writer or self._open(purge_step=round)
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


class MLflow(Tracker):
    """A run of the experiment ``noisyfl``, in ``mlflow.db`` or where ``MLFLOW_TRACKING_URI`` says;
    a run that goes on is the same one.
    """

    def __init__(self, spec: Mapping[str, Any], results: Path) -> None:
        from mlflow import MlflowClient

        run = identity(spec)
        file = (results / "mlflow.db").absolute()
        file.parent.mkdir(parents=True, exist_ok=True)
        # Two runs that start together would both make the tables, or the experiment.
        with FileLock(file.with_suffix(".lock")):
            self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{file}"))
            found = self._client.get_experiment_by_name(PROJECT)
            experiment = found.experiment_id if found else self._client.create_experiment(PROJECT)
        same = self._client.search_runs(
            [experiment], f"attributes.run_name = '{run}'", max_results=1
        )
        self._written = 0  # rounds, also those after the last checkpoint of a killed process
        if same:
            self._run = same[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            for name in same[0].data.metrics:
                history = self._client.get_metric_history(self._run, name)
                self._written = max(self._written, *(metric.step for metric in history))
        else:
            self._run = self._client.create_run(experiment, run_name=run).info.run_id
            for name, value in parameters(spec).items():
                self._client.log_param(self._run, name, value)

    def write(self, round: int, numbers: Mapping[str, float]) -> None:
        """Each column is a metric, and the round its step."""
        from mlflow.entities import Metric

        if round <= self._written:
            return
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, round) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, finished: bool) -> None:
        """Set the status."""
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")


class WeightsAndBiases(Tracker):
    """A run of the project ``noisyfl``, in ``wandb/``: offline, unless ``WANDB_MODE`` says
    otherwise; ``wandb sync`` uploads it. A run that goes on has the same id.
    """

    def __init__(self, spec: Mapping[str, Any], results: Path) -> None:
        import wandb

        run = identity(spec)
        results.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=PROJECT,
            id=run,
            name=describe_run(spec)[:128],  # its longest
            config=parameters(spec),
            dir=results,
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            settings=wandb.Settings(console="off", silent=True, disable_git=True),
        )

    def write(self, round: int, numbers: Mapping[str, float]) -> None:
        """Each column is a metric, and the round its step."""
        self._run.log(dict(numbers), step=round)

    def close(self, finished: bool) -> None:
        """Wait until all is written."""
        self._run.finish(exit_code=0 if finished else 1)


TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def parameters(spec: Mapping[str, Any]) -> dict[str, str]:
    """What a run is, for people to filter by."""
    partition = spec["noisy_partition"]
    return {
        "run": identity(spec),
        "words": describe_run(spec),
        "dataset": dataset(partition["dataset"]).title,
        "partition": partition["partition"]["name"],
        "label_noise": partition["label_noise"]["name"],
        "model": spec["model"]["name"],
        "method": spec["method"]["name"],
        "seed": str(spec["seed"]),
    }


@contextmanager
def tracking(
    names: Sequence[str],
    spec: Mapping[str, Any],
    results: Path,
    federation: Federation,
    report: Report,
    log: Callable[[str], None],
) -> Iterator[Report]:
    """Context manager: a report that also gives each new round to trackers.

    Args:
        names: of :data:`TRACKERS`.
        results: the folder of all artifacts.
        log: takes a warning about a tracker that fails, which is given up.
    """
    there: dict[str, Tracker] = {}

    def attempt(name: str, work: Callable[..., None], *given: Any) -> None:
        try:
            work(*given)
        except Exception as error:
            there.pop(name, None)
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            log(f"warning: the tracker {name} failed, and the run continues without it ({why})")

    def start(name: str) -> None:
        there[name] = TRACKERS[name](spec, results)

    def report_and_write(
        rounds_done: int, rounds: int, seconds_left: float | None, accuracy: float | None
    ) -> None:
        if seconds_left is not None:  # at the start a resumed run's rounds are already written
            row = federation.records.rounds[-1]
            numbers = {
                name: float(value)
                for name, value in row.items()
                if isinstance(value, int | float) and math.isfinite(value) and name != "round"
            }
            for name, tracker in [*there.items()]:
                attempt(name, tracker.write, row["round"], numbers)
        report(rounds_done, rounds, seconds_left, accuracy)

    finished = False
    for name in names:
        attempt(name, start, name)
    try:
        yield report_and_write
        finished = True
    finally:
        for name, tracker in [*there.items()]:
            attempt(name, tracker.close, finished)
