"""Partitions with one kind of skew alone: in the number of classes, or in the number of samples.

Both are NIID-Bench's (Li et al., ICDE 2022), and FedNoisy has them by way of FedLab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.data.partitioning.partition import PARTITIONS, TRIES, Partition, share_out

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset
    from noisyfl.data.own_files import OwnFiles


@PARTITIONS.register("label_quantity")
class LabelQuantity(Partition):
    """Every client holds equally many classes, and all holders of a class hold equally much of it.

    Of M classes, client k holds class k mod M and others at random. FedNoisy ("noniid-#label"): 10
    clients with 3 classes each, with 5 of Clothing1M's 14. Where a class would be on no client, the
    classes are drawn again; FedLab's code fails there.
    """

    classes: int = option(doc="classes of each client", at_least=1)

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> Partition:
        """The partition itself; :class:`BadInput` if there are too few classes, or holders."""
        there = len(dataset.classes)
        if self.classes > there:
            raise BadInput(
                f"got {self.classes}, expected at most {there}, the classes of {dataset.name}",
                "classes",
            )
        if self.clients * self.classes < there:
            raise BadInput(
                f"clients={self.clients} with classes={self.classes} hold "
                f"{self.clients * self.classes} classes at most, and {dataset.name} has {there}"
            )
        return self

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        holds = self._holds(classes, rng)
        parts: list[list[np.ndarray]] = [[] for _ in range(self.clients)]
        for label in range(classes):
            holders = np.flatnonzero(holds[:, label])
            rows = rng.permutation(np.flatnonzero(labels == label))
            for client, part in zip(holders, np.array_split(rows, len(holders)), strict=True):
                parts[client].append(part)
        return [np.concatenate(part) for part in parts]

    def _holds(self, classes: int, rng: np.random.Generator) -> np.ndarray:
        """Which client holds which class, bool [clients, classes], no class without a holder."""
        own = np.arange(self.clients) % classes
        for _ in range(TRIES):
            order = rng.random((self.clients, classes))
            order[np.arange(self.clients), own] = -1
            holds = order.argsort(axis=1).argsort(axis=1) < self.classes
            if holds.any(axis=0).all():
                return holds
        raise BadInput(
            f"in each of {TRIES} draws one of {classes} classes was on none of {self.clients} "
            f"clients with {self.classes} each; use more clients or classes"
        )


@PARTITIONS.register("quantity_skew")
class QuantitySkew(Partition):
    """Clients of uneven size, alike in classes by chance: q ~ Dir(beta), client k has q_k of all.

    The sizes are drawn again until every client has ``min_size`` samples. FedNoisy
    ("noniid-quantity"): beta 0.1, 10 clients; the minimum of 10 is FedLab's. FedNoiL's
    ``quantity_dirichlet`` takes a subset with equal class counts on each client.
    """

    least = "min_size"
    beta: float = option(doc="concentration: the smaller, the more uneven the sizes", above=0)
    min_size: int = option(10, doc="samples that every client has at least", at_least=1)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        rows = [np.arange(len(labels))]
        return share_out(rows, self.clients, self.beta, self.min_size, False, rng)
