"""How fast a device trains, and federations of noise to try it with."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from noisyfl.data.datasets.dataset import DATASETS, DatasetPart
from noisyfl.data.noisy_partition import ClientSamples, NoisyPartition
from noisyfl.runs.train import build_federation
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.graphs import free_unused_memory
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method

SHOWN = (("cnn", 20), ("cnn4conv", 50), ("resnet18", 10))
"""Models and batch sizes whose speed the self-test says; a CPU's only of the first."""


def show_speeds(device: torch.device, say: Callable[[str], None]) -> None:
    """Say how fast the fast executor trains some models."""
    on_gpu = device.type == "cuda"
    for model, batch_size in SHOWN if on_gpu else SHOWN[:1]:
        clients, steps, precision = (16, 20, "tf32") if on_gpu else (2, 1, "float32")
        speed = samples_per_second(
            device, model, batch_size, clients, steps * batch_size, precision=precision
        )
        say(f"speed   {model}, batches of {batch_size}, {precision}: {speed:,.0f} samples/s")


def samples_per_second(
    device: torch.device, model: str, batch_size: int, clients: int, samples: int, **options: Any
) -> float:
    """Samples per second that FedAvg trains on, with all clients at once: the best of three rounds,
    the first of which warms up.
    """
    free_unused_memory(device)  # what earlier measurements left
    federation = random_federation(
        device, model, clients=clients, samples=samples, batch_size=batch_size, **options
    )
    _, client = build_method("fedavg", "selftest")
    tasks = [Task(each, federation.weights) for each in federation.clients]
    seconds = math.inf
    for round in range(3):
        begun = time.perf_counter()
        # The device is done when this returns, since the updates' losses are then on the host.
        federation.executor.local_updates(tasks, client, round, "training")
        seconds = min(seconds, time.perf_counter() - begun)
    return clients * samples / seconds


def random_federation(
    device: torch.device,
    model: str,
    *,
    clients: int,
    samples: int,
    batch_size: int,
    precision: str = "float32",
    test_samples: int = 100,
    **options: Any,
) -> Federation:
    """A federation of clients of equal size, whose images are noise.

    Args:
        model: a name of :data:`noisyfl.models.MODELS`.
        batch_size: of a local step.
        options: of the fast executor.
    """
    rng = np.random.default_rng(1)
    dataset = "digits" if model == "cnn" else "cifar10"
    shape, count = DATASETS[dataset].shape, clients * samples
    classes = tuple(map(str, range(10)))
    train, test = (
        DatasetPart(
            dataset,
            classes,
            rng.integers(0, 256, (n, *shape), dtype=np.uint8),
            rng.integers(0, 10, n),
        )
        for n in (count, test_samples)
    )
    rows = np.split(np.arange(count), clients)
    levels = np.zeros(clients)
    partition = NoisyPartition(
        {},
        tuple(ClientSamples(part, train.labels[part], train.labels[part]) for part in rows),
        levels,
        levels,
    )
    spec = {
        "model": model,
        "augmentation": "crop_flip",
        "normalization": "dataset",
        "seed": 1,
        "schedule": {
            "rounds": 1,
            "participation": 1.0,
            "local_epochs": 1,
            "batch_size": batch_size,
            "learning_rate": 0.001,
            "momentum": 0.5,
            "precision": precision,
        },
    }
    return build_federation(spec, 1, train, test, partition, device, "fast", **options)
