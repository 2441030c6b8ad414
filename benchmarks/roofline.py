"""How much of a device's matrix rate training uses."""

from __future__ import annotations

import math
import time

import torch

from benchmarks import clock, precision, threads
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.specs.extent import layers_of

SIDE = {"cpu": 1024, "cuda": 8192}
"""By device, the side of the square matrices by whose product the rate is measured."""


def flops_trained(model: str, dataset: str) -> float:
    """Floating-point operations of one image's forward and backward pass: three products for each
    layer, in which a multiply-add counts as two operations.
    """
    facts = DATASETS[dataset]
    layers = layers_of({"name": model}, facts.shape, len(facts.classes))
    return 3 * 2 * sum(map(math.prod, layers))


def matrix_rate(device: str, computed_in: str, seconds: float = 1.0) -> float:
    """Floating-point operations per second of a product of large matrices, the best of several.

    On a CPU it is computed by one thread, as the runs are that are held against it.

    Args:
        device: ``cpu`` or ``cuda``.
        computed_in: a precision of the schedule.
        seconds: for how long the product is repeated; it is measured once at least.
    """
    side = SIDE[torch.device(device).type]
    kind = torch.bfloat16 if computed_in == "bfloat16" else torch.float32
    matrix = torch.ones(side, side, dtype=kind, device=device)
    best, end = math.inf, time.perf_counter() + seconds
    with precision(computed_in == "tf32"), threads(1):
        torch.mm(matrix, matrix)
        while best == math.inf or time.perf_counter() < end:
            begun = clock(device)
            torch.mm(matrix, matrix)
            best = min(best, clock(device) - begun)
    return 2 * side**3 / best
