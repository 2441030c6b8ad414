"""Random subsets of a training part with given class counts."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np


def balanced_subset(
    labels: np.ndarray, classes: int, total: int, rng: np.random.Generator
) -> np.ndarray:
    """Random rows with as equal class counts as possible: a class that has too few gives all."""
    available = np.bincount(labels, minlength=classes)
    # The highest level at which the classes together give no more than wanted.
    level = (
        bisect_right(
            range(available.max() + 1), total, key=lambda one: np.minimum(available, one).sum()
        )
        - 1
    )
    counts = np.minimum(available, level)
    more = rng.permutation(np.flatnonzero(available > level))[: total - counts.sum()]
    counts[more] += 1
    return of_each(labels, counts, rng)


def of_each(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random rows, so many of each class."""
    members = [rng.permutation(np.flatnonzero(labels == label)) for label in range(len(counts))]
    return np.concatenate([rows[:n] for rows, n in zip(members, counts, strict=True)])


def long_tailed(total: int, classes: int, ratio: float) -> np.ndarray:
    """How many of ``total`` samples each class has, int64 [classes], if the counts fall by the same
    factor from class to class, and the first has ``ratio`` times as many as the last (Cui et al.,
    2019). What rounding leaves goes to the classes that it costs most.
    """
    shares = ratio ** -(np.arange(classes) / (classes - 1))
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts
