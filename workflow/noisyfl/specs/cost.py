"""Estimate a run's seconds and memory from its work, so that a job asks for what it needs.

The seconds are linear in what a run does: samples trained on and tested, steps, rounds. The factors
of each device are in :mod:`noisyfl.specs.speeds`; docs/speed.md says where they come from and how
well they hold. The memory on a GPU was not measured: it is counted from what the executor keeps
there, and where that leaves a choice, the larger number is taken.

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
from noisyfl.simulation.stream_slots import CONTEXT_MB, LARGE_IMAGE, SHOWN_AT_ONCE, STREAM_SLOTS
from noisyfl.specs.speeds import CPU, DEVICES, SAFE_GPU, Layer, Speed

INDEX_BYTES = 32
"""Bytes per image in the index of an encoded dataset."""

PROCESS_MB, GPU_PROCESS_MB = 700, 4000
"""Host memory of a process before it has data: without a GPU, and with one."""

ROOM_MB = 24_000.0
"""Most memory of a GPU that a run asks for in order to train more clients at once: all of a smaller
GPU, a share of a larger one."""

SLOT_MB = 96.0
"""GPU memory that a slot takes by itself: cuBLAS's workspaces (on a Hopper 64 MiB for its stream),
and its captured graphs."""

SLACK = 1.2
"""Bytes that the GPU's allocator takes for each byte requested of it."""


@dataclass(frozen=True)
class Estimate:
    """The time and memory that a run is expected to take.

    Attributes:
        seconds: from start to end; for a GPU, on a slow one.
        memory_mb: of the host, at most.
        gpu_memory_mb: of the GPU, at most, including what CUDA takes for itself; 0 on a CPU.
    """

    seconds: float
    memory_mb: float
    gpu_memory_mb: float

    @property
    def asked_seconds(self) -> float:
        """Seconds that a cluster is first asked for: twice the estimate, plus ten minutes."""
        return 600 + 2 * self.seconds


@dataclass(frozen=True)
class Work:
    """What a run does and holds, whatever its seed; :func:`noisyfl.specs.extent.work_of` makes it.

    Attributes:
        dataset: as specs have it (:func:`noisyfl.data.datasets.dataset.dataset`).
        settings: of the schedule, as the spec has them.
        epochs: epochs of all local updates together.
        ordinary_rounds: rounds of the schedule that all local updates amount to.
        passes_of_test: passes over the test part that each network makes in an evaluation.
        layers: of one network.
        dropout: whether the networks have dropout, with which the fast executor trains one client
            at a time.
        networks: number of networks in a model.
        effort: the method's seconds of a round over those of FedAvg with as many networks.
        shows: times that a step takes each image of its batch through a network, at most.
        models_kept: models that the method keeps for each client.
        keeps_features: whether features are kept, with the logits, of the networks that are tested.
        clients: number of all clients.
        samples: of a client, on average.
    """

    dataset: str | Mapping[str, Any]
    settings: Mapping[str, Any]
    epochs: float
    ordinary_rounds: float
    passes_of_test: float
    layers: tuple[Layer, ...]
    dropout: bool
    networks: int
    effort: float
    shows: int
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

    @property
    def model_bytes(self) -> int:
        """Bytes of the weights of all networks of a model."""
        weights = sum(inputs * outputs for _, inputs, outputs in self.layers)
        return 4 * weights * self.networks


def estimate(work: Work, device: str) -> Estimate:
    """What a run should take on a device.

    Args:
        work: of the run.
        device: as the configuration has it; ``auto`` is taken for a GPU.
    """
    if device == "cpu":
        return Estimate(likely_seconds(work, DEVICES[CPU]), _memory_mb(work, PROCESS_MB), 0.0)
    return Estimate(
        likely_seconds(work, SAFE_GPU),
        _memory_mb(work, GPU_PROCESS_MB),
        _gpu_memory_mb(work, stream_slots(work)),
    )


def stream_slots(work: Work, room_mb: float = ROOM_MB) -> int:
    """Clients that a run trains at once on a GPU: as many as there is room for, at least one.

    Args:
        work: of the run.
        room_mb: memory of the GPU that the run may take.
    """
    most = 1 if _large(work) or work.dropout else min(STREAM_SLOTS, work.participants)
    return next((n for n in range(most, 1, -1) if _gpu_memory_mb(work, n) <= room_mb), 1)


def least_gpu_memory_mb(work: Work) -> float:
    """GPU memory that a run should take at most if it trains one client at a time."""
    return _gpu_memory_mb(work, 1)


def likely_seconds(work: Work, speed: Speed) -> float:
    """Seconds that a run should take from start to end on a device of a speed."""
    schedule = work.schedule
    steps = work.epochs * math.ceil(work.samples / schedule.batch_size)
    samples = work.epochs * work.samples
    training = speed.training(work.layers, samples, steps, schedule.precision)
    passes = schedule.evaluations(work.ordinary_rounds) * work.passes_of_test
    tested = passes * work.facts.test_size
    each = training * work.effort + speed.testing(work.layers, tested)
    return speed.start + work.networks * each


def _memory_mb(work: Work, process: float) -> float:
    # Models of the participants, of the slots, and those that the method keeps.
    slots = min(STREAM_SLOTS, work.participants)
    models = work.participants + slots + work.models_kept * work.clients
    activations = 500 * sum(positions for positions, _, _ in work.layers) * 64 * 4
    held = _images(work.facts, work.schedule) + work.model_bytes * models + activations
    return process + (held + _answers_bytes(work)) / 1e6


def _gpu_memory_mb(work: Work, slots: int) -> float:
    """GPU memory that a run should take at most. Not measured; each part errs on the high side.

    How much cuDNN's algorithms take is not known before cuDNN has tried them; it is counted as if
    it were outputs of layers.
    """
    schedule, kept = work.schedule, work.models_kept

    # Counted in models. For each slot: its weights, the received ones and a network with these,
    # momentum, gradients, gradients times the learning rate, the last two once more where a
    # captured step holds them, and the memory of a method that keeps models. For each participant:
    # its update, what the server stacks and sorts, and its new kept models while the old ones are
    # still there. Once: the kept models of all clients, the global model before and after the
    # round, and two copies each of weights and momentum, by which a captured step is checked.
    models = slots * (8 + 2 * kept) + work.participants * (3 + kept) + kept * work.clients + 2 + 4
    # Pixels twice, as they are read and as they are stored; for each sample its labels and the
    # predictions that a method remembers; and, where a method may ask for a pass over the
    # participants' samples, the outputs of that.
    classes, width = len(work.facts.classes), work.layers[-1][1]
    asks = work.effort > 1
    pixels = 0 if work.facts.encoded else 2 * _pixels(work.facts)
    remembered = work.clients * work.samples * (64 + 64 * classes)
    answers = work.participants * work.samples * 4 * (classes + width) if asks else 0
    # For each slot: its share of the images that are prepared together, and the layers' outputs,
    # either in a step or in a pass over a client's samples; a captured step has memory of its own.
    # Models are tested while no client trains.
    step = _trained_bytes(work) * schedule.batch_size * work.shows
    asked = _tested_bytes(work) * min(schedule.pass_batch_size, work.samples)
    image = math.prod(work.facts.shape)
    together = max(SHOWN_AT_ONCE // slots, schedule.batch_size * image)
    shown = 32 * min(together, work.samples * image)
    trained = slots * (shown + max(step, asked if asks else 0))
    tested = _tested_bytes(work) * max(schedule.test_batch_size, schedule.pass_batch_size)
    captured = 0 if _large(work) else slots * step

    held = work.model_bytes * models + pixels + remembered + answers + captured
    held += _answers_bytes(work) + max(trained, tested)
    return CONTEXT_MB + SLOT_MB * (slots + 1) + SLACK * held / 1e6


def _large(work: Work) -> bool:
    """Whether images are so large that one client fills a GPU."""
    return max(work.facts.shape[:2]) > LARGE_IMAGE


def _trained_bytes(work: Work) -> float:
    """Bytes per image in a training step: the output of each layer is kept until its gradient is
    computed, both as it is and normalised.
    """
    given = sum(positions * outputs for positions, _, outputs in work.layers)
    return 4 * 2 * given + _tested_bytes(work)


def _tested_bytes(work: Work) -> float:
    """Bytes per image in a forward pass: the image as floating-point numbers, and at the largest
    layer its input and output, a shortcut beside it, and workspaces.
    """
    largest = max(positions * outputs for positions, _, outputs in work.layers)
    return 4 * (3 * math.prod(work.facts.shape) + 6 * largest)


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
    if facts.encoded:
        batch = max(schedule.test_batch_size, schedule.pass_batch_size)
        ahead = batch * math.prod(facts.train_shape or facts.shape)
        return 3 * INDEX_BYTES * (facts.train_size + facts.test_size) + 4 * ahead
    # Three copies: the file, its array and the tensor.
    return 3 * _pixels(facts)


def _pixels(facts: Dataset) -> int:
    """Bytes of the images of both parts, decoded."""
    train = math.prod(facts.train_shape or facts.shape)
    return facts.train_size * train + facts.test_size * math.prod(facts.shape)
