"""How fast a device trains: which slots and layouts suit it, and the factors for estimates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
import torch

from noisyfl.data.datasets.dataset import DATASETS, Part
from noisyfl.data.noisy_partition import ClientSamples, NoisyPartition
from noisyfl.runs.train import build_federation
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.graphs import free_unused_memory
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method
from noisyfl.specs.extent import network_of
from noisyfl.specs.gpu_facts import Layout
from noisyfl.specs.speeds import KERNELS, PRECISIONS, Layer

COUNTS = {"slots": (1, 2, 4, 8, 16), "steps_a_graph": (1, 4, 8)}
"""What is tried of the fast executor's options that are numbers."""

LARGE, SMALL = ("resnet18", 10), ("cnn4conv", 50)
"""Models and batch sizes of the papers, by which all is measured but launches."""

BFLOAT16 = 8, 0
"""The compute capability from which on cuDNN has convolutions in bfloat16."""

TINY = ("cnn", 4)
"""A model and batch size whose steps consist of little but kernel launches."""


def measure(device: torch.device, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure what ``gpu.json`` holds, and say a line for each measurement.

    A CPU has one slot, one layout and no captured steps, so only its speed is said, and the result
    is empty.
    """
    if device.type != "cuda":
        found = samples_per_second(device, *TINY, clients=2, samples=20)
        say(f"speed   {TINY[0]}, batches of {TINY[1]}: {found:,.0f} samples/s")
        return {}
    speed = partial(_measure_speed, device, say)
    layout: dict[str, Layout] = {}
    rates: dict[str, float] = {}
    for precision in PRECISIONS:
        if precision == "bfloat16" and torch.cuda.get_device_capability(device) < BFLOAT16:
            say("speed   bfloat16 is not measured: this GPU has no fast way to compute in it")
            layout[precision], rates[precision] = layout["float32"], rates["float32"]
            continue
        speeds = {
            name: speed(LARGE, precision, slots=8, channels_last=name == "channels_last")
            for name in get_args(Layout)
        }
        layout[precision] = max(speeds, key=speeds.__getitem__)
        rates[precision] = 3 * flops(LARGE[0]) * max(speeds.values())
    last = layout["tf32"] == "channels_last"
    plain, fused = (
        speed(LARGE, "tf32", slots=8, channels_last=last, fused_update=at_once)
        for at_once in (False, True)
    )
    options: dict[str, Any] = {"fused_update": fused > plain}
    for name, counts in COUNTS.items():
        tried = {count: speed(SMALL, "tf32", **options, **{name: count}) for count in counts}
        # The fewest that reach nine tenths of the best speed: more of them take more memory.
        options[name] = next(n for n in counts if tried[n] >= 0.9 * max(tried.values()))
    steps = speed(TINY, "float32", **options) / TINY[1]
    kernels = KERNELS * len(_layers(TINY[0]))
    images = images_tested_per_second(device, LARGE[0])
    say(f"speed   {LARGE[0]}: {images:,.0f} images/s tested")
    return {
        "device": torch.cuda.get_device_name(device),
        **options,
        "layout": layout,
        "factors": {
            "launch_seconds": 1 / (steps * kernels),
            "matrix_flops": rates,
            "evaluation_images_per_second": images,
        },
    }


def _measure_speed(
    device: torch.device,
    say: Callable[[str], None],
    work: tuple[str, int],
    precision: str,
    **options: Any,
) -> float:
    """Measure samples per second, and say a line about it."""
    speed = samples_per_second(
        device, *work, clients=16, samples=20 * work[1], precision=precision, **options
    )
    how = ", ".join(f"{name}={value}" for name, value in options.items())
    say(f"speed   {work[0]}, batches of {work[1]}, {precision}, {how}: {speed:,.0f} samples/s")
    return speed


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


def images_tested_per_second(device: torch.device, model: str) -> float:
    """Images per second in evaluation: the best of three passes, the first of which warms up."""
    free_unused_memory(device)
    federation = random_federation(
        device, model, clients=1, samples=20, batch_size=10, precision="tf32", test_samples=5000
    )
    executor, seconds = federation.executor, math.inf
    for _ in range(3):
        begun = time.perf_counter()
        executor.test_outputs(federation.weights, 0).logits.cpu()
        seconds = min(seconds, time.perf_counter() - begun)
    return 5000 / seconds


def flops(model: str) -> float:
    """Floating-point operations of one image's forward pass; a multiply-add counts as two."""
    return 2.0 * sum(map(math.prod, _layers(model)))


def _layers(model: str) -> list[Layer]:
    return list(network_of({"name": model}, shape_for(model), 10).layers)


def shape_for(model: str) -> tuple[int, int, int]:
    """The shape of the images that a model is given here: the digits' or CIFAR-10's."""
    return DATASETS[_dataset(model)].shape


def _dataset(model: str) -> str:
    return "digits" if model == "cnn" else "cifar10"


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
        device: where it trains.
        model: a name of :data:`noisyfl.models.MODELS`.
        clients: how many.
        samples: of each.
        batch_size: of a local step.
        precision: of the schedule.
        test_samples: images of the test part.
        options: of the fast executor.
    """
    rng = np.random.default_rng(1)
    dataset, count = _dataset(model), clients * samples
    classes = tuple(map(str, range(10)))
    train, test = (
        Part(
            dataset,
            classes,
            rng.integers(0, 256, (n, *shape_for(model)), dtype=np.uint8),
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
