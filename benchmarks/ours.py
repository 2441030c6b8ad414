"""The project's own simulation, as a rival among the others."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import Speed, Timing, Work, clock, speed
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DatasetPart
from noisyfl.runs.train import build_federation, choose_device
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.rounds import evaluate, simulate
from noisyfl.specs.build import build_method

FEDAVG = build_method("fedavg", "benchmark")


def train(
    model: str,
    dataset: str,
    work: Work,
    *,
    executor: str = "fast",
    precision: str = "float32",
    evaluate_every: int = 1,
) -> Federation:
    """Train with FedAvg, with everything that a run does but writing its artifact.

    Args:
        model: a name of :data:`noisyfl.models.MODELS`, with options.
        dataset: the dataset whose facts hold for the images.
        work: what to do.
        executor: a name of :data:`noisyfl.runs.train.EXECUTORS`.
        precision: a value of :attr:`noisyfl.simulation.schedule.Schedule.precision`.
        evaluate_every: rounds between two evaluations.
    """
    spec = {
        "model": model,
        "augmentation": "crop_flip",
        "normalization": "dataset",
        "seed": work.seed,
        "schedule": {
            "rounds": work.rounds,
            "participation": work.participants / len(work.clients),
            "local_epochs": work.local_epochs,
            "batch_size": work.batch_size,
            "learning_rate": work.learning_rate,
            "momentum": work.momentum,
            "evaluate_every": evaluate_every,
            "precision": precision,
        },
    }
    classes = tuple(map(str, range(int(work.train_labels.max()) + 1)))
    federation = build_federation(
        spec,
        1,
        DatasetPart(dataset, classes, work.train_images, work.train_labels),
        DatasetPart(dataset, classes, work.test_images, work.test_labels),
        _without_noise(work),
        choose_device(work.device),
        executor,
    )
    with TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "checkpoint.pt", {}, every=math.inf)
        simulate(federation, *FEDAVG, checkpoint, lambda line: None)
    return federation


def measure(
    model: str, dataset: str, work: Work, *, executor: str = "fast", precision: str = "float32"
) -> Speed:
    """The speed of :func:`train`, after a round that warms up; evaluation is timed by itself.

    ``work`` must have three rounds at least, since the last one, which is evaluated, is left out.
    """
    federation = train(
        model,
        dataset,
        work,
        executor=executor,
        precision=precision,
        evaluate_every=work.rounds,
    )
    evaluations = []
    for _ in range(3):
        begun = clock(work.device)
        accuracy = evaluate(*FEDAVG, federation)["test_accuracy"]
        evaluations.append(clock(work.device) - begun)
    return speed(
        [
            Timing(row["seconds"], row["samples_backward"], median(evaluations), accuracy)
            for row in federation.records.rounds[:-1]
        ]
    )


def _without_noise(work: Work) -> noisy_partition.NoisyPartition:
    clients: list[Any] = [
        noisy_partition.ClientSamples(rows, work.train_labels[rows], work.train_labels[rows])
        for rows in work.clients
    ]
    levels = torch.zeros(len(clients), dtype=torch.float64).numpy()
    return noisy_partition.NoisyPartition({}, tuple(clients), levels, levels)
