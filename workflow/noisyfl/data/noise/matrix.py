"""Label noise by a transition matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, LabelNoise

Chance = Annotated[float, Field(ge=0, le=1)]

TOLERANCE = 1e-3
"""How far the sum of a row may be from 1: rows are often printed with three or four decimals."""


@LABEL_NOISES.register("matrix")
class Matrix(LabelNoise):
    """A given label is drawn from its true class's row of a transition matrix.

    Row i has the chances that the given label of a sample of class i is class 0, 1, and so on
    (Patrini et al., CVPR 2017). It is for confusions that were measured, such as those of two
    annotators. All clients have the same matrix.
    """

    uses_level = False
    rows: list[list[Chance]] = option(
        doc="for each true class, the chance of each given class; each row sums to 1"
    )

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` unless there is a row and a chance for each class, and each row
        sums to 1.
        """
        classes = len(dataset.classes)
        if len(self.rows) != classes:
            raise BadInput(
                f"got {len(self.rows)} rows, expected {classes}, the classes of {dataset.name}",
                "rows",
            )
        for name, row in zip(dataset.classes, self.rows, strict=True):
            if len(row) != classes:
                raise BadInput(
                    f"class {name}: got {len(row)} numbers, expected {classes}, one a class", "rows"
                )
            if abs(sum(row) - 1) > TOLERANCE:
                raise BadInput(f"class {name}: the sum is {sum(row):.4g}, expected 1", "rows")

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Draw each label by itself."""
        cumulative = np.cumsum(self.rows, axis=1)
        cumulative /= cumulative[:, -1:]
        given = []
        for k, labels in enumerate(clients):
            drawn = stream(context.seed, "label noise", k).random(len(labels))
            given.append((drawn[:, None] >= cumulative[labels]).sum(axis=1))
        return given
