"""The images and labels that a file or folder lists, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyfl.data.datasets.images import Source


class Columns(NamedTuple):
    """What the columns or arrays are called; ``given`` is None if there are no given labels."""

    image: str
    label: str
    given: str | None


@dataclass(frozen=True)
class Listing:
    """Images and their labels, as a file or folder lists them.

    Attributes:
        place: the file or folder.
        images: in order.
        labels: the number or the name of each one's class.
        given: its given label, likewise; None if there are none.
        classes: names of the classes by number; None if the format does not say them.
        numbers: where each stands in the file or folder, from 0, if some of it are left out.
        notes: what a user should know of how the file or folder was read.
    """

    place: Path
    images: Sequence[Source]
    labels: Sequence[int | str]
    given: Sequence[int | str] | None = None
    classes: Sequence[str] | None = None
    numbers: Sequence[int] | None = None
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.images)

    def rows(self, rows: np.ndarray) -> Listing:
        """Some of the images, by their numbers."""
        return replace(
            self,
            images=[self.images[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            given=None if self.given is None else [self.given[row] for row in rows],
            numbers=rows.tolist(),
        )

    def name(self, row: int) -> str:
        """What an error message calls an image."""
        image = self.images[row]
        number = row if self.numbers is None else self.numbers[row]
        return str(image) if isinstance(image, Path) else f"{self.place}, row {number}"
