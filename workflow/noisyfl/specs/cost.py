"""Estimate a run's seconds and memory from its spec, so that a job asks for what it needs.

The seconds are linear in what a run does: samples trained on and tested, steps, rounds. The factors
of each device are in :mod:`noisyfl.specs.speeds`; docs/speed.md says where they come from and how
well they hold. The memory on a GPU was not measured: it is counted from what the executor keeps
there, and where that leaves a choice, the larger number is taken.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS, Dataset
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.stream_slots import CONTEXT_MB, LARGE_IMAGE, SHOWN_AT_ONCE, STREAM_SLOTS
from noisyfl.specs.catalogue import methods, parts_of
from noisyfl.specs.extent import Layer, extent_of, layers_of
from noisyfl.specs.spec import in_words
from noisyfl.specs.speeds import CPU, DEVICES, SAFE_GPU, Speed

INDEX_BYTES = 32
"""Bytes per image in the index of an encoded dataset."""

PROCESS_MB, GPU_PROCESS_MB = 700, 4000
"""Host memory of a process before it has data: without a GPU, and with one."""

YEAR = 365 * 24 * 3600.0
"""Seconds in a year."""

WITH_DROPOUT = ("cnn9",)
"""Models with dropout, for which the fast executor trains one client at a time."""

ROOM_MB = 24_000.0
"""Most memory of a GPU that a run asks for in order to train more clients at once: all of a smaller
GPU, a share of a larger one."""

SLOT_MB = 96.0
"""GPU memory that a slot takes by itself: cuBLAS's workspaces (on a Hopper 32 MiB for its stream,
and as much for the default one), and its captured graphs."""

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
class _Work:
    """The size of a run, as its spec gives it.

    Attributes:
        facts: what is known of its dataset.
        epochs: epochs of all local updates together.
        ordinary_rounds: rounds of the schedule that all local updates amount to.
        passes_of_test: passes over the test part that each network makes in an evaluation.
        layers: of one network.
        networks: number of networks in a model.
        effort: the method's seconds of a round over those of FedAvg with as many networks.
        shows: times that a step takes each image of its batch through a network, at most.
        models_kept: models that the method keeps for each client.
        keeps_features: whether features are kept, with the logits, of the networks that are tested.
        clients: number of all clients.
        participants: clients in an ordinary round.
        samples: of a client, on average.
    """

    facts: Dataset
    schedule: Schedule
    epochs: float
    ordinary_rounds: float
    passes_of_test: float
    model: str
    layers: list[Layer]
    networks: int
    effort: float
    shows: int
    models_kept: int
    keeps_features: bool
    clients: int
    participants: int
    samples: float

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> _Work:
        """From a canonical spec."""
        schedule = Schedule(**spec["schedule"])
        partition = spec["noisy_partition"]
        facts = DATASETS[partition["dataset"]]
        declared = [methods()[part["name"]] for part in parts_of(spec["method"])]
        clients = partition["partition"]["clients"]
        model = spec["model"]["name"]
        extent = extent_of(spec)
        return cls(
            facts=facts,
            schedule=schedule,
            epochs=extent.epochs,
            ordinary_rounds=extent.ordinary_rounds,
            passes_of_test=extent.passes_of_test,
            model=model,
            layers=layers_of(spec["model"], facts.shape, len(facts.classes)),
            networks=math.prod(method.networks for method in declared),
            effort=math.prod(method.effort for method in declared),
            # A client side may take longer because it uses more views of the same images.
            shows=math.prod(
                math.ceil(max(method.networks, method.effort))
                for method in declared
                if method.is_client
            ),
            models_kept=sum(method.models_kept for method in declared),
            keeps_features=any(method.predicts_by_features for method in declared),
            clients=clients,
            participants=schedule.participants(clients),
            samples=partition["partition"].get("per_client")
            or (partition["partition"].get("samples") or facts.train_size) / clients,
        )

    @property
    def model_bytes(self) -> int:
        """Bytes of the weights of all networks of a model."""
        return 4 * _weights(self.layers) * self.networks


def estimate(spec: Mapping[str, Any], device: str) -> Estimate:
    """What a run should take on a device.

    Args:
        spec: canonical.
        device: as the configuration has it; ``auto`` is taken for a GPU.
    """
    return _estimate(_one_seed(spec), device)


def stream_slots(spec: Mapping[str, Any], room_mb: float = ROOM_MB) -> int:
    """Clients that a run trains at once on a GPU: as many as there is room for, at least one.

    Args:
        spec: canonical.
        room_mb: memory of the GPU that the run may take.
    """
    return _stream_slots(_work(_one_seed(spec)), room_mb)


def least_gpu_memory_mb(spec: Mapping[str, Any]) -> float:
    """GPU memory that a run should take at most if it trains one client at a time."""
    return _gpu_memory_mb(_work(_one_seed(spec)), 1)


def likely_seconds(spec: Mapping[str, Any], speed: Speed) -> float:
    """Seconds that a run should take from start to end on a device of a speed."""
    return _seconds(_work(_one_seed(spec)), speed)


def check_ends(spec: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` unless a run ends within a year on one of :data:`DEVICES`."""
    extent = extent_of(spec)
    partition = spec["noisy_partition"]
    samples = DATASETS[partition["dataset"]].train_size / partition["partition"]["clients"]
    # So small a run, and nearly every one is, takes far less than a year whatever the model.
    if extent.rounds < 10**6 and extent.epochs * samples < 10**9:
        return
    name, seconds = min(
        ((name, likely_seconds(spec, speed)) for name, speed in DEVICES.items()),
        key=lambda each: each[1],
    )
    if seconds > YEAR:
        method = "+".join(in_words(part, methods()) for part in parts_of(spec["method"]))
        raise BadInput(
            f"{where}: got {method} with schedule.rounds {spec['schedule']['rounds']:,}, which is "
            f"{extent.rounds:,} rounds and takes {seconds / YEAR:,.0f} years on a {name}, expected "
            "a run that some machine ends in a year; `allow_years: true` in the scale's file lets "
            "it be"
        )


def _one_seed(spec: Mapping[str, Any]) -> str:
    """A spec as JSON without its seed, as a cache key: few of a scale's runs differ in more."""
    partition = {key: value for key, value in spec["noisy_partition"].items() if key != "seed"}
    return json.dumps({**spec, "noisy_partition": partition, "seed": 0}, sort_keys=True)


@functools.cache
def _work(spec: str) -> _Work:
    return _Work.of(json.loads(spec))


@functools.cache
def _estimate(spec: str, device: str) -> Estimate:
    work = _work(spec)
    if device == "cpu":
        return Estimate(_seconds(work, DEVICES[CPU]), _memory_mb(work, PROCESS_MB), 0.0)
    return Estimate(
        _seconds(work, SAFE_GPU),
        _memory_mb(work, GPU_PROCESS_MB),
        _gpu_memory_mb(work, _stream_slots(work, ROOM_MB)),
    )


def _seconds(work: _Work, speed: Speed) -> float:
    schedule = work.schedule
    steps = work.epochs * math.ceil(work.samples / schedule.batch_size)
    samples = work.epochs * work.samples
    training = speed.training(work.layers, samples, steps, schedule.precision)
    passes = schedule.evaluations(work.ordinary_rounds) * work.passes_of_test
    tested = passes * work.facts.test_size
    each = training * work.effort + speed.testing(work.layers, tested)
    return speed.start + work.networks * each


def _memory_mb(work: _Work, process: float) -> float:
    # Models of the participants, of the slots, and those that the method keeps.
    slots = min(STREAM_SLOTS, work.participants)
    models = work.participants + slots + work.models_kept * work.clients
    activations = 500 * sum(positions for positions, _, _ in work.layers) * 64 * 4
    held = _images(work.facts, work.schedule) + work.model_bytes * models + activations
    return process + (held + _answers_bytes(work)) / 1e6


def _stream_slots(work: _Work, room_mb: float) -> int:
    alone = _large(work) or work.model in WITH_DROPOUT
    most = 1 if alone else min(STREAM_SLOTS, work.participants)
    return next((n for n in range(most, 1, -1) if _gpu_memory_mb(work, n) <= room_mb), 1)


def _gpu_memory_mb(work: _Work, slots: int) -> float:
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


def _large(work: _Work) -> bool:
    """Whether images are so large that one client fills a GPU."""
    return max(work.facts.shape[:2]) > LARGE_IMAGE


def _trained_bytes(work: _Work) -> float:
    """Bytes per image in a training step: the output of each layer is kept until its gradient is
    computed, both as it is and normalised.
    """
    given = sum(positions * outputs for positions, _, outputs in work.layers)
    return 4 * 2 * given + _tested_bytes(work)


def _tested_bytes(work: _Work) -> float:
    """Bytes per image in a forward pass: the image as floating-point numbers, and at the largest
    layer its input and output, a shortcut beside it, and workspaces.
    """
    largest = max(positions * outputs for positions, _, outputs in work.layers)
    return 4 * (3 * math.prod(work.facts.shape) + 6 * largest)


def _answers_bytes(work: _Work) -> float:
    """Bytes of what the tested networks said of the test part, which is kept until the next
    evaluation.
    """
    classes, width = len(work.facts.classes), work.layers[-1][1]
    each = 4 * work.facts.test_size * (classes + width * work.keeps_features)
    return each * work.networks * max(1, work.models_kept * work.clients)


def _weights(layers: list[Layer]) -> int:
    return sum(inputs * outputs for _, inputs, outputs in layers)


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
