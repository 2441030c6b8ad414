"""A local update: what is asked of an executor, its epochs and batches, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from noisyfl.core.options import BadInput, kind_of
from noisyfl.data.augmentation.augment import KINDS
from noisyfl.simulation.clients import Client
from noisyfl.simulation.weights import Weights

Memory = dict[str, Tensor]
"""What a loss keeps beside the weights during a local update, by name."""


@dataclass
class Epoch:
    """One local epoch, decided before it starts, so that an executor knows every shape.

    Attributes:
        steps: one int64 array a step, positions among the client's samples; others raise a
            :class:`BadInput`.
        targets: [samples, ...], what the loss calls the target of every sample of the client.
        extras: what else the loss needs, by name: one value or array for each step. Everything
            that changes from step to step or from round to round has to be passed here, since an
            executor may trace the loss once and repeat it.
        views: how the images of a step are shown, each as
            :meth:`noisyfl.data.augmentation.augment.View.show` names it; a loss may want several
            views of the same images.
        learns: the prefix, or several, of the names of the weights that are trained; by default
            all weights are.
        fresh_momentum: whether momentum starts at zero with this epoch, and not only with the
            local update.
        repeatable: whether steps of equal shapes do the same work for all values; if not, an
            executor does not trace them.
    """

    steps: list[np.ndarray]
    targets: Tensor
    extras: Mapping[str, list] = field(default_factory=dict)
    views: tuple[str, ...] = ("weak",)
    learns: str | tuple[str, ...] = ""
    fresh_momentum: bool = False
    repeatable: bool = True

    def __post_init__(self) -> None:
        kind = self.targets.dtype if isinstance(self.targets, Tensor) else None
        if kind is None or (kind != torch.int64 and not kind.is_floating_point):
            got = kind_of(self.targets)
            raise BadInput(f"Epoch.targets: got {got}, expected a tensor of int64 or of a float")
        samples = len(self.targets)
        if not isinstance(self.views, tuple) or not set(self.views) <= set(KINDS):
            raise BadInput(f"Epoch.views: got {self.views!r}, expected a tuple of {KINDS}")
        for step in self.steps:
            check_positions(step, samples, "Epoch.steps")
        for name, values in self.extras.items():
            if not isinstance(values, Sized) or len(values) != len(self.steps):
                raise BadInput(
                    f"Epoch.extras: {name}: got {kind_of(values)}, expected a list of "
                    f"{len(self.steps)}, one value or array for each step"
                )


@dataclass
class Batch:
    """The input of a loss in one step.

    Attributes:
        views: the step's images, once for each of :attr:`Epoch.views`: float
            [batch, channels, height, width].
        positions: int64 [batch], which of the client's samples they are.
        target: [batch, ...], the targets of these samples.
        extras: the step's entries of :attr:`Epoch.extras`, as tensors.
        memory: what the loss may keep from step to step: it reads it, and writes to it in place.
    """

    views: tuple[Tensor, ...]
    positions: Tensor
    target: Tensor
    extras: dict[str, Tensor]
    memory: Memory

    @property
    def images(self) -> Tensor:
        """The first view."""
        return self.views[0]

    @property
    def views_are_one(self) -> bool:
        """Whether all views are the same tensor, so that one pass answers for all; it is not known
        where a GPU repeats a captured step.
        """
        return all(view.data_ptr() == self.images.data_ptr() for view in self.views)

    def __getitem__(self, name: str) -> Tensor:
        return self.extras[name]

    def __contains__(self, name: str) -> bool:
        return name in self.extras


@dataclass
class Task:
    """One local update to be made.

    Attributes:
        client: who makes it.
        weights: the model that it starts from.
        memory: what :attr:`Batch.memory` holds at the start; not modified.
        repeat: how many updates the same client makes before this one in the same round, where it
            was drawn several times; each has random streams of its own.
    """

    client: Client
    weights: Weights
    memory: Memory = field(default_factory=dict)
    repeat: int = 0


@dataclass
class Update:
    """The outcome of one local update.

    Attributes:
        client: who made it.
        weights: the local model.
        memory: what :attr:`Batch.memory` held at the end.
        size: the weight of the update when the server averages, usually its number of samples.
        steps: steps taken.
        loss: mean training loss over the steps; NaN if there was none.
        forward: samples that went through a network.
        backward: those of them that a gradient went back through.
    """

    client: Client
    weights: Weights
    memory: Memory
    size: float
    steps: int
    loss: float
    forward: int
    backward: int

    def __post_init__(self) -> None:
        if not isinstance(self.size, int | float | np.number) or not 0 <= self.size < np.inf:
            raise BadInput(f"size: got {self.size!r}, expected a finite number of at least 0")


def check_positions(given: np.ndarray, samples: int, where: str) -> None:
    """Raise :class:`BadInput` unless an array has positions among so many samples, such as flags.

    Args:
        given: what should be int64 [n], from 0 to below ``samples``.
        where: what the error message calls the array.
    """
    expected = (
        f"expected an int64 array of positions: whole numbers from 0 to {samples - 1}, one a sample"
    )
    if not isinstance(given, np.ndarray) or given.ndim != 1 or given.dtype.kind not in "iu":
        raise BadInput(
            f"{where}: got {kind_of(given)}, {expected} (np.flatnonzero makes them of flags)"
        )
    if len(given) and (given.min() < 0 or given.max() >= samples):
        raise BadInput(f"{where}: got {given.min()} to {given.max()}, {expected}")


def batches(positions: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """``positions`` in a new order, cut into batches of ``size``; the last one may be smaller.

    A last batch of a single sample is left out (:func:`without_single`).

    Args:
        positions: int64 [n].
        rng: draws the order.
    """
    order = rng.permutation(positions)
    return without_single([order[start : start + size] for start in range(0, len(order), size)])


def without_single(steps: list[np.ndarray]) -> list[np.ndarray]:
    """An epoch's steps without a last one of a single sample, if there are others: batch
    normalisation cannot train on it where a channel has one value, and all networks follow the same
    rule.
    """
    return steps[:-1] if len(steps) > 1 and len(steps[-1]) == 1 else steps
