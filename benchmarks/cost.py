"""What a run's seconds grow with: ``python -m benchmarks.cost``.

Measures the processor seconds of runs on one thread that differ in one quantity at a time, and
compares them with a straight line through the first two and with :mod:`noisyfl.specs.cost`.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import torch

from benchmarks import Work, ours
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.models import MODELS
from noisyfl.specs.extent import layers_of
from noisyfl.specs.speeds import CPU, DEVICES

THINGS = ("rounds", "participants", "local_epochs", "samples", "test images")


def main() -> None:
    """Measure, and print a table for each model."""
    torch.set_num_threads(1)
    for model, dataset, samples, batch in (
        ("cnn", "digits", 60, 20),
        ("cnn2conv", "fashion_mnist", 96, 32),
        ("cnn4conv", "cifar10", 100, 50),
    ):
        print(f"\n### {model} on images of {dataset}, batches of {batch}\n")
        print("| | 1 | 2 | 4 | 4, on the line | estimate / measured |")
        print("|---|---|---|---|---|---|")
        for thing in THINGS:
            works = [work(dataset, samples, batch, thing, factor) for factor in (1, 2, 4)]
            seconds = [measure(model, dataset, each) for each in works]
            line = seconds[0] + 3 * (seconds[1] - seconds[0])
            ratio = estimated(model, dataset, works[2]) / seconds[2]
            numbers = " | ".join(f"{value:.2f}" for value in (*seconds, line, ratio))
            print(f"| {thing} | {numbers} |", flush=True)


def work(dataset: str, samples: int, batch_size: int, thing: str, factor: int) -> Work:
    """The work of a small run in which one of :data:`THINGS` is multiplied by a factor."""
    facts = DATASETS[dataset]
    rng = np.random.default_rng(0)
    samples *= factor if thing == "samples" else 1
    participants = 2 * (factor if thing == "participants" else 1)
    test = 200 * (factor if thing == "test images" else 1)
    return Work(
        train_images=rng.integers(0, 256, (participants * samples, *facts.shape), dtype=np.uint8),
        train_labels=rng.integers(0, 10, participants * samples),
        test_images=rng.integers(0, 256, (test, *facts.shape), dtype=np.uint8),
        test_labels=rng.integers(0, 10, test),
        clients=np.split(rng.permutation(participants * samples), participants),
        participants=participants,
        local_epochs=2 * (factor if thing == "local_epochs" else 1),
        batch_size=batch_size,
        learning_rate=0.01,
        momentum=0.5,
        mean=facts.mean,
        std=facts.std,
        rounds=3 * (factor if thing == "rounds" else 1),
        device="cpu",
        seed=1,
    )


def measure(model: str, dataset: str, given: Work) -> float:
    """Processor seconds of training, each round evaluated; the best of three."""
    best = math.inf
    ours.train(model, dataset, replace(given, rounds=1))
    for _ in range(3):
        begun = time.process_time()
        ours.train(model, dataset, given)
        best = min(best, time.process_time() - begun)
    return best


def estimated(model: str, dataset: str, given: Work) -> float:
    """The seconds that :mod:`noisyfl.specs.cost` estimates for the work, without the start."""
    network = MODELS.build(model, "model").canonical()
    layers = layers_of(network, DATASETS[dataset].shape, 10)
    samples = len(given.clients[0])
    updates = given.rounds * given.participants * given.local_epochs
    steps = updates * math.ceil(samples / given.batch_size)
    core = DEVICES[CPU]
    tested = core.testing(layers, given.rounds * len(given.test_images))
    return core.training(layers, updates * samples, steps) + tested


if __name__ == "__main__":
    main()
