"""Estimate a run's seconds and memory from its work, so that a job asks for what it needs.

The seconds are linear in what a run does: samples trained on and tested, steps, rounds. The factors
of each device are in :mod:`noisyfl.specs.speeds`; docs/speed.md says where they come from and how
well they hold.

A run's work is in the plan, so that estimating needs neither its method nor its model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from noisyfl.data.datasets.dataset import Dataset, dataset
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.stream_slots import STREAM_SLOTS
from noisyfl.specs.speeds import CPU, DEVICES, SAFE_GPU, Layer, Speed

INDEX_BYTES = 16
"""Bytes per image in the index of an encoded dataset."""

PROCESS_MB, GPU_PROCESS_MB = 700, 4000
"""Host memory of a process before it has data: without a GPU, and with one."""


@dataclass(frozen=True)
class Estimate:
    """The time and memory that a run is expected to take.

    Attributes:
        seconds: from start to end; for a GPU, on a slow one.
        memory_mb: of the host, at most.
    """

    seconds: float
    memory_mb: float

    @property
    def asked_seconds(self) -> float:
        """Seconds that a cluster is first asked for: twice the estimate, plus ten minutes."""
        return 600 + 2 * self.seconds


@dataclass(frozen=True)
class Work:
    """What a run does and holds, for any seed; :func:`noisyfl.specs.extent.work_of` makes it.

    Attributes:
        dataset: as specs have it (:func:`noisyfl.data.datasets.dataset.dataset`).
        settings: of the schedule, as the spec has them.
        epochs: epochs of all local updates together.
        rounds: that the method runs, after each of which it is evaluated at most once.
        ordinary_rounds: rounds of the schedule that all local updates amount to.
        passes_of_test: passes over the test part that each network makes in an evaluation.
        layers: of one network.
        networks: number of networks in a model.
        effort: the method's seconds of a round over those of FedAvg with as many networks.
        models_kept: models that the method keeps for each client.
        keeps_features: whether features are kept, with the logits, of the networks that are tested.
        clients: number of all clients.
        samples: of a client, on average.
    """

    dataset: str | Mapping[str, Any]
    settings: Mapping[str, Any]
    epochs: float
    rounds: int
    ordinary_rounds: float
    passes_of_test: float
    layers: tuple[Layer, ...]
    networks: int
    effort: float
    models_kept: int
    keeps_features: bool
    clients: int
    samples: float

    @cached_property
    def facts(self) -> Dataset:
        """What is known of the dataset."""
        return dataset(self.dataset)

    @cached_property
    def schedule(self) -> Schedule:
        """How long and how the federation trains."""
        return Schedule(**self.settings)

    @property
    def participants(self) -> int:
        """Clients in an ordinary round."""
        return self.schedule.participants(self.clients)


def estimate(work: Work, device: str) -> Estimate:
    """What a run should take on a device.

    Args:
        device: as the configuration has it; ``auto`` is taken for a GPU.
    """
    if device == "cpu":
        return Estimate(likely_seconds(work, DEVICES[CPU]), _memory_mb(work, PROCESS_MB))
    return Estimate(likely_seconds(work, SAFE_GPU), _memory_mb(work, GPU_PROCESS_MB))


def likely_seconds(work: Work, speed: Speed) -> float:
    """Seconds that a run should take from start to end on a device of a speed."""
    schedule = work.schedule
    steps = work.epochs * math.ceil(work.samples / schedule.batch_size)
    samples = work.epochs * work.samples
    training = speed.training(work.layers, samples, steps, schedule.precision)
    evaluations = min(work.rounds, schedule.evaluations(work.ordinary_rounds))
    tested = evaluations * work.passes_of_test * work.facts.test_size
    each = training * work.effort + speed.testing(work.layers, tested)
    return speed.start + work.networks * each


def _memory_mb(work: Work, process: float) -> float:
    # Models of the participants, of the slots, and those that the method keeps.
    slots = min(STREAM_SLOTS, work.participants)
    models = work.participants + slots + work.models_kept * work.clients
    weights = work.networks * sum(inputs * outputs for _, inputs, outputs in work.layers)
    activations = 500 * sum(positions for positions, _, _ in work.layers) * 64
    held = _images(work.facts, work.schedule) + 4 * (weights * models + activations)
    return process + (held + _answers_bytes(work)) / 1e6


def _answers_bytes(work: Work) -> float:
    """Bytes of what the tested networks said of the test part, which is kept until the next
    evaluation.
    """
    classes, width = len(work.facts.classes), work.layers[-1][1]
    each = 4 * work.facts.test_size * (classes + width * work.keeps_features)
    return each * work.networks * max(1, work.models_kept * work.clients)


def _images(facts: Dataset, schedule: Schedule) -> float:
    """Bytes of host memory for a dataset's images, including the copies made while loading them.

    For an encoded dataset these are its index, in the file and as arrays, and the batches that are
    decoded ahead. The system's cache of the shards does not count, since the system gives it up
    when memory is short. Decoding adds no time, since it runs beside the training
    (docs/datasets.md).
    """
    train = math.prod(facts.train_shape or facts.shape)
    if facts.encoded:
        batch = max(schedule.test_batch_size, schedule.pass_batch_size)
        return 3 * INDEX_BYTES * (facts.train_size + facts.test_size) + 4 * batch * train
    # Three copies: the file, its array and the tensor.
    return 3 * (facts.train_size * train + facts.test_size * math.prod(facts.shape))
