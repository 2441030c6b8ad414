"""A client: its samples, its labels, and the state of a method on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from noisyfl.core.options import BadInput
from noisyfl.simulation.returned import check_tensor


@dataclass
class Client:
    """One client as the simulation holds it.

    Attributes:
        id: its number in the partition.
        rows: int64 [samples], its rows of the dataset, on the device.
        given: int64 [samples], the labels it was given.
        true: int64 [samples], the true labels; -1 where nobody knows them. For measuring and for
            the oracle only.
        labels: int64 [samples], what it trains on: the given labels until a method corrects them.
        noise_level: share of the given labels that are wrong; NaN where the true ones are not
            known.
        truth_known: whether the true labels of all its samples are known.
        state: what a method keeps on this client between rounds: numbers, tensors, and whole
            models (:data:`noisyfl.simulation.weights.Weights`).
    """

    id: int
    rows: Tensor
    given: Tensor
    true: Tensor
    noise_level: float = field(init=False)
    truth_known: bool = field(init=False)
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._labels = self.given.clone()
        self.truth_known = not bool((self.true < 0).any())
        wrong = float((self.given != self.true).double().mean())
        self.noise_level = wrong if self.truth_known else math.nan

    @property
    def labels(self) -> Tensor:
        """See the class."""
        return self._labels

    @labels.setter
    def labels(self, labels: Tensor) -> None:
        expected = "a class for each sample"
        check_tensor(labels, self.given.shape, "client.labels", expected, self.given.dtype)
        self._labels = labels

    def __len__(self) -> int:
        return len(self.rows)

    def accuracy_of(self, labels: Tensor, among: Tensor | None = None) -> float:
        """The share of labels that are the true ones; NaN if there are no labels, or if the true
        ones are not known.

        Args:
            labels: int64 [samples].
            among: bool [samples], the samples that count; by default all.
        """
        right = labels == self.true
        if among is not None:
            right = right[among]
        return float(right.double().mean()) if self.truth_known and len(right) else math.nan


def known_noise_levels(clients: Sequence[Client], option: str) -> list[float]:
    """The true noise level of each client, for a method that assumes it to be known.

    Args:
        option: the option that stands for the levels, which the error message names: where the
            levels are not known, it needs a number.

    Raises:
        BadInput: the true labels are not known.
    """
    if not all(client.truth_known for client in clients):
        raise BadInput(
            f"{option}: its value stands for the true noise level, and the true labels of this "
            "dataset are not known; expected a number"
        )
    return [client.noise_level for client in clients]


def mean_noise_level(clients: Sequence[Client], option: str) -> float:
    """The share of all given labels that are wrong; see :func:`known_noise_levels`."""
    levels = known_noise_levels(clients, option)
    wrong = sum(level * len(client) for level, client in zip(levels, clients, strict=True))
    return wrong / sum(map(len, clients))
