"""Validation datasets, for choosing a method or its options without looking at the test part.

Of a dataset's training part a tenth, drawn once for all, stands for the test part, and the rest is
the training part. The test part is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.core.randomness import stream
from noisyfl.data.datasets.images import Files
from noisyfl.data.datasets.sources import Arrays

SHARE = 0.1
"""The share of the training part that is held out."""

ENDING = "_validation"
"""What the name of a validation dataset adds to that of its dataset."""


def held_out(train_size: int) -> int:
    """How many of so many training samples are held out."""
    return round(SHARE * train_size)


def divided(train_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The training samples that are left, and those that are held out: their rows, in order."""
    order = stream(0, "validation").permutation(train_size)
    number = held_out(train_size)
    return np.sort(order[number:]), np.sort(order[:number])


def load_validation(
    load: Callable[[Path, bool], tuple[Any, Any]], folder: Path, download: bool
) -> tuple[Arrays, Arrays]:
    """The training samples that are left, and those that are held out.

    Args:
        load: reads both parts of the dataset; its training part is kept as pixels.
    """
    train, _ = load(folder, download)
    assert not isinstance(train, Files)
    images, labels = train
    rest, test = divided(len(labels))
    return (images[rest], labels[rest]), (images[test], labels[test])
