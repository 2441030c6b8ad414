"""Find the memory layout in which a model's steps are faster, by a trial before a run."""

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
"""The number of steps that are timed in each layout, after :data:`WARM_UP` others."""

WARM_UP = 3

CLEARLY = 0.95
"""The other layout is taken if it needs at most this share of the usual one's time. It is below 1
because measured times scatter."""


def suits_channels_last(
    networks: Networks,
    images: Tensor,
    precision: str,
    capture: Capture | None,
    usage: Usage,
) -> bool:
    """Whether channels last is the layout to train in. It is the usual one for tf32 and bfloat16,
    which compute on tensor cores, since these read a pixel's channels together. A trial decides
    whether the other layout is clearly faster for the model on the device.

    Args:
        networks: the model, which is not modified.
        images: a whole batch, float [batch, channels, height, width], on the device.
        precision: of the run.
        capture: what captures the run's steps, so that the trial does not time their launches; None
            if they are not captured.
        usage: is told if the trial fails; the usual layout is then taken.
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
    """Enter a stream of the trial's own on a GPU: the default stream cannot be captured."""
    on_gpu = device.type == "cuda"
    return torch.cuda.stream(torch.cuda.Stream(device)) if on_gpu else nullcontext()


def _seconds(
    networks: Networks,
    images: Tensor,
    precision: str,
    capture: Capture | None,
    channels_last: bool,
) -> float:
    """The seconds that the timed steps take in a layout."""
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
