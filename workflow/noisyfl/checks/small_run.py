"""Runs that are small enough to be repeated often: a method on a few digits."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from noisyfl.core.artifacts import Results, RunFiles, read_table
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.methods import METHODS
from noisyfl.runs.train import Inputs, TrainingOptions, build_federation, train_run
from noisyfl.simulation.checkpoint import Checkpoint, Interrupted
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.rounds import simulate
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.weights import Weights
from noisyfl.specs.build import build_method
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run

Method = str | Mapping[str, Any]


class Failed(Exception):
    """A check has found something that is not as it should be."""


SETTING: dict[str, Any] = {
    "dataset": "digits",
    "partition": "dirichlet(alpha=5, clients=6, samples=600)",
    "label_noise": "symmetric",
    "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
    "model": "cnn",
    "augmentation": "crop",
    "normalization": "dataset",
    "schedule": {
        "rounds": 8,
        "participation": 0.5,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.05,
        "momentum": 0.5,
        "weight_decay": 0.0001,
    },
    "seed": 3,
}


def prepare_digits(folder: Path) -> Results:
    """A folder of results that holds the digits."""
    results = Results(folder)
    parts = (results.data("digits", part) for part in ("train", "test"))
    prepare("digits", folder, False, *parts)
    return results


def spec_of(method: Method, **changes: Any) -> dict[str, Any]:
    """The canonical spec of a method's small run.

    Args:
        changes: what is otherwise than in :data:`SETTING`.
    """
    return canonical_run({**SETTING, "method": method, **changes}, "small run")


def federation_of(
    spec: Mapping[str, Any],
    data: Results,
    folder: Path,
    executor: str = "fast",
    device: torch.device | str = "cpu",
    **options: Any,
) -> tuple[Federation, ServerSide, ClientSide]:
    """The federation of a run before its first round, and the method's two sides."""
    train, test = (read_part(data.data("digits", part)) for part in ("train", "test"))
    path = folder / "partition.parquet"
    noisy_partition.write(path, spec["noisy_partition"], train.labels)
    partition = noisy_partition.read(path)
    server, client = build_method(spec["method"], "small run")
    federation = build_federation(
        spec, client.networks, train, test, partition, torch.device(device), executor, **options
    )
    return federation, server, client


def rounds_of(
    spec: Mapping[str, Any],
    data: Results,
    folder: Path,
    executor: str,
    device: torch.device | str = "cpu",
    **options: Any,
) -> Federation:
    """The federation after a run's rounds; the arguments are those of :func:`federation_of`."""
    federation, server, client = federation_of(spec, data, folder, executor, device, **options)
    checkpoint = Checkpoint(folder / "run.pt", {}, math.inf)
    simulate(federation, server, client, checkpoint, lambda line: None)
    return federation


@contextmanager
def torch_as_it_was() -> Iterator[None]:
    """Put back what a check sets for all of torch."""
    dtype, mkldnn = torch.get_default_dtype(), torch.backends.mkldnn.enabled
    trials = torch.backends.cudnn.benchmark
    matrix, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.backends.mkldnn.enabled = mkldnn
        torch.backends.cudnn.benchmark = trials
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matrix, cudnn


def check_alike(one: Federation, other: Federation, tolerance: float) -> None:
    """Raise :class:`Failed` unless two federations have nearly the same weights, the same labels,
    and nearly the same records but for the seconds.

    Args:
        tolerance: of weights, see :func:`check_close`; records may be a hundred times as far apart.
    """
    right, found = (
        {name: value.cpu() for name, value in each.weights.items()} for each in (one, other)
    )
    check_close(right, found, tolerance)
    for client, its in zip(one.clients, other.clients, strict=True):
        if not torch.equal(client.labels.cpu(), its.labels.cpu()):
            raise Failed(f"the labels of client {client.id} are others")
    for table in ("rounds", "clients"):
        rows = zip(getattr(one.records, table), getattr(other.records, table), strict=True)
        for row, its_row in rows:
            _check_row(row, its_row, 100 * tolerance)


def check_close(one: Weights, other: Weights, tolerance: float) -> None:
    """Raise :class:`Failed` unless weights have the same names and nearly the same values.

    Args:
        tolerance: of each value, absolute and as a share of it.
    """
    if one.keys() != other.keys():
        raise Failed(f"got weights {sorted(other)}, expected {sorted(one)}")
    for name, value in one.items():
        if not torch.allclose(other[name], value, rtol=tolerance, atol=tolerance):
            apart = float((other[name] - value).abs().max())
            raise Failed(f"the weights {name} are not close: {apart:.1e} apart")


def _check_row(one: Mapping[str, Any], other: Mapping[str, Any], tolerance: float) -> None:
    """Raise :class:`Failed` unless two rows of a table are nearly the same, but for the seconds."""
    for name, value in one.items():
        found = other.get(name)
        if value is None or found is None or isinstance(value, str | list):
            same = value == found
        else:
            same = np.isclose(value, found, rtol=tolerance, atol=1e-9, equal_nan=True)
        if not same and name != "seconds":
            raise Failed(f"the column {name} has {found}, expected {value}")


def inputs(spec: Mapping[str, Any], data: Results) -> tuple[Path, Path, Path]:
    """The files that a run is made from, in results that hold the digits."""
    partition = data.partition(identity(spec["noisy_partition"]))
    if not partition.exists():
        labels = read_part(data.data("digits", "train")).labels
        noisy_partition.write(partition, spec["noisy_partition"], labels)
    return data.data("digits", "train"), data.data("digits", "test"), partition


def train_small(
    spec: Mapping[str, Any],
    data: Results,
    root: Path,
    log: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> RunFiles:
    """The files of a run, once it is trained on a CPU.

    Args:
        log: takes one line at a time.
    """
    files = Results(root).run(identity(spec))
    how = TrainingOptions(device="cpu", **options)
    train_run(spec, Inputs(*inputs(spec, data)), files, root / "run.pt", how, log)
    return files


def train_in_pieces(
    spec: Mapping[str, Any], data: Results, root: Path, most: int, **options: Any
) -> tuple[RunFiles, int]:
    """Train a run that is asked to end after every round, and goes on with another instance of its
    method, until it is complete.

    Returns:
        Its files, and how often it was interrupted.

    Raises:
        Interrupted: it is not complete after so many pieces.
    """

    def end(self: Checkpoint, rounds: int, federation: Federation) -> None:
        self._ask_to_end(signal.SIGTERM, None)

    with patch.object(Checkpoint, "after_round", end):
        for interruptions in range(most - 1):
            METHODS.forget_built()
            try:
                return train_small(spec, data, root, checkpoint_seconds=0, **options), interruptions
            except Interrupted:
                if (root / "runs").exists():
                    raise RuntimeError("an incomplete run has left an artifact") from None
        return train_small(spec, data, root, checkpoint_seconds=0, **options), most - 1


def content(files: RunFiles) -> dict[str, Any]:
    """Everything of a run that its spec decides: all but the seconds."""
    return {
        "rounds": read_table(files.rounds)[0].drop_columns(["seconds"]),
        "clients": read_table(files.clients)[0],
        "spec": files.spec.read_bytes(),
    }
