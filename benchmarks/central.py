"""The ceiling: the same model trained in one place, as fast as plain eager PyTorch does it.

No clients, no augmentation, no copies of the model. The images are on the device as normalised
floats before the clock starts, and the batches are as large as suits the device best.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from statistics import fmean, median

import torch
from torch import Tensor, nn

from benchmarks import Speed, Work, clock, normalized, precision
from noisyfl.runs.train import keep_freed_memory

BLOCKS = 5
"""How many stretches of steps are timed in a measurement; their median counts."""

LAYOUTS = (torch.contiguous_format, torch.channels_last)


def measure(
    module: nn.Module, work: Work, *, batch_sizes: Sequence[int], seconds: float = 1.0
) -> Speed:
    """The best speed of all batch sizes, with channels last and not.

    A round has the mean number of samples of the work's rounds.

    Args:
        module: the model; copies of it are trained.
        work: the work whose images, optimizer settings and device are used.
        batch_sizes: to try. Left out are those above the number of training images, and those that
            the device has no memory for.
        seconds: how long a measurement should take. It takes seven steps at least.

    Raises:
        ValueError: no batch size is left.
    """
    # The project's simulation does so too, and a ceiling must not be lower than it could be.
    keep_freed_memory()
    device = work.device
    labels = torch.from_numpy(work.train_labels).to(device)
    training: list[float] = []
    evaluation: list[float] = []
    with torch.backends.cudnn.flags(enabled=True, benchmark=True), precision(tf32=False):
        for layout in LAYOUTS:
            train, test = (
                normalized(images, work.mean, work.std, device).contiguous(memory_format=layout)
                for images in (work.train_images, work.test_images)
            )
            for size in batch_sizes:
                if size > len(train):
                    continue
                model = copy.deepcopy(module).to(device)
                model = model.to(memory_format=layout)  # type: ignore[call-overload]
                optimizer = torch.optim.SGD(
                    model.parameters(), lr=work.learning_rate, momentum=work.momentum
                )
                steps = training_steps(model, optimizer, train, labels, size)
                try:
                    trained = rate(steps, seconds, device)
                    evaluated = rate(evaluation_steps(model, test, size), seconds, device)
                except torch.OutOfMemoryError:
                    continue
                training.append(trained)
                evaluation.append(evaluated)
    if not training:
        listed = ", ".join(map(str, batch_sizes))
        raise ValueError(
            f"none of the batch sizes {listed} can be had of {len(labels)} images on {device}"
        )
    samples = work.participants * work.local_epochs * fmean(map(len, work.clients))
    duration = samples / max(training) + len(test) / max(evaluation)
    return Speed(max(training), 3600 / duration)


def training_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, size: int
) -> Iterator[int]:
    """Train without end, in a new order each epoch; yield each step's number of samples."""
    model.train()
    while True:
        for index in torch.randperm(len(images), device=images.device).split(size):
            if len(index) < size:
                continue
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
            optimizer.step()
            yield size


def evaluation_steps(model: nn.Module, images: Tensor, size: int) -> Iterator[int]:
    """Label the images again and again; yield each step's number of images."""
    model.eval()
    while True:
        for part in images.split(size):
            with torch.no_grad():
                model(part).argmax(1)
            yield len(part)


def rate(steps: Iterator[int], seconds: float, device: str) -> float:
    """Samples per second, the median over :data:`BLOCKS` blocks of steps.

    Two steps come before them: one warms up, and the time of the next decides how many steps make a
    block. The host waits for the device only between blocks, so that a GPU has its work queued as
    in a real training.
    """
    next(steps)
    begun = clock(device)
    next(steps)
    count = max(1, round(seconds / BLOCKS / (clock(device) - begun)))
    rates = []
    for _ in range(BLOCKS):
        begun = clock(device)
        samples = sum(next(steps) for _ in range(count))
        rates.append(samples / (clock(device) - begun))
    return median(rates)
