"""The images of a noisy partition's clients as torch datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DatasetPart
from noisyfl.data.noisy_partition import NoisyPartition

Transform = Callable[[Tensor], Tensor]
"""What is done to an image, as torchvision's transforms: float32 [channels, height, width]."""


class LabelledImages(Dataset[tuple[Any, ...]]):
    """Images with labels: an item is ``(image, given label, true label)``, or of the test part
    ``(image, label)``.

    An image is float32 [channels, height, width], from 0 to 1, and a vector float32 [features, 1,
    1]; then it is what ``transform`` makes of it.
    A true label that nobody knows is -1.

    Attributes:
        labels: the labels of each item, int64 [n] each, in the item's order.
    """

    def __init__(
        self,
        part: DatasetPart,
        rows: np.ndarray,
        labels: Sequence[np.ndarray],
        transform: Transform | None,
    ) -> None:
        self.labels = tuple(torch.from_numpy(column.copy()) for column in labels)
        self._part = part
        self._rows = rows
        self._transform = transform

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, item: int) -> tuple[Any, ...]:
        images, row = self._part.images, int(self._rows[item])
        if isinstance(images, np.ndarray):
            pixels = torch.from_numpy(images[row].transpose(2, 0, 1).copy())
        else:
            pixels = torch.from_numpy(images.decoded(row))
        image = pixels if pixels.is_floating_point() else pixels.float() / 255
        if self._transform is not None:
            image = self._transform(image)
        return (image, *(int(column[item]) for column in self.labels))


@dataclass(frozen=True)
class FederatedData:
    """A noisy partition with the images of its dataset."""

    partition: NoisyPartition
    train: DatasetPart
    test_part: DatasetPart

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.partition.clients)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label."""
        return self.train.classes

    @property
    def noise(self) -> np.ndarray:
        """The share of each client's given labels that are wrong, [clients]; NaN if not known."""
        return self.partition.realised

    def client(self, number: int, transform: Transform | None = None) -> LabelledImages:
        """The samples of a client, with the labels that it is given and the true ones.

        Raises:
            BadInput: there is no such client.
        """
        if not 0 <= number < len(self):
            raise BadInput(f"client: got {number!r}, expected 0 to {len(self) - 1}")
        one = self.partition.clients[number]
        return LabelledImages(self.train, one.samples, (one.given_label, one.true_label), transform)

    def test(self, transform: Transform | None = None) -> LabelledImages:
        """The test part, with its labels."""
        part = self.test_part
        return LabelledImages(part, np.arange(len(part.labels)), (part.labels,), transform)
