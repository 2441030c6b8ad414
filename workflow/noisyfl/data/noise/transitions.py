"""What a label is flipped into: at random, or by a map of classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisyfl.data.datasets.classes import CIFAR100_SUPERCLASSES

Transition = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""Wrong labels, int64 [n], for the true labels of the samples that are to be flipped."""


def draw_uniform(classes: int, include_true: bool) -> Transition:
    """Draw uniformly from the first ``classes`` classes, the true one included or not."""

    def wrong(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if include_true:
            return rng.integers(classes, size=len(labels))
        drawn = rng.integers(classes - (labels < classes))
        return drawn + (drawn >= labels)

    return wrong


def by_table(table: np.ndarray) -> Transition:
    """Look the wrong label up: ``table[true label]``."""
    return lambda labels, rng: table[labels]


def shifted(classes: int, step: int) -> np.ndarray:
    """The table that leads class y to (y + step) mod M."""
    return (np.arange(classes) + step) % classes


def _table(classes: int, arrows: dict[int, int]) -> np.ndarray:
    """The table of the given arrows from class to class; a class without one stays as it is."""
    return np.array([arrows.get(label, label) for label in range(classes)])


def _within_superclasses() -> np.ndarray:
    """The table of CIFAR-100 that leads each class to the next one of its superclass."""
    superclasses = np.array(CIFAR100_SUPERCLASSES)
    table = np.empty(len(superclasses), dtype=np.int64)
    for superclass in np.unique(superclasses):
        members = np.flatnonzero(superclasses == superclass)
        table[members] = np.roll(members, -1)
    return table


# Digits: 2 to 7, 3 to 8, 7 to 1, and 5 and 6 to each other.
# CIFAR-10: truck to automobile, bird to airplane, deer to horse, and cat and dog to each other.
_DIGITS_CLASSIC = _table(10, {2: 7, 3: 8, 7: 1, 5: 6, 6: 5})
MAPS = {
    ("digits", "classic"): _DIGITS_CLASSIC,
    ("mnist", "classic"): _DIGITS_CLASSIC,
    ("cifar10", "classic"): _table(10, {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}),
    ("cifar10", "full"): np.array([2, 8, 0, 5, 7, 3, 4, 6, 9, 1]),
    ("cifar100", "superclass"): _within_superclasses(),
}
"""The wrong label at the index of the true one, by dataset and kind of map."""
