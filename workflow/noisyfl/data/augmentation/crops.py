"""Crops out of images that are kept larger than a network sees them, in batches of uint8 images.

They do what torchvision's ``RandomCrop``, ``RandomResizedCrop`` and ``CenterCrop`` do. The part of
an image that is taken is drawn from a numpy generator, so that it is the same on every device.
"""

from __future__ import annotations

import math
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

WEIGHT_BITS = 22
"""Weights of pixels are integers in units of 2 to the power of minus this, as in Pillow."""


def draw_windows(n: int, rng: np.random.Generator, kept: Shape, shape: Shape) -> np.ndarray:
    """Draw the upper left corners of windows, uniform over the images: int64 [n, 2].

    Args:
        n: how many.
        rng: the stream to draw from.
        kept: shape of the images, height first, in pixels.
        shape: of the window, likewise.
    """
    room = np.array([kept[0] - shape[0], kept[1] - shape[1]])
    return rng.integers(0, room, size=(n, 2), endpoint=True)


def draw_boxes(n: int, rng: np.random.Generator, kept: Shape) -> np.ndarray:
    """Draw the boxes that resized crops are taken from: int64 [n, 4], top, left, height, width.

    A box's area, as a share of the image, is uniform on :data:`AREA`. The logarithm of its width
    over its height is uniform between the logarithms of :data:`RATIO`. Its position is uniform.

    Args:
        n: how many.
        rng: the stream to draw from.
        kept: shape of the images, height first, in pixels.
    """
    height, width, _ = kept
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
        mirrored: bool [n].
        shape: of the windows.

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


def resized(images: Tensor, boxes: Tensor, mirrored: Tensor, shape: Shape) -> Tensor:
    """Boxes of images, scaled to a shape as Pillow's bilinear ``resize`` does, mirrored or not.

    The arithmetic is in integers, as in Pillow, so that pixels do not depend on the device. The
    width is scaled first, then the height. (Pillow begins with the height if a box shrinks in
    height and grows in width; there, a pixel may be off by one.)

    Args:
        images: uint8 [n, channels, height, width].
        boxes: int64 [n, 4], as :func:`draw_boxes` makes them.
        mirrored: bool [n].
        shape: of what comes out.

    Returns:
        uint8 [n, channels, height, width].
    """
    import torch

    top, left, height, width = boxes.unbind(1)
    columns, across = _weights(left, width, images.shape[3], shape[1])
    mirror = mirrored[:, None, None]
    columns = torch.where(mirror, columns.flip(1), columns)
    across = torch.where(mirror, across.flip(1), across)
    rows, down = _weights(top, height, images.shape[2], shape[0])
    scaled = _weighted(images, columns[:, None, None], across[:, None, None])
    return _weighted(scaled, rows[:, None, :, None], down[:, None, :, None])


def middle(images: Tensor, shape: Shape) -> Tensor:
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


def _weights(begin: Tensor, length: Tensor, side: int, size: int) -> tuple[Tensor, Tensor]:
    """The pixels whose weighted means are the ``size`` pixels of a scaled box, along one side.

    Args:
        begin: int64 [n], where the box begins.
        length: int64 [n], the box's length in pixels.
        side: length of the image's side.
        size: length to which the box is scaled.

    Returns:
        Their positions in the image, int64 [n, size, pixels], and their weights, int32 of the same
        shape, in the units that :data:`WEIGHT_BITS` sets.
    """
    import torch

    length = length.double()[:, None]
    scale = length / size
    reach = scale.clamp(min=1)
    centre = (torch.arange(size, device=begin.device) + 0.5) * scale
    first = (centre - reach + 0.5).floor_().clamp_(min=0)
    last = (centre + reach + 0.5).floor_().minimum(length)
    most = math.ceil(2 * max(1, side / size))
    pixel = first[:, :, None] + torch.arange(most, device=begin.device)
    share = 1 - ((pixel + 0.5 - centre[:, :, None]) / reach[:, :, None]).abs()
    share = torch.where(pixel < last[:, :, None], share.clamp_(min=0), 0)
    share /= share.sum(2, keepdim=True)
    weights = share.mul_(2**WEIGHT_BITS).add_(0.5).int()
    return begin[:, None, None] + pixel.minimum(length[:, :, None] - 1).long(), weights


def _weighted(images: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums along one axis.

    Args:
        images: uint8 [n, channels, height, width].
        places: int64, as :func:`_weights` makes them: [n, 1, 1, width, pixels] to sum columns,
            [n, 1, height, 1, pixels] to sum rows.
        weights: int32, likewise.

    Returns:
        uint8 [n, channels, height, width].
    """
    import torch

    axis = 3 if places.shape[2] == 1 else 2
    shape = list(images.shape)
    shape[axis] = places.shape[axis]
    # Sums are rounded, halves up. They fit into 32 bits: pixels have 8, weights 22.
    total = torch.full(shape, 2 ** (WEIGHT_BITS - 1), dtype=torch.int32, device=images.device)
    for place, weight in zip(places.unbind(4), weights.unbind(4), strict=True):
        total.addcmul_(images.gather(axis, place.expand(shape)).int(), weight)
    return (total >> WEIGHT_BITS).to(images.dtype)
