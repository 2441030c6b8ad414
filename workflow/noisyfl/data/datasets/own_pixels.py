"""The pixels of a user's images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.images import (
    Fit,
    RawImage,
    Unreadable,
    fitted,
    in_order,
    is_deep,
    of_opened,
)
from noisyfl.data.datasets.requested import shortened
from noisyfl.data.own_columns import MOST_GB

if TYPE_CHECKING:
    from PIL.Image import Image

SHOWN = 20
"""How many images that cannot be read a message names."""

DIM = 16
"""If no pixel of the images of 16 bits reaches this, of 255, they have fewer bits, such as 12."""


class _Decoded(NamedTuple):
    """An image's pixels, uint8 [height, width, 1 or 3], and whether it has 16 bits a pixel."""

    pixels: np.ndarray
    deep: bool


def decode(
    images: Sequence[RawImage], names: Sequence[str], size: Sequence[int] | None
) -> np.ndarray:
    """The pixels of all images, uint8 [n, height, width, channels]: one channel if all are grey.

    Args:
        size: height and width that they are brought to; None: they have one size.

    Raises:
        BadInput: images cannot be read, their sizes differ, or they fill the memory. The path is
            the option that can help.
    """
    fit = None if size is None else Fit(size[0], size[1])
    if size is not None:
        _check_room(len(images), (*size, 1))
    every, first = None, 0
    broken: list[str] = []
    deep: list[int] = []
    another_size = ""
    for row, found in enumerate(in_order(partial(_decoded, fit=fit), images)):
        if isinstance(found, Unreadable):
            broken.append(f"{names[row]}: {found.reason}")
            continue
        height, width, channels = found.pixels.shape
        if every is None:
            every, first = _room(len(images), found.pixels.shape), row
        if (height, width) != every.shape[1:3]:
            another_size = another_size or (
                f"{names[row]} is {height}x{width}, and {names[first]} is {every.shape[1]}x"
                f"{every.shape[2]}; expected images of one size, or one to bring them to, such as "
                "size=[32, 32]"
            )
            continue
        if channels > every.shape[3]:
            grey, every = every, _room(len(images), found.pixels.shape)
            every[:row] = grey[:row]
        every[row] = found.pixels
        deep += [row] if found.deep else []
    if broken or every is None:
        many = f"{len(broken):,} images" if len(broken) > 1 else "1 image"
        raise BadInput(f"{many} cannot be read: {shortened(broken, SHOWN)}", "path")
    if another_size:
        raise BadInput(another_size, "size")
    if 0 < max((every[row].max() for row in deep), default=0) < DIM:
        raise BadInput(
            f"{len(deep):,} images have 16 bits per channel, such as {names[deep[0]]}, and no "
            f"pixel of them reaches {DIM << 8:,}, expected up to 65,535: scale the pixels to 16 "
            "bits, or save them with 8",
            "path",
        )
    return every


@of_opened
def _decoded(image: Image, fit: Fit | None) -> _Decoded:
    from PIL.Image import getmodebase
    from PIL.ImageOps import exif_transpose

    channels = 1 if getmodebase(image.mode) == "L" else 3
    deep = is_deep(image)
    image.load()
    with suppress(Exception):  # damaged EXIF data count as none
        exif_transpose(image, in_place=True)
    return _Decoded(np.asarray(fitted(image, fit))[..., :channels], deep)


def _room(count: int, shape: tuple[int, ...]) -> np.ndarray:
    _check_room(count, shape)
    return np.zeros((count, *shape), dtype=np.uint8)


def _check_room(count: int, shape: tuple[int, ...]) -> None:
    gigabytes = count * math.prod(shape) / 1e9
    if gigabytes > MOST_GB:
        raise BadInput(
            f"{gigabytes:,.0f} GB of pixels, expected at most {MOST_GB}, which a run holds in "
            "memory; a smaller size helps",
            "size",
        )
