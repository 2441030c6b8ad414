"""Label noise: which labels are flipped, and into what.

A label noise takes true labels and returns given labels. The flips of client k are drawn from a
random stream that depends only on the seed and k.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.core.registry import Component, Registry
from noisyfl.core.rounding import round_down, round_half_up
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.data.noise.noise_level import consecutive_groups
from noisyfl.data.noise.transitions import MAPS, Transition, by_table, draw_uniform, shifted

if TYPE_CHECKING:
    from noisyfl.data.own_files import OwnFiles

SMALL = 25
"""The most samples of a client of which half a sample is a share of two points or more."""


@dataclass(frozen=True)
class Context:
    """What a label noise may know besides labels and levels.

    Attributes:
        own: a user's own files, and the data folders.
        images: the images of a client's samples, uint8 [samples, height, width, channels], or its
            vectors, float32 [samples, 1, 1, features], by the client's number; nothing is decoded
            unless it is called.
    """

    dataset: Dataset
    seed: int
    own: OwnFiles | None = None
    images: Callable[[int], np.ndarray] | None = None


class LabelNoise(Component, ABC):
    """What all label noises share.

    Attributes:
        uses_level: the noise level decides how many labels are flipped.
        by_client: what happens to a sample depends on its client.
        least_clients: the smallest number of clients that it can be applied to.
        whole: it is given the whole training set as if that were one client.
    """

    uses_level: ClassVar[bool] = True
    by_client: ClassVar[bool] = False
    least_clients: ClassVar[int] = 1
    whole: ClassVar[bool] = False

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if it cannot be applied to this dataset or to so few clients."""
        if clients < self.least_clients:
            raise BadInput(
                f"needs at least {self.least_clients} clients, got clients={clients}",
            )

    def resolve(self, dataset: Dataset, own: OwnFiles | None) -> LabelNoise:
        """The same noise as a spec has it, once the files that it names are read.

        Args:
            own: reads files; None: nothing is read.

        Raises:
            NotRead: a file has to be read first.
            BadInput: it cannot be.
        """
        return self

    @abstractmethod
    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Return the given labels.

        Args:
            clients: true labels of each client, int64 [samples].
            levels: noise level of each client, [clients].

        Returns:
            The given labels of each client, int64 [samples].
        """

    def replace(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Return the rows of the images that each client has, int64 [samples]; by default those of
        the training part that it was dealt, ``clients``.
        """
        return list(clients)


class Flipping(LabelNoise):
    """A noise that flips the labels of random samples, in each client as many as its level says."""

    count: Literal["exact", "floor", "bernoulli"] = option(
        "exact",
        doc="how many of n labels are flipped; exact: level n, rounded (halves up; with more than "
        "25 labels to the even number); floor: rounded down; bernoulli: each with the level as its "
        "probability",
    )

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Flip each client's share of labels by the client's transition."""
        given = []
        transitions = self.transitions(clients, context)
        for k, (labels, level, wrong) in enumerate(zip(clients, levels, transitions, strict=True)):
            rng = stream(context.seed, "label noise", k)
            chosen = self.choose(labels, level, rng)
            flipped = labels.copy()
            flipped[chosen] = wrong(labels[chosen], rng)
            given.append(flipped)
        return given

    def choose(self, labels: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
        """Positions of the samples of a client whose labels are flipped.

        Args:
            labels: the client's true ones, int64 [samples].
        """
        n = len(labels)
        if self.count == "bernoulli":
            return np.flatnonzero(rng.random(n) < level)
        return rng.permutation(n)[: self.number_of_flips(level, n)]

    def number_of_flips(self, level: float, n: int) -> int:
        """How many labels of n are flipped at a level, unless that is drawn."""
        return round_down(level * n) if self.count == "floor" else nearest(level, n)

    @abstractmethod
    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """For each client with these true labels, what they are flipped into."""


def nearest(share: float, n: int) -> int:
    """How many of n samples are nearest to a share of them, a half rounded up.

    Of more than :data:`SMALL` samples it is rounded to the even number, as in the partitions of
    tracked runs.
    """
    return round_half_up(share * n) if n <= SMALL else round(share * n)


LABEL_NOISES = Registry[LabelNoise]("label noise", LabelNoise)


@LABEL_NOISES.register("none")
class Clean(LabelNoise):
    """Every given label is the true one."""

    uses_level = False

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Copies of the true labels."""
        return [labels.copy() for labels in clients]


@LABEL_NOISES.register("symmetric")
class Symmetric(Flipping):
    """A flipped label is uniform over the classes, without the true one or with it.

    | paper | include_true | count | scope of the level |
    |---|---|---|---|
    | RoFL (appendix) | false | bernoulli | dataset |
    | FedNoiL (section 5.1; true class and count open) | false | exact | client |
    | FedCNI (appendix A.1) | true | exact | client |
    | FedCorr (section 3.1; count of the official code) | true | bernoulli | client |
    | FedRN (section 5.1; both of the official code) | false | floor | client |

    If the true class is among the M classes drawn from, a share 1 / M of the flips changes nothing.
    """

    include_true: bool = option(False, doc="the true class is among those drawn from")
    noise_classes: int | None = option(
        None,
        doc="draw from the first so many classes only (10 is what FedCorr's official code does, "
        "on CIFAR-100 too); null: all",
        at_least=2,
    )

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if the dataset has fewer classes than are to be drawn from."""
        classes = len(dataset.classes)
        if self.noise_classes is not None and self.noise_classes > classes:
            raise BadInput(
                f"got {self.noise_classes}, "
                f"expected at most {classes}, the classes of {dataset.name}",
                "noise_classes",
            )

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """The same for all clients."""
        classes = self.noise_classes or len(context.dataset.classes)
        return [draw_uniform(classes, self.include_true)] * len(clients)


@LABEL_NOISES.register("pair")
class Pair(Flipping):
    """A flipped label is the next class, y + 1 mod M, or with direction -1 the one before.

    RoFL: 1, with level scope dataset and bernoulli counts. FedNoiL: 1, exact. FedRN ("asymmetric"):
    -1 in its official code, floor.
    """

    direction: Literal[1, -1] = option(1, doc="1: the next class; -1: the one before")

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """The same for all clients."""
        return [by_table(shifted(len(context.dataset.classes), self.direction))] * len(clients)


@LABEL_NOISES.register("client_pair")
class ClientPair(Flipping):
    """As ``pair``, but each client flips by a map of its own: y + s mod M, s drawn from 1 to M - 1.

    A reading of FedNoiL's pair noise: in one of its modes more than half of all labels are flipped,
    and if all clients flipped a class into the same one, no method could tell the two apart.
    """

    by_client = True

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """For each client the shift that is drawn for it."""
        classes = len(context.dataset.classes)
        shifts = stream(context.seed, "label noise", "shifts").integers(1, classes, len(clients))
        return [by_table(shifted(classes, int(shift))) for shift in shifts]


@LABEL_NOISES.register("asymmetric")
class Asymmetric(Flipping):
    """A flipped label is the class that the true one is easily taken for.

    ``classic`` (Patrini et al., CVPR 2017) leaves some classes as they are, so that fewer labels
    change than the level says. ``full`` has an arrow from every class and to every class: on
    CIFAR-10 the arrows of ``classic`` and further ones; on CIFAR-100 from each class to the next
    one of its superclass, cyclically; on other datasets to the next class. ``full`` is the default
    reading of FedCNI's pair noise (appendix A.1): the paper's examples are arrows of ``classic``,
    and its levels are reached. FedCNI counts exactly.
    """

    map: Literal["classic", "full"] = option(doc="which map of classes")

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if the dataset does not have the map."""
        if self.map == "classic" and (dataset.with_classes, "classic") not in MAPS:
            known = ", ".join(name for name, kind in sorted(MAPS) if kind == "classic")
            raise BadInput(
                f"got 'classic', which {dataset.name} does not have "
                f"({known} do); use 'full' for a map that every dataset has",
                "map",
            )

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """The same for all clients."""
        dataset = context.dataset
        kinds = ("classic",) if self.map == "classic" else ("full", "superclass")
        known = ((dataset.with_classes, kind) for kind in kinds)
        own = [MAPS[key] for key in known if key in MAPS]
        return [by_table(own[0] if own else shifted(len(dataset.classes), 1))] * len(clients)


@LABEL_NOISES.register("mixed")
class Mixed(Flipping):
    """The first half of the clients has symmetric noise, the second half pair noise (FedRN).

    FedRN: symmetric without the true class, pair with direction -1, floor; the levels are
    ``client_linear(low=0, high=0.4, ramps=2)``.
    """

    by_client = True
    least_clients = 2
    direction: Literal[1, -1] = option(
        -1, doc="of the pair noise; 1: the next class; -1: the one before"
    )

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """By the half that a client is in; if the halves are not equal, the first is the larger."""
        classes = len(context.dataset.classes)
        halves = (draw_uniform(classes, False), by_table(shifted(classes, self.direction)))
        return [halves[half] for half in consecutive_groups(len(clients), 2)]


@LABEL_NOISES.register("pair4groups")
class PairFourGroups(Flipping):
    """Clients at random in four equal groups, each with a map of classes of its own.

    FedCNI, Table 2, has "four pair strategies" and does not say which. Chosen here: the map
    ``full`` of CIFAR-10 (on other datasets y + 1), y + 4, y + 5 and y + 6 mod M. On CIFAR-10, no
    two of them agree on any class. Flips are counted exactly.
    """

    by_client = True
    least_clients = 4
    least_classes: ClassVar[int] = 7  # with fewer, one of the maps is another map, or no flip

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if there are too few clients, or too few classes."""
        super().check(dataset, clients)
        if len(dataset.classes) < self.least_classes:
            raise BadInput(
                f"got {dataset.name} with {len(dataset.classes)} classes, "
                f"expected at least {self.least_classes}, with which the four maps differ",
            )

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """By the group that a client is drawn into."""
        classes = len(context.dataset.classes)
        first = MAPS.get((context.dataset.with_classes, "full"), shifted(classes, 1))
        maps = [first, *(shifted(classes, step) for step in (4, 5, 6))]
        rng = stream(context.seed, "label noise", "groups")
        groups = rng.permutation(consecutive_groups(len(clients), 4))
        return [by_table(maps[group]) for group in groups]


@LABEL_NOISES.register("class_noise")
class ClassNoise(Flipping):
    """In each client all labels of one class are wrong, and the level holds for the others.

    RoFL, Table 3 (right): levels 0.1 to 0.6, symmetric without the true class. The class is drawn
    from those that the client holds.
    """

    by_client = True

    def choose(self, labels: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
        """Positions of all samples of one class, and of a share of the others."""
        ruined = labels == rng.choice(np.unique(labels))
        others = np.flatnonzero(~ruined)
        share = others[super().choose(others, level, rng)]
        return np.concatenate([np.flatnonzero(ruined), share])

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """The same for all clients."""
        return [draw_uniform(len(context.dataset.classes), False)] * len(clients)
