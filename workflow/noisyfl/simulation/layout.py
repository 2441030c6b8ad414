"""The memory layout that a model's steps are faster in, tried on the device before a run."""

from __future__ import annotations

import copy
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from noisyfl.simulation.graphs import Capture, Work
from noisyfl.simulation.model import Networks
from noisyfl.simulation.usage import Usage

STEPS = 20
"""That are timed in each layout, after :data:`WARM_UP`."""

WARM_UP = 3

CLEARLY = 0.95
"""Of the usual layout's time, that the other one has to stay under: times scatter."""


def suits_channels_last(
    networks: Networks,
    images: Tensor,
    precision: str,
    capture: Capture | None,
    usage: Usage,
) -> bool:
    """Whether channels last is the layout to train in. Tensor cores, which tf32 and bfloat16
    compute on, read a pixel's channels together; a trial may say otherwise of a model and a device.

    Args:
        networks: the model, which stays as it is.
        images: of a whole batch, float [batch, channels, height, width], on the device.
        precision: of the run.
        capture: as the run's steps are captured, so that it is not launching them that is timed.
        usage: is told if the trial fails, and the usual layout is taken.
    """
    usual = precision != "float32"
    try:
        with _own_stream(images.device):
            times = {
                last: _seconds(networks, images, precision, capture, last)
                for last in (usual, not usual)
            }
    except RuntimeError as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        usage.fall_back(f"layouts could not be tried, and the usual one is taken: {told}")
        return usual
    return usual if times[not usual] > CLEARLY * times[usual] else not usual


def _own_stream(device: torch.device) -> AbstractContextManager[Any]:
    """Nothing can be captured on the default stream."""
    on_gpu = device.type == "cuda"
    return torch.cuda.stream(torch.cuda.Stream(device)) if on_gpu else nullcontext()


def _seconds(
    networks: Networks,
    images: Tensor,
    precision: str,
    capture: Capture | None,
    channels_last: bool,
) -> float:
    """What the timed steps take."""
    trial = copy.deepcopy(networks).train()
    if channels_last:
        trial.lay_out_channels_last()
    weights = [*trial[0].parameters()]
    labels = torch.zeros(len(images), dtype=torch.long, device=images.device)

    def step() -> None:
        logits = trial.outputs(images, 0, precision).logits
        torch.autograd.grad(nn.functional.cross_entropy(logits, labels), weights)

    for _ in range(WARM_UP):
        step()
    again: Work = capture(step) if capture else step
    again()
    _wait(images.device)
    begun = time.perf_counter()
    for _ in range(STEPS):
        again()
    _wait(images.device)
    return time.perf_counter() - begun


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
