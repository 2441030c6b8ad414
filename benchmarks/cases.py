"""The federations that are measured, and the rivals that are measured on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks import Speed, Work, central, ours, pfl_fedavg, repository_loop
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.models import build_model


@dataclass(frozen=True)
class Case:
    """A federation of a paper, and how much of a round is measured on a CPU.

    Attributes:
        title: what it is.
        model: a name of :data:`noisyfl.models.MODELS`.
        dataset: the dataset whose shape the images have.
        participants: of a round.
        samples: of a client.
        batch_size: of a local step.
        local_epochs: of a local update.
        learning_rate: of SGD.
        rounds: of a run.
        on_cpu: participants, samples and local epochs of a round that is measured on a CPU, where
            a whole one would take minutes.
    """

    title: str
    model: str
    dataset: str
    participants: int
    samples: int
    batch_size: int
    local_epochs: int
    learning_rate: float
    rounds: int
    on_cpu: tuple[int, int, int]

    def work(self, device: str, rounds: int) -> Work:
        """The case's work on a device, with random images: the speed does not depend on them."""
        facts = DATASETS[self.dataset]
        rng = np.random.default_rng(0)
        participants, samples, epochs = (
            self.on_cpu if device == "cpu" else (self.participants, self.samples, self.local_epochs)
        )
        train, test = participants * 2 * samples, 1000 if device == "cpu" else facts.test_size
        return Work(
            train_images=rng.integers(0, 256, (train, *facts.shape), dtype=np.uint8),
            train_labels=rng.integers(0, 10, train),
            test_images=rng.integers(0, 256, (test, *facts.shape), dtype=np.uint8),
            test_labels=rng.integers(0, 10, test),
            clients=np.split(rng.permutation(train), participants * 2),
            participants=participants,
            local_epochs=epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=0.5,
            mean=facts.mean,
            std=facts.std,
            rounds=rounds,
            device=device,
            seed=1,
        )

    def whole(self, measured: Speed, work: Work) -> Speed:
        """A measured speed, its rounds per hour scaled to whole rounds and the whole test part."""
        done = work.participants * work.local_epochs * len(work.clients[0])
        seconds = 3600 / measured.rounds_per_hour - done / measured.samples_per_second
        evaluation = seconds * DATASETS[self.dataset].test_size / len(work.test_images)
        samples = self.participants * self.samples * self.local_epochs
        hour = samples / measured.samples_per_second + evaluation
        return replace(measured, rounds_per_hour=3600 / hour)


CASES = {
    "fedrn": Case("FedRN, CIFAR-10", "cnn4conv", "cifar10", 10, 500, 50, 5, 0.01, 500, (1, 500, 1)),
    "fednoil": Case(
        "FedNoiL, Fashion-MNIST", "cnn2conv", "fashion_mnist", 6, 600, 32, 5, 0.01, 200, (1, 600, 1)
    ),
    "rofl": Case("RoFL, CIFAR-10", "cnn9", "cifar10", 10, 500, 50, 5, 0.01, 1000, (1, 150, 1)),
    "fedcorr": Case(
        "FedCorr, CIFAR-10", "resnet18", "cifar10", 10, 500, 10, 5, 0.01, 1000, (1, 160, 1)
    ),
}
BATCHES = {"cpu": (32, 64, 128), "cuda": (64, 128, 256, 512, 1024, 2048, 4096)}
Rival = Callable[[Work], Speed]


def measure(case: Case, name: str, device: str, rounds: int, python: Path | None) -> Speed:
    """The speed of one of the :func:`rivals` in whole rounds of a case."""
    torch.set_num_threads(1)
    work = case.work(device, rounds)
    return case.whole(rivals(case, device, python)[name](work), work)


def rivals(case: Case, device: str, python: Path | None) -> dict[str, Rival]:
    """All rivals that can do a case's work here, by name."""
    classes = len(DATASETS[case.dataset].classes)

    def module() -> torch.nn.Module:
        return build_model(case.model, DATASETS[case.dataset].shape, classes, 1)

    def with_ours(executor: str, precision: str = "float32") -> Rival:
        def measure(work: Work) -> Speed:
            # One round more warms up, and the last is evaluated; other rivals add their own.
            more = replace(work, rounds=work.rounds + 2)
            return ours.measure(
                case.model, case.dataset, more, executor=executor, precision=precision
            )

        return measure

    known: dict[str, Rival] = {
        "repositories' loop": lambda work: repository_loop.measure(module(), work),
        "ours, loop": with_ours("loop"),
        "ours, fast": with_ours("fast"),
    }
    if device == "cuda":
        known["ours, fast, TF32"] = with_ours("fast", "tf32")
    known["ours, fast, bfloat16"] = with_ours("fast", "bfloat16")
    if python:
        known["pfl-research"] = lambda work: pfl_fedavg.measure(
            str(python), case.model, classes, work
        )
    known["one model, no federation"] = lambda work: central.measure(
        module(), work, batch_sizes=BATCHES[device]
    )
    return known
