"""How fast devices are, in three terms: launches, matrix rate, evaluation.

The H200 was measured (docs/speed.md); the other GPUs are derived from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Layer = tuple[int, int, int]
"""Positions at which a layer is applied, its inputs at each position, and its outputs at each."""

KERNELS = 10
"""Kernels of a training step for each layer: forward, normalisation, gradients, update."""

IMAGE = 5.55e8
"""Multiplications of ResNet-18's forward pass of a CIFAR image, the unit of evaluation speeds."""

PRECISIONS = ("float32", "tf32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a device is.

    Attributes:
        launch: seconds per kernel that a step starts, with several clients at a time.
        step: seconds per local step in addition to its kernels, however small it is: of a GPU's
            host, which launches the steps of all clients one after the other.
        weight: seconds per local step for each weight that it changes.
        flops: floating-point operations per second in training, by precision.
        evaluation: CIFAR images that ResNet-18 is tested on in a second.
        start: seconds until the first round: imports, data, the first use of the device.
    """

    flops: Mapping[str, float]
    evaluation: float
    launch: float = 0.0
    step: float = 0.0
    weight: float = 0.0
    start: float = 20.0

    def testing(self, layers: Sequence[Layer], samples: float) -> float:
        """Seconds of a forward pass of so many samples through layers."""
        return samples * sum(map(math.prod, layers)) / (IMAGE * self.evaluation)

    def training(
        self, layers: Sequence[Layer], samples: float, steps: float, precision: str = "float32"
    ) -> float:
        """Seconds that the training of a network takes.

        Args:
            layers: of the network (:func:`noisyfl.specs.extent.layers_of`).
            samples: number of samples that it is trained on, counted once per epoch.
            precision: in which products are computed.
        """
        weights = sum(inputs * outputs for _, inputs, outputs in layers)
        # Backward passes take two products for each of a forward pass; a product is two operations.
        products = 3 * 2 * samples * sum(map(math.prod, layers))
        each = self.step + self.launch * KERNELS * len(layers) + self.weight * weights
        return products / self.flops[precision] + steps * each


def _rates(float32: float, tf32: float, bfloat16: float) -> dict[str, float]:
    return dict(zip(PRECISIONS, (float32, tf32, bfloat16), strict=True))


CPU = "CPU core"

DEVICES = {
    "H200": Speed(flops=_rates(25e12, 100e12, 60e12), evaluation=120_000, launch=2.5e-6, step=1e-4),
    "H100": Speed(flops=_rates(25e12, 90e12, 50e12), evaluation=90_000, launch=2.5e-6, step=1e-4),
    "A100": Speed(flops=_rates(10e12, 45e12, 40e12), evaluation=40_000, launch=3e-6, step=1e-4),
    "RTX 4090": Speed(flops=_rates(25e12, 40e12, 40e12), evaluation=40_000, launch=3e-6, step=1e-4),
    "T4": Speed(flops=_rates(3e12, 3e12, 3e12), evaluation=3_000, launch=4e-6, step=1e-4),
    CPU: Speed(flops=_rates(7e10, 7e10, 7e10), evaluation=63, step=1e-3, weight=2e-9, start=15),
}
"""By name. A CPU core was measured on one thread of a server, with a margin for slower ones."""

SAFE_GPU = Speed(
    flops=_rates(3e12, 3e12, 3e12),
    evaluation=2_700,
    launch=4e-6,
    step=1e-3,
    weight=1e-11,
    start=60,
)
"""A GPU so slow that none in use should be slower; a cluster is asked for time by it."""

LEAST, MOST = 2 / 3, 2.0
"""Range of a run's time over its likely time: the formula fits the H200's rates within it."""
