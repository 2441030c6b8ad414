"""How fast the simulation is, compared with what else one could use for the same work.

:class:`Work` is the work, the same for all rivals; these are modules of this package, each with a
function ``measure`` that returns a :class:`Speed`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Work:
    """Rounds of federated averaging on images in memory.

    Attributes:
        train_images: uint8 [n, height, width, channels].
        train_labels: int64 [n].
        test_images: uint8 [n, height, width, channels].
        test_labels: int64 [n].
        clients: for each client int64 [samples], its rows of the training images.
        participants: clients in a round.
        local_epochs: of a local update.
        batch_size: of a local step.
        learning_rate: of SGD.
        momentum: of SGD.
        mean: the mean of each channel, for pixels from 0 to 1.
        std: the standard deviation of each channel, likewise.
        rounds: how many.
        device: ``cpu`` or ``cuda``.
        seed: decides who takes part, and seeds torch.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    clients: list[np.ndarray]
    participants: int
    local_epochs: int
    batch_size: int
    learning_rate: float
    momentum: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rounds: int
    device: str
    seed: int


@dataclass(frozen=True)
class Timing:
    """What was measured of one round.

    Attributes:
        training: seconds of everything but evaluation.
        samples: how many samples were trained on, each counted once per epoch.
        evaluation: seconds; None if the round was not evaluated.
        accuracy: share of the test images that were labelled correctly; None if the round was not
            evaluated.
    """

    training: float
    samples: int
    evaluation: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Speed:
    """The speed that the table shows.

    Attributes:
        samples_per_second: training samples over training seconds.
        rounds_per_hour: each with its training and an evaluation.
    """

    samples_per_second: float
    rounds_per_hour: float


def speed(timings: list[Timing]) -> Speed:
    """Medians over the rounds after the first, which warms up.

    Raises:
        ValueError: no round after the first was evaluated.
    """
    measured = timings[1:]
    evaluations = [timing.evaluation for timing in measured if timing.evaluation is not None]
    if not evaluations:
        raise ValueError("no round after the first was evaluated")
    seconds = median(timing.training for timing in measured) + median(evaluations)
    return Speed(median(timing.samples / timing.training for timing in measured), 3600 / seconds)


def draw_participants(seed: int, clients: int, participants: int, rounds: int) -> np.ndarray:
    """Who takes part, uniformly and each at most once in a round: int64 [rounds, participants]."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(clients, participants, replace=False) for _ in range(rounds)])


def normalized(
    images: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...], device: str
) -> Tensor:
    """Uint8 images, channels last, as float32 [n, channels, height, width] on the device."""
    pixels = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).contiguous().float() / 255
    centre, spread = (torch.tensor(each, device=device).view(-1, 1, 1) for each in (mean, std))
    return (pixels - centre) / spread


def clock(device: str) -> float:
    """The time in seconds, read once the device has done all the work that it was given."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@contextlib.contextmanager
def precision(tf32: bool) -> Iterator[None]:
    """Let a GPU compute with TF32 or not; torch's default is yes in convolutions, no elsewhere."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = tf32
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
