"""Validation datasets, for choosing a method or its options without looking at the test part.

Of a dataset's training part a tenth, drawn once for all, stands for the test part, and the rest is
the training part. The test part is not read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisyfl.core.randomness import stream
from noisyfl.data.datasets.images import Files
from noisyfl.data.datasets.sources import Arrays

if TYPE_CHECKING:
    from noisyfl.data.datasets.dataset import Dataset

SHARE = 0.1
"""The share of the training part that is held out."""

ENDING = "_validation"
"""What the name of a validation dataset adds to that of its dataset."""


def validation(facts: Dataset) -> Dataset:
    """The validation dataset of a dataset whose images are kept as pixels.

    Its mean and standard deviation are those of the whole training part.
    """
    held_out = round(SHARE * facts.train_size)
    return replace(
        facts,
        name=facts.name + ENDING,
        train_size=facts.train_size - held_out,
        test_size=held_out,
        load=partial(_load, facts),
    )


def _load(facts: Dataset, folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    train, _ = facts.load(folder, download)
    assert not isinstance(train, Files)
    images, labels = train
    order = stream(0, "validation").permutation(facts.train_size)
    held_out = round(SHARE * facts.train_size)
    test, rest = np.sort(order[:held_out]), np.sort(order[held_out:])
    return (images[rest], labels[rest]), (images[test], labels[test])
