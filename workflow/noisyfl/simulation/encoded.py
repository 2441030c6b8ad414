"""Images that are decoded while the device computes, where not all of them fit into its memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from noisyfl.data.datasets.dataset import DatasetPart
from noisyfl.data.datasets.images import threads
from noisyfl.data.datasets.shards import Encoded
from noisyfl.simulation.outputs import Images

PIECES_AHEAD = 2
"""Pieces that are being decoded while the device works on one."""


class EncodedImages(Images):
    """A part of a dataset that is kept encoded; threads decode the images that are needed next.

    The threads only decode, so the result does not depend on their number.

    Args:
        labels: int64 [n].
        device: where pixels and labels go.
        workers: the number of threads. By default one for each core if the device is a GPU, and a
            single one if it is a CPU, whose other cores are left to other runs.
    """

    def __init__(
        self,
        images: Encoded,
        labels: np.ndarray,
        device: torch.device,
        workers: int | None = None,
    ) -> None:
        self.labels = torch.from_numpy(labels).to(device)
        height, width, channels = images.image_shape
        self.shape = (channels, height, width)
        self._images = images
        self._device = device
        workers = workers or (threads() if device.type == "cuda" else 1)
        self._pool = ThreadPoolExecutor(workers, "decoding")

    def pieces(self, rows: Tensor, sizes: int | list[int]) -> Iterator[Tensor]:
        """See :class:`Images`."""
        waiting = iter(rows.cpu().split(sizes))
        under_way = deque(self._begin(part) for part in islice(waiting, PIECES_AHEAD))
        while under_way:
            pixels, decoding = under_way.popleft()
            under_way.extend(self._begin(part) for part in islice(waiting, 1))
            for image in decoding:
                image.result()
            yield pixels.to(self._device, non_blocking=True)

    def parts(self, size: int) -> Iterator[Tensor]:
        """See :class:`Images`."""
        return self.pieces(torch.arange(len(self.labels)), size)

    def _begin(self, rows: Tensor) -> tuple[Tensor, list[Future[None]]]:
        """Start decoding a piece; return the tensor that its pixels are written to, and the
        futures to wait for.
        """
        on_gpu = self._device.type == "cuda"
        pixels = torch.empty((len(rows), *self.shape), dtype=torch.uint8, pin_memory=on_gpu)
        places = pixels.numpy()

        def decode(place: int, row: int) -> None:
            places[place] = self._images.decoded(row)

        work = [self._pool.submit(decode, *entry) for entry in enumerate(rows.tolist())]
        return pixels, work


def images_of(part: DatasetPart, device: torch.device) -> Images:
    """A part of a dataset: kept on a device or, if it is encoded, decoded for it as needed."""
    if isinstance(part.images, Encoded):
        return EncodedImages(part.images, part.labels, device)
    return Images(part.images, part.labels, device)
