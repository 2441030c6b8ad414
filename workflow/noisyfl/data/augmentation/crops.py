"""Crops out of images that are kept larger than a network sees them, in batches of uint8 images.

They do what torchvision's ``RandomCrop``, ``RandomResizedCrop`` and ``CenterCrop`` do. The part of
an image that is taken is drawn from a numpy generator, so that it is the same on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Shape = tuple[int, int, int]
"""The shape of an image: height, width, channels."""

AREA = (0.08, 1.0)
"""Smallest and largest area of the box of a resized crop, as shares of the image."""

RATIO = (3 / 4, 4 / 3)
"""The narrowest and the widest shape of this box: width over height."""

TRIES = 10
"""Boxes drawn per image. If none fits into the image, the largest one in its middle is taken."""


def draw_windows(n: int, rng: np.random.Generator, image_shape: Shape, shape: Shape) -> np.ndarray:
    """Draw the upper left corners of windows, uniform over the images: int64 [n, 2].

    Args:
        image_shape: shape of the images, height first, in pixels.
        shape: shape of the window, height first, in pixels.
    """
    room = np.array([image_shape[0] - shape[0], image_shape[1] - shape[1]])
    return rng.integers(0, room, size=(n, 2), endpoint=True)


def draw_boxes(n: int, rng: np.random.Generator, image_shape: Shape) -> np.ndarray:
    """Draw the boxes that resized crops are taken from: int64 [n, 4], top, left, height, width.

    A box's area, as a share of the image, is uniform on :data:`AREA`. The logarithm of its width
    over its height is uniform between the logarithms of :data:`RATIO`. Its position is uniform.

    Args:
        image_shape: shape of the images, height first, in pixels.
    """
    height, width, _ = image_shape
    area = rng.uniform(*AREA, size=(n, TRIES)) * (height * width)
    narrowest, widest = np.log(RATIO)
    ratio = np.exp(rng.uniform(narrowest, widest, size=(n, TRIES)))
    sides = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=-1))).astype(np.int64)
    fits: np.ndarray = np.all((sides > 0) & (sides <= (height, width)), axis=-1)
    found = np.any(fits, axis=1, keepdims=True)
    first = sides[np.arange(n), fits.argmax(axis=1)]
    size = np.where(found, first, _largest(height, width))
    room = np.array([height, width]) - size
    drawn = np.floor(rng.random((n, 2)) * (room + 1)).astype(np.int64)
    corner = np.where(found, drawn, room // 2)
    return np.concatenate([corner, size], axis=1)


def window(images: Tensor, corners: Tensor, mirrored: Tensor, shape: Shape) -> Tensor:
    """Windows of images, mirrored or not.

    Args:
        images: uint8 [n, channels, height, width].
        corners: int64 [n, 2], the rows and columns where they begin.

    Returns:
        uint8 [n, channels, height, width].
    """
    import torch

    down = corners[:, :1] + torch.arange(shape[0], device=images.device)
    right = corners[:, 1:] + torch.arange(shape[1], device=images.device)
    right = torch.where(mirrored[:, None], right.flip(1), right)
    n, channels, _, width = images.shape
    places = (down[:, :, None] * width + right[:, None, :]).view(n, 1, -1)
    taken = images.flatten(2).gather(2, places.expand(-1, channels, -1))
    return taken.view(n, channels, shape[0], shape[1])


def resized(images: Tensor, boxes: np.ndarray, mirrored: np.ndarray, shape: Shape) -> Tensor:
    """Boxes of images, scaled to a shape by torchvision's bilinear ``resized_crop``, mirrored or
    not.

    Pixels are averaged where a box shrinks, as of images of Pillow, from which a pixel may be a
    grey level off. So may one on a GPU from the same on a CPU, since torchvision computes in
    floating point there and in integers here.

    Args:
        images: uint8 [n, channels, height, width].
        boxes: int64 [n, 4], as :func:`draw_boxes` makes them.
        mirrored: bool [n].

    Returns:
        uint8 [n, channels, height, width].
    """
    import torch
    from torchvision.transforms.v2 import functional

    size = [shape[0], shape[1]]
    scaled = [
        functional.resized_crop(image, *box, size, antialias=True)
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    return torch.stack(
        [one.flip(2) if mirror else one for one, mirror in zip(scaled, mirrored, strict=True)]
    )


def centre(images: Tensor, shape: Shape) -> Tensor:
    """The middle of images [n, channels, height, width], cut out at a shape's height and width."""
    # Halves are rounded as torchvision's CenterCrop does.
    top, left = (round((images.shape[axis] - shape[axis - 2]) / 2) for axis in (2, 3))
    return images[:, :, top : top + shape[0], left : left + shape[1]]


def _largest(height: int, width: int) -> tuple[int, int]:
    """Height and width of the largest box in an image with an aspect ratio within :data:`RATIO`."""
    if width / height < RATIO[0]:
        return round(width / RATIO[0]), width
    if width / height > RATIO[1]:
        return height, round(height * RATIO[1])
    return height, width
