"""Partitions: which training samples are on which client.

Every partition is drawn from one generator and looks at nothing but the true labels. Where a paper
and its official code differ, the code's version has a name or an option of its own.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisyfl.core.options import BadInput, option, within
from noisyfl.core.registry import Component, Registry
from noisyfl.data.drawn import check_dealt
from noisyfl.data.partitioning.subsets import balanced_subset, long_tailed, of_each

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset
    from noisyfl.data.own_files import OwnFiles

TRIES = 2_000
"""The maximum number of draws until one leaves no client with too little."""


class Partition(Component, ABC):
    """What all partitions share.

    Attributes:
        least: the option that says how many samples each client takes at least; empty: one.
    """

    least: ClassVar[str] = ""
    clients: int = option(doc="number of clients", at_least=1)
    samples: int | None = option(
        None,
        doc="training samples that are partitioned, a random subset with equal class counts; "
        "null: all",
        at_least=1,
    )
    long_tail: float | None = option(
        None,
        doc="these samples have this many times as many of the first class as of the last, and the "
        "counts fall by the same factor from class to class; null: equal class counts",
        above=1,
        added_later=True,
    )

    @classmethod
    def lacking(cls) -> list[str]:
        """``_draw`` too, unless the partition has its own ``assign``."""
        draws = cls._draw is not Partition._draw or cls.assign is not Partition.assign
        return super().lacking() if draws else ["_draw"]

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if options do not fit together."""
        super().verify(context)
        if self.long_tail is None:
            return
        if self.samples is None and not context.get("partial"):
            raise BadInput(
                f"got {self.long_tail:g} without samples, expected their number, since a long tail "
                "leaves some out",
                "long_tail",
            )
        if getattr(self, "per_client", None) is not None:
            raise BadInput(
                f"got {self.long_tail:g} and per_client, which takes as many of each class, "
                "expected one of them",
                "long_tail",
            )

    def takes(self) -> tuple[int, str]:
        """The fewest training samples that it can be made from, and the options that say so."""
        if not self.least:
            return self.clients, f"clients={self.clients}"
        each = getattr(self, self.least)
        return self.clients * each, f"clients={self.clients} with {self.least}={each}"

    def check(self, samples: int) -> None:
        """Raise :class:`BadInput` if a training set of this many samples cannot be partitioned."""
        owner = "the dataset has"
        if self.samples is not None:
            if self.samples > samples:
                raise BadInput(
                    f"got {self.samples}, and the dataset has {samples}",
                    "samples",
                )
            samples, owner = self.samples, "samples leaves"
        needed, reason = self.takes()
        if needed > samples:
            raise BadInput(
                f"{reason} needs {needed} training samples, and {owner} {samples}",
            )

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> Partition:
        """The same partition as a spec has it, once the file that it names is read.

        Args:
            own: reads files; None: nothing is read.

        Raises:
            NotRead: a file has to be read first.
            BadInput: it cannot be.
        """
        return self

    def assign(
        self,
        labels: np.ndarray,
        classes: int,
        rng: np.random.Generator,
        own: OwnFiles | None = None,
    ) -> list[np.ndarray]:
        """The samples of each client.

        Args:
            labels: true labels of the training set, int [n].
            rng: where all draws come from.
            own: keeps what a file of a user's own holds.

        Returns:
            For each client the rows of its samples, int64, in ascending order. No sample is on two
            clients.

        Raises:
            BadInput: there are too few samples, or a client would have none.
        """
        with within("partition", self.name):
            self.check(len(labels))
            known = np.arange(len(labels))
            if self.samples is not None:
                known = np.sort(self._subset(labels, classes, self.samples, rng))
            drawn = self._draw(labels[known], classes, rng)
        dealt = check_dealt(drawn, self.clients, len(known), f"partition.{self.name}")
        return [np.sort(known[part]) for part in dealt]

    def _subset(
        self, labels: np.ndarray, classes: int, total: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Random rows, as the options ``samples`` and ``long_tail`` say."""
        if self.long_tail is None:
            return balanced_subset(labels, classes, total, rng)
        counts = long_tailed(total, classes, self.long_tail)
        available = np.bincount(labels, minlength=classes)
        for label in np.flatnonzero((counts > available) | (counts == 0)):
            raise BadInput(
                f"got {self.long_tail:g} with samples={total}, of which class {label} has "
                f"{counts[label]}, expected 1 to {available[label]}, as the dataset has",
                "long_tail",
            )
        return of_each(labels, counts, rng)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """The rows of each client, in any order; a partition with its own ``assign`` has none."""
        raise NotImplementedError


PARTITIONS = Registry[Partition]("partition", Partition)


@PARTITIONS.register("iid")
class IID(Partition):
    """Every client has a random, equally large part of the training set.

    FedCorr and RoFL: not stratified, n // clients samples each, and the remainder is left out
    (FedCorr's official code).
    """

    stratified: bool = option(
        False,
        doc="all samples are used, and neither sizes nor class counts of two clients differ by "
        "more than one",
    )

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        if self.stratified:
            return _deal(np.arange(len(labels)), labels, self.clients, rng)
        size = len(labels) // self.clients
        return list(rng.permutation(len(labels))[: size * self.clients].reshape(-1, size))


@PARTITIONS.register("iid_subset")
class IIDSubset(Partition):
    """IID on a class-balanced subset of the training set, with equal class proportions (FedNoiL).

    FedNoiL, section 5.1: 20 clients with 600 (Fashion-MNIST), 500 (CIFAR-10) or 1000 (CIFAR-100)
    samples each.
    """

    least = "per_client"
    per_client: int = option(doc="samples of each client", at_least=1)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        rows = balanced_subset(labels, classes, self.clients * self.per_client, rng)
        return _deal(rows, labels, self.clients, rng)


@PARTITIONS.register("shard")
class Shard(Partition):
    """Samples sorted by class are cut into equal shards; a client gets some at random (FedRN).

    FedRN: 100 clients with 2, 5 (CIFAR-10) or 20 shards (CIFAR-100) of n // (shards x clients)
    samples; what remains at the end of the sorted samples is left out. The sort is stable, unlike
    the official code's, so that shards do not depend on the library's version.
    """

    least = "shards"
    shards: int = option(doc="shards of each client", at_least=1)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        shards = self.clients * self.shards
        size = len(labels) // shards
        by_class = np.argsort(labels, kind="stable")[: shards * size].reshape(shards, size)
        return list(by_class[rng.permutation(shards)].reshape(self.clients, -1))


@PARTITIONS.register("dirichlet")
class Dirichlet(Partition):
    """The samples of each class are shared out in proportions drawn from a Dirichlet distribution.

    For each class, q ~ Dir(alpha) over the clients. The draws of all classes are repeated together
    until every client has at least ``min_size`` samples. FedCNI: 20 clients, alpha 1 and 0.7.
    FedNoiL: ``per_client`` 500 to 1000, alpha not stated. FedRN: its text describes alpha 0.5 and
    100 clients; ``cap`` comes from its code; its published numbers come from
    ``dirichlet_official``.
    """

    alpha: float = option(doc="concentration: the smaller, the more uneven", above=0)
    min_size: int = option(10, doc="samples that every client has at least", at_least=1)
    per_client: int | None = option(
        None,
        doc="mean samples of a client, taken from a class-balanced subset; null: all samples",
        at_least=1,
    )
    cap: bool = option(
        False, doc="a client that holds its even share gets nothing of the classes that follow"
    )

    @property
    def least(self) -> str:  # type: ignore[override]
        """``per_client`` if that is set."""
        return "min_size" if self.per_client is None else "per_client"

    def check(self, samples: int) -> None:
        """Also raise :class:`BadInput` if the minimum size is above the mean size."""
        super().check(samples)
        if self.per_client is not None and self.min_size > self.per_client:
            raise BadInput(
                f"min_size={self.min_size} is more than the mean size, "
                f"per_client={self.per_client}",
            )

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        rows = np.arange(len(labels))
        if self.per_client is not None:
            rows = balanced_subset(labels, classes, self.clients * self.per_client, rng)
        groups = [rows[labels[rows] == label] for label in range(classes)]
        return share_out(groups, self.clients, self.alpha, self.min_size, self.cap, rng)


@PARTITIONS.register("dirichlet_official")
class DirichletOfficial(Partition):
    """FedRN's Dirichlet partition as its official code has it for CIFAR-10: blind to the labels.

    In place of the labels, the code has a class vector of equal consecutive blocks of rows, always
    ten; here there are as many as classes, so that with more sizes are more even. Since a
    training set's order is random, clients differ in size but hardly in class proportions: nearly
    IID. A client that already holds its even share of all samples gets nothing of the blocks that
    follow. Beta 0.5, 100 clients.
    """

    least = "min_size"
    beta: float = option(doc="concentration: the smaller, the more uneven the sizes", above=0)
    min_size: int = option(10, doc="samples that every client has at least", at_least=1)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        blocks = np.array_split(np.arange(len(labels)), classes)
        return share_out(blocks, self.clients, self.beta, self.min_size, True, rng)


@PARTITIONS.register("bernoulli_dirichlet")
class BernoulliDirichlet(Partition):
    """FedCorr's non-IID partition: who may hold a class, then who holds how much (section 3.1).

    Client i may hold class j with probability p; a client with no class at all draws its classes
    again (as the official code does; the text is silent). Each sample of class j goes to one of its
    holders, with probabilities drawn from Dir(alpha). If no client may hold a class, its holders
    are drawn again too: the class would otherwise be in the test set but not in training. FedCorr:
    (p, alpha) of (0.7, 10), (0.7, 1) and (0.3, 10), 100 clients.
    """

    p: float = option(doc="chance that a client may hold a class", above=0, at_most=1)
    alpha: float = option(doc="concentration: the smaller, the more uneven", above=0)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        holds = self._nonzero_rows(rng, self.clients, classes)
        vacant = ~holds.any(axis=0)
        holds[:, vacant] = self._nonzero_rows(rng, int(vacant.sum()), self.clients).T
        holder = np.empty(len(labels), dtype=np.int64)
        for label in range(classes):
            rows = np.flatnonzero(labels == label)
            holders = np.flatnonzero(holds[:, label])
            shares = rng.dirichlet(np.full(len(holders), self.alpha))
            holder[rows] = rng.choice(holders, size=len(rows), p=shares)
        return [np.flatnonzero(holder == client) for client in range(self.clients)]

    def _nonzero_rows(self, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        """Bernoulli(p) draws, bool [rows, columns], with at least one true value in each row."""
        drawn = rng.random((rows, columns)) < self.p
        for _ in range(TRIES):
            empty = ~drawn.any(axis=1)
            if not empty.any():
                return drawn
            drawn[empty] = rng.random((int(empty.sum()), columns)) < self.p
        raise BadInput(
            f"p={self.p} is so small that in {TRIES} tries some client had no class, or some class "
            "no client"
        )


@PARTITIONS.register("quantity_dirichlet")
class QuantityDirichlet(Partition):
    """Clients of uneven size, each class-balanced: q ~ Dir(beta), client k has q_k of all samples.

    FedNoiL, Table 2 (right): beta 20, 20 clients, 500 samples a client on average. The samples are
    a class-balanced subset of the training set; that clients are class-balanced too is our reading.
    """

    least = "per_client"
    beta: float = option(doc="concentration: the smaller, the more uneven the sizes", above=0)
    per_client: int = option(doc="mean samples of a client", at_least=1)

    def _draw(self, labels: np.ndarray, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        total = self.clients * self.per_client
        rows = balanced_subset(labels, classes, total, rng)
        # Each sample gets a place from 0 to 1: its position within its class over the class's size.
        # Sorted by place, then by class, every consecutive run has nearly equal class counts.
        rows = rng.permutation(rows)
        place = np.empty(total)
        for label in range(classes):
            members = np.flatnonzero(labels[rows] == label)
            place[members] = np.arange(len(members)) / max(len(members), 1)
        rows = rows[np.lexsort((labels[rows], place))]
        shares = rng.dirichlet(np.full(self.clients, self.beta))
        return np.split(rows, _cuts(shares, total))


def _cuts(shares: np.ndarray, n: int) -> np.ndarray:
    """Where to cut n items so that the size of each part is its share of n, to within one."""
    return (np.cumsum(shares)[:-1] * n).astype(np.int64).clip(0, n)


def _deal(
    rows: np.ndarray, labels: np.ndarray, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Deal rows like cards, class by class.

    Neither the sizes nor the class counts of two clients differ by more than one.
    """
    rows = rng.permutation(rows)
    rows = rows[np.argsort(labels[rows], kind="stable")]
    return [rows[first::clients] for first in rng.permutation(clients)]


def share_out(
    groups: list[np.ndarray],
    clients: int,
    alpha: float,
    min_size: int,
    cap: bool,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Share out each group of rows in Dirichlet proportions; repeat until all clients have enough.

    Args:
        cap: a client that holds its even share of all rows gets nothing of the groups that follow.
    """
    total = sum(map(len, groups))
    even = total / clients if cap else np.inf
    for _ in range(TRIES):
        sizes = np.zeros(clients, dtype=np.int64)
        cuts = []
        for group in groups:
            shares = rng.dirichlet(np.full(clients, alpha)) * (sizes < even)
            if not shares.sum() > 0:  # a tiny alpha can put it all on clients at the cap
                break
            cuts.append(_cuts(shares / shares.sum(), len(group)))
            sizes += np.diff(cuts[-1], prepend=0, append=len(group))
        else:
            if sizes.min() >= min_size:
                parts = [np.split(rng.permutation(g), c) for g, c in zip(groups, cuts, strict=True)]
                return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
    raise BadInput(
        f"not one of {TRIES} draws gave each of {clients} clients min_size={min_size} of {total} "
        f"samples with the concentration {alpha}; raise it, or lower min_size or clients"
    )
