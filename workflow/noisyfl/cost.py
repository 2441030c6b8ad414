"""What a run will cost: seconds and memory from its spec, so that a job asks for what it needs.

The seconds are linear in what a run does: samples trained on and tested, steps, rounds. The factors
were measured; docs/speed.md says how, and how well they hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from noisyfl.catalogue import methods, parts_of
from noisyfl.data.datasets import DATASETS, Dataset
from noisyfl.schedule import SCHEDULES, Schedule

Layer = tuple[int, int]
"""Positions at which a layer's weights are applied, and how many weights it has."""

INDEX_BYTES = 32
"""Of an image in the index of an encoded dataset."""

Layers = Callable[[int, int, int, int], Iterator[Layer]]


@dataclass(frozen=True)
class Speed:
    """How fast a kind of device is.

    Attributes:
        multiplications: a second, in the products of large layers.
        step: seconds of a local step, however small.
        weight: seconds of a local step for each weight that it changes.
        start: seconds until the first round: imports, data, the first use of the device.
        memory_mb: of the process before it has data.
    """

    multiplications: float
    step: float
    weight: float
    start: float
    memory_mb: float

    def forward(self, layers: list[Layer], samples: float) -> float:
        """Seconds in which samples go through layers."""
        return samples * sum(map(math.prod, layers)) / self.multiplications

    def training(self, layers: list[Layer], samples: float, steps: float, networks: int) -> float:
        """Seconds in which networks are trained on samples, in so many steps."""
        weights = sum(weights for _, weights in layers)
        # A gradient takes two more products for each of the forward pass.
        once = 3 * self.forward(layers, samples) + steps * (self.step + self.weight * weights)
        return networks * once


CPU = Speed(multiplications=3.5e10, step=1e-3, weight=2e-9, start=15, memory_mb=700)
"""One thread of a server's processor, with room for the slower ones."""

GPU = Speed(multiplications=1.5e12, step=1e-3, weight=1e-11, start=60, memory_mb=4000)
"""A GPU of a cluster, not of the fastest; not measured yet."""


@dataclass(frozen=True)
class Estimate:
    """What a run should take.

    Attributes:
        seconds: from start to end.
        memory_mb: of the host, at most.
    """

    seconds: float
    memory_mb: float


def estimate(spec: Mapping[str, Any], device: str) -> Estimate:
    """What a run should take on a device.

    Args:
        spec: canonical.
        device: as the configuration has it; ``auto`` is taken for a GPU.
    """
    speed = CPU if device == "cpu" else GPU
    schedule = SCHEDULES.build({"name": "schedule", **spec["schedule"]}, "schedule")
    partition = spec["noisy_partition"]
    facts = DATASETS[partition["dataset"]]
    declared = [methods()[part["name"]].facts for part in parts_of(spec["method"])]
    networks = math.prod(facts["networks"] for facts in declared)
    effort = math.prod(facts["effort"] for facts in declared)
    models_kept = sum(facts["models_kept"] for facts in declared)
    clients = partition["partition"]["clients"]
    samples = partition["partition"].get("per_client") or facts.train_size / clients
    participants = schedule.participants(clients)

    height, width, channels = facts.shape
    layers = list(LAYERS[spec["model"]["name"]](height, width, channels, len(facts.classes)))
    weights = sum(weights for _, weights in layers) * networks

    updates = schedule.rounds * participants * schedule.local_epochs
    steps = updates * math.ceil(samples / schedule.batch_size)
    training = speed.training(layers, updates * samples, steps, networks) * effort
    tested = schedule.rounds / schedule.evaluate_every * facts.test_size * networks
    seconds = speed.start + training + speed.forward(layers, tested)

    # Models of participants, of lanes, and those kept.
    models = participants + 8 + models_kept * clients
    activations = 500 * sum(positions for positions, _ in layers) * 64 * 4
    held = _images(facts, schedule) + 4 * weights * models + activations
    return Estimate(seconds, speed.memory_mb + held / 1e6)


def _images(facts: Dataset, schedule: Schedule) -> float:
    """Bytes of a dataset's images in memory, and of what leads to them.

    Of an encoded dataset they are an index, in its file and as arrays, and the batches that are
    decoded ahead; what the system keeps of the shards it gives up when memory is short. Decoding
    takes no time of its own, since it goes on beside the training (docs/datasets.md).
    """
    kept = math.prod(facts.train_shape or facts.shape)
    if facts.encoded:
        batch = max(schedule.test_batch_size, schedule.pass_batch_size)
        return 3 * INDEX_BYTES * (facts.train_size + facts.test_size) + 4 * batch * kept
    # The file, its array and the tensor.
    return 3 * (facts.train_size * kept + facts.test_size * math.prod(facts.shape))


def _dense(*widths: int) -> Iterator[Layer]:
    for inputs, outputs in itertools.pairwise(widths):
        yield 1, inputs * outputs


def _cnn(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
    yield height * width, 9 * channels * 16
    yield (height // 2) * (width // 2), 9 * 16 * 32
    yield from _dense(32 * (height // 4) * (width // 4), 64, classes)


def _cnn2conv(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
    yield height * width, 25 * channels * 32
    yield (height // 2) * (width // 2), 25 * 32 * 64
    yield from _dense(64 * (height // 4) * (width // 4), classes)


def _cnn4conv(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
    for halvings, inputs in enumerate((channels, 64, 64, 64)):
        yield (height >> halvings) * (width >> halvings), 9 * inputs * 64
    yield from _dense(64 * (height >> 4) * (width >> 4), classes)


def _cnn9(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
    for inputs in (channels, 128, 128):
        yield height * width, 9 * inputs * 128
    for inputs in (128, 256, 256):
        yield (height // 2) * (width // 2), 9 * inputs * 256
    # The last three have no padding.
    for cut, inputs, outputs in ((2, 256, 512), (4, 512, 256), (6, 256, 128)):
        yield (height // 4 - cut) * (width // 4 - cut), 9 * inputs * outputs
    yield from _dense(128, classes)


def _cifar_resnet(*blocks: int) -> Layers:
    def layers(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
        yield height * width, 9 * channels * 64
        inputs = 64
        for stage, count in enumerate(blocks):
            outputs = 64 << stage
            if stage:
                height, width = (height + 1) // 2, (width + 1) // 2
                yield height * width, inputs * outputs
            for _ in range(count):
                yield height * width, 9 * inputs * outputs
                yield height * width, 9 * outputs * outputs
                inputs = outputs
        yield from _dense(inputs, classes)

    return layers


def _resnet50(height: int, width: int, channels: int, classes: int) -> Iterator[Layer]:
    height, width = (height + 1) // 2, (width + 1) // 2
    yield height * width, 49 * channels * 64
    height, width = (height + 1) // 2, (width + 1) // 2
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        inner, outputs = 64 << stage, 256 << stage
        for block in range(count):
            # The first 1x1 convolution of a stage still sees the larger images.
            yield height * width, inputs * inner
            if stage and not block:
                height, width = (height + 1) // 2, (width + 1) // 2
            if not block:
                yield height * width, inputs * outputs
            yield height * width, 9 * inner * inner
            yield height * width, inner * outputs
            inputs = outputs
    yield from _dense(inputs, classes)


LAYERS: dict[str, Layers] = {
    "cnn": _cnn,
    "cnn2conv": _cnn2conv,
    "cnn4conv": _cnn4conv,
    "cnn9": _cnn9,
    "resnet18": _cifar_resnet(2, 2, 2, 2),
    "resnet34": _cifar_resnet(3, 4, 6, 3),
    "resnet50": _resnet50,
}
"""Of each model of :data:`noisyfl.models.MODELS`: layers of a height, width, channels, classes."""
