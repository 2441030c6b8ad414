"""Batched augmentation and normalisation of uint8 images, on whatever device they live.

Random numbers come from numpy generators and are passed in, so that they are the same on every
device. Names are checked without importing torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisyfl.data.strong import apply_strong, draw_strong
from noisyfl.options import BadInput

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisyfl.data.datasets import Dataset


class Augmentation(NamedTuple):
    """What is done to a training image: a random crop of the padded image, a random mirroring."""

    crop: bool
    flip: bool


AUGMENTATIONS = {
    "none": Augmentation(crop=False, flip=False),
    "crop": Augmentation(crop=True, flip=False),
    "crop_flip": Augmentation(crop=True, flip=True),
}
"""By name. ``crop`` is for images that a mirror turns into something else, such as digits."""

NORMALIZATIONS = {
    "dataset": None,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "none": ((0.0,), (1.0,)),
}
"""Mean and standard deviation of each channel, of pixels from 0 to 1; or the dataset's own."""

PADDING = 4
"""Zeros put around an image, at most: an eighth of its side, rounded half up, up to 4."""


def padding(side: int) -> int:
    """How far a crop can be off centre: 4 pixels for 28 and 32, as in the papers, 1 for 8."""
    return min(PADDING, (side + 4) // 8)


def draw(
    augmentation: str, n: int, rng: np.random.Generator, shape: tuple[int, int, int]
) -> np.ndarray:
    """Throw the dice for ``n`` images of a shape (height, width, channels).

    Returns:
        int64 [n, 3]: pixels by which the crop is shifted down and to the right, and whether it is
        then mirrored (0 or 1).
    """
    kind = AUGMENTATIONS[augmentation]
    draws = np.zeros((n, 3), dtype=np.int64)
    if kind.crop:
        reach = np.array([padding(shape[0]), padding(shape[1])])
        draws[:, :2] = rng.integers(-reach, reach, size=(n, 2), endpoint=True)
    if kind.flip:
        draws[:, 2] = rng.integers(2, size=n)
    return draws


def crop_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Crop and mirror; what a crop takes from outside the image is black.

    Args:
        images: uint8 [n, channels, height, width].
        draws: int64 [n, 3], as :func:`draw` makes them, on the images' device.

    Returns:
        uint8 [n, channels, height, width].
    """
    import torch
    from torch.nn.functional import pad

    n, channels, height, width = images.shape
    down, right, mirrored = draws[:, :, None].unbind(1)
    rows = PADDING + down + torch.arange(height, device=images.device)
    columns = PADDING + right + torch.arange(width, device=images.device)
    columns = torch.where(mirrored > 0, columns.flip(1), columns)
    pixels = rows[:, :, None] * (width + 2 * PADDING) + columns[:, None, :]
    padded = pad(images, (PADDING,) * 4).flatten(2)
    taken = padded.gather(2, pixels.view(n, 1, -1).expand(-1, channels, -1))
    return taken.view(images.shape)


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``(images / 255 - mean) / std`` as float32, of uint8 [n, channels, height, width]."""
    return images.float().div_(255).sub_(mean).div_(std)


def statistics(
    normalization: str, dataset: Dataset, where: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel.

    Raises:
        BadInput: the normalisation is not for as many channels as the dataset has.
    """
    known = NORMALIZATIONS[normalization]
    mean, std = (dataset.mean, dataset.std) if known is None else known
    channels = dataset.shape[2]
    if len(mean) not in (1, channels):
        raise BadInput(
            f"{where}: {normalization} is for {len(mean)} channels, and the images of "
            f"{dataset.name} have {channels}"
        )
    return mean, std


KINDS = ("plain", "weak", "strong")
"""How images are shown: as they are; with the run's augmentation; with RandAugment and cutout
(:mod:`noisyfl.data.strong`) after it."""


class Draws(NamedTuple):
    """The dice of some images, a row an image: of the run's augmentation, and of the strong one."""

    moves: np.ndarray
    strong: np.ndarray

    def part(self, first: int, last: int) -> Draws:
        """Those of the images from the first to before the last."""
        return Draws(self.moves[first:last], self.strong[first:last])


class View:
    """How a run sees its images: normalised, and in training augmented too.

    Args:
        dataset: facts about the dataset.
        augmentation: a name of :data:`AUGMENTATIONS`.
        normalization: a name of :data:`NORMALIZATIONS`.
        device: where the images live.
    """

    def __init__(
        self, dataset: Dataset, augmentation: str, normalization: str, device: torch.device
    ) -> None:
        import torch

        mean, std = statistics(normalization, dataset, "normalization")
        self.shape = dataset.shape
        self.augmentation = augmentation
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None]

    def draw(self, kind: str, n: int, rng: np.random.Generator) -> Draws:
        """Throw the dice for ``n`` images.

        Args:
            kind: one of :data:`KINDS`.
            n: how many.
            rng: the stream to draw from.
        """
        nothing = np.zeros((n, 0), dtype=np.int64)
        if kind == "plain":
            return Draws(nothing, nothing)
        moves = draw(self.augmentation, n, rng, self.shape)
        return Draws(moves, draw_strong(n, rng, self.shape) if kind == "strong" else nothing)

    def show(self, kind: str, images: Tensor, draws: Draws) -> Tensor:
        """The images as a network sees them: float32, normalised.

        Args:
            kind: as for :meth:`draw`.
            images: uint8 [n, channels, height, width].
            draws: what :meth:`draw` drew for them.
        """
        import torch

        if kind != "plain" and self.augmentation != "none":
            # Waiting for the copy would make the processor wait for all work of a GPU.
            moves = torch.from_numpy(draws.moves).to(images.device, non_blocking=True)
            images = crop_flip(images, moves)
        if kind == "strong":
            images = apply_strong(images, draws.strong)
        return normalize(images, self.mean, self.std)
