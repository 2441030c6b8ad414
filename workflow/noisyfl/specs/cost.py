"""What a run will cost: seconds and memory from its spec, so that a job asks for what it needs.

The seconds are linear in what a run does: samples trained on and tested, steps, rounds. A device's
factors are in :mod:`noisyfl.specs.speeds`; docs/speed.md says where they are from, and how well
they hold. What is said of a GPU's memory was not measured: it is counted from what the executor
keeps there, and where that leaves a choice, the larger number is taken.
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
from noisyfl.simulation.schedule import SCHEDULES, Schedule
from noisyfl.simulation.stream_slots import CONTEXT_MB, LARGE_IMAGE, SHOWN_AT_ONCE, STREAM_SLOTS
from noisyfl.specs.catalogue import methods, parts_of
from noisyfl.specs.extent import Layer, extent_of, layers_of
from noisyfl.specs.spec import in_words
from noisyfl.specs.speeds import CPU, DEVICES, SAFE_GPU, Speed

INDEX_BYTES = 32
"""Of an image in the index of an encoded dataset."""

PROCESS_MB, GPU_PROCESS_MB = 700, 4000
"""Of a process before it has data, without a GPU and with one."""

YEAR = 365 * 24 * 3600.0
"""In seconds."""

WITH_DROPOUT = ("cnn9",)
"""Models that the fast executor trains on one slot."""

ROOM_MB = 24_000.0
"""Of a GPU that a run asks for, at most, for the sake of more clients at once: all that the smaller
ones have, and a share of the others."""

SLOT_MB = 64.0
"""Of a GPU that a slot takes by itself: the workspace of cuBLAS, and its captured graphs."""

SLACK = 1.2
"""What the allocator takes for each byte that is asked of it."""


@dataclass(frozen=True)
class Estimate:
    """What a run should take.

    Attributes:
        seconds: from start to end: of a GPU, of one that is slow.
        memory_mb: of the host, at most.
        gpu_memory_mb: of the GPU, at most, CUDA's own included; 0 on a CPU.
    """

    seconds: float
    memory_mb: float
    gpu_memory_mb: float

    @property
    def asked_seconds(self) -> float:
        """What a cluster is asked for at the first attempt: twice the seconds, and ten minutes."""
        return 600 + 2 * self.seconds


@dataclass(frozen=True)
class _Work:
    """What a spec says of its run's size.

    Attributes:
        facts: of its dataset.
        epochs: of all local updates together.
        ordinary_rounds: of the schedule, that all local updates amount to.
        passes_of_test: of each network in an evaluation.
        layers: of a network.
        networks: in a model.
        effort: of the method.
        shows: times that a step takes each image of its batch through a network, at most.
        models_kept: for each client.
        clients: all of them.
        participants: of a round.
        samples: of a client.
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
    clients: int
    participants: int
    samples: float

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> _Work:
        """From a canonical spec."""
        schedule = SCHEDULES.build({"name": "schedule", **spec["schedule"]}, "schedule")
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
            # What a client side takes longer, it may take for more views of the same images.
            shows=math.prod(
                math.ceil(max(method.networks, method.effort))
                for method in declared
                if method.is_client
            ),
            models_kept=sum(method.models_kept for method in declared),
            clients=clients,
            participants=schedule.participants(clients),
            samples=partition["partition"].get("per_client")
            or (partition["partition"].get("samples") or facts.train_size) / clients,
        )

    @property
    def model_bytes(self) -> int:
        """Of the weights of all networks of a model."""
        return 4 * _weights(self.layers) * self.networks


def estimate(spec: Mapping[str, Any], device: str) -> Estimate:
    """What a run should take on a device.

    Args:
        spec: canonical.
        device: as the configuration has it; ``auto`` is taken for a GPU.
    """
    return _estimate(_one_seed(spec), device)


def stream_slots(spec: Mapping[str, Any], room_mb: float = ROOM_MB) -> int:
    """Clients that a run trains at once on a GPU: as many as there is room for, one at least.

    Args:
        spec: canonical.
        room_mb: of the GPU.
    """
    return _stream_slots(_work(_one_seed(spec)), room_mb)


def likely_seconds(spec: Mapping[str, Any], speed: Speed) -> float:
    """What a run should take from start to end on a device of a speed."""
    return _seconds(_work(_one_seed(spec)), speed)


def check_ends(spec: Mapping[str, Any], where: str) -> None:
    """Raise :class:`BadInput` unless a run ends within a year on some device of today."""
    extent = extent_of(spec)
    partition = spec["noisy_partition"]
    samples = DATASETS[partition["dataset"]].train_size / partition["partition"]["clients"]
    # Far from a year whatever the model, which is all that there is to say of nearly every run.
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
    """A spec whatever its seed: a scale has thousands of runs, and few that differ in more."""
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
    # Models of participants, of slots, and those kept.
    slots = min(STREAM_SLOTS, work.participants)
    models = work.participants + slots + work.models_kept * work.clients
    activations = 500 * sum(positions for positions, _, _ in work.layers) * 64 * 4
    held = _images(work.facts, work.schedule) + work.model_bytes * models + activations
    return process + held / 1e6


def _stream_slots(work: _Work, room_mb: float) -> int:
    alone = _large(work) or work.model in WITH_DROPOUT
    most = 1 if alone else min(STREAM_SLOTS, work.participants)
    return next((n for n in range(most, 1, -1) if _gpu_memory_mb(work, n) <= room_mb), 1)


def _gpu_memory_mb(work: _Work, slots: int) -> float:
    """What a run should take of a GPU at most. Not measured; each part errs on the high side.

    What cuDNN takes for its algorithms is not known before it has tried them, and counted as if it
    were outputs of layers.
    """
    schedule, kept = work.schedule, work.models_kept

    # Of each slot: weights, those received and a network of them, momentum, gradients, those times
    # the learning rate, both once more where a captured step holds them, and the memory of a method
    # that keeps models. Of each participant: the update, what the server stacks and sorts, and what
    # is kept of it while the old one is still there. And the global one before and after, and two
    # of weights and momentum each, by which a captured step is checked.
    models = slots * (8 + 2 * kept) + work.participants * (3 + kept) + kept * work.clients + 2 + 4
    # Pixels as they come and as they lie; of each sample its labels, what is remembered of
    # predictions, and, where a method may ask for it, what a pass over the participants' answers.
    classes, width = len(work.facts.classes), work.layers[-1][1]
    asks = work.effort > 1
    pixels = 0 if work.facts.encoded else 2 * _pixels(work.facts)
    remembered = work.clients * work.samples * (64 + 64 * classes)
    answers = work.participants * work.samples * 4 * (classes + width) if asks else 0
    # On a slot: its share of the images that are prepared together, and a step's outputs, or those
    # of a client's samples; a captured step has memory of its own. Tests come when nobody trains.
    step = _trained_bytes(work) * schedule.batch_size * work.shows
    asked = _tested_bytes(work) * min(schedule.pass_batch_size, work.samples)
    image = math.prod(work.facts.shape)
    together = max(SHOWN_AT_ONCE // slots, schedule.batch_size * image)
    shown = 32 * min(together, work.samples * image)
    trained = slots * (shown + max(step, asked if asks else 0))
    tested = _tested_bytes(work) * max(schedule.test_batch_size, schedule.pass_batch_size)
    captured = 0 if _large(work) else slots * step

    held = work.model_bytes * models + pixels + remembered + answers + captured
    held += max(trained, tested)
    return CONTEXT_MB + SLOT_MB * (slots + 1) + SLACK * held / 1e6


def _large(work: _Work) -> bool:
    """Whether images are so large that one client fills a GPU."""
    return max(work.facts.shape[:2]) > LARGE_IMAGE


def _trained_bytes(work: _Work) -> float:
    """Of an image in a training step: what a layer gives stays until the gradient comes, as it is
    and normalised.
    """
    given = sum(positions * outputs for positions, _, outputs in work.layers)
    return 4 * 2 * given + _tested_bytes(work)


def _tested_bytes(work: _Work) -> float:
    """Of an image on its way through a network: itself as numbers, and around the largest layer
    what goes in and comes out, a shortcut beside it, and workspaces.
    """
    largest = max(positions * outputs for positions, _, outputs in work.layers)
    return 4 * (3 * math.prod(work.facts.shape) + 6 * largest)


def _weights(layers: list[Layer]) -> int:
    return sum(inputs * outputs for _, inputs, outputs in layers)


def _images(facts: Dataset, schedule: Schedule) -> float:
    """Bytes of a dataset's images in memory, and of what leads to them.

    Of an encoded dataset they are an index, in its file and as arrays, and the batches that are
    decoded ahead; what the system keeps of the shards it gives up when memory is short. Decoding
    takes no time of its own, since it goes on beside the training (docs/datasets.md).
    """
    if facts.encoded:
        batch = max(schedule.test_batch_size, schedule.pass_batch_size)
        ahead = batch * math.prod(facts.train_shape or facts.shape)
        return 3 * INDEX_BYTES * (facts.train_size + facts.test_size) + 4 * ahead
    # The file, its array and the tensor.
    return 3 * _pixels(facts)


def _pixels(facts: Dataset) -> int:
    """Bytes of the images of both parts, decoded."""
    train = math.prod(facts.train_shape or facts.shape)
    return facts.train_size * train + facts.test_size * math.prod(facts.shape)
