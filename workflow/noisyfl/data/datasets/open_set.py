"""Datasets with images of no class of the task, for open-set label noise.

Their training part has the images of the task first, then the others, whose label is the number of
classes. Partitions deal out the first; a label noise replaces some of them by the others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.data.datasets.images import Arrays, Files

Load = Callable[[Path, bool], tuple[Any, Any]]
"""Reads both parts of a dataset whose images are kept as pixels."""

ENDING = "_open"
"""What the name of a dataset adds of which the last classes are not the task's."""

BETWEEN = "_with_"
"""What stands between the task's dataset and the one that the other images are of."""


def load_classes(load: Load, classes: int, folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    """A dataset of which only the first so many classes are the task's, in training and test."""
    train, (images, labels) = _pixels(load, folder, download)
    known = labels < classes
    return _joined(train, train, classes), (images[known], labels[known])


def load_with_others(
    load: Load, other: Load, classes: int, folder: Path, download: bool
) -> tuple[Arrays, Arrays]:
    """A dataset whose training part also has the training images of another dataset.

    Args:
        other: reads the other dataset, of images of the same shape.
    """
    train, test = _pixels(load, folder, download)
    images, labels = _pixels(other, folder, download)[0]
    return _joined(train, (images, np.full_like(labels, classes)), classes), test


def _joined(task: Arrays, others: Arrays, classes: int) -> Arrays:
    """The images of the task's classes, then those of no class of the task."""
    known, rest = task[1] < classes, others[1] >= classes
    labels = [task[1][known], np.full(rest.sum(), classes, dtype=np.int64)]
    return np.concatenate([task[0][known], others[0][rest]]), np.concatenate(labels)


def _pixels(load: Load, folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    train, test = load(folder, download)
    assert not isinstance(train, Files)
    return train, test
