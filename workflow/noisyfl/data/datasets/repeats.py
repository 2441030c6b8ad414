"""A user's images that are there more than once: in both parts, or with two labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.images import RawImage
from noisyfl.data.datasets.sources import Arrays


def check_apart(train: Sequence[RawImage], test: Sequence[RawImage]) -> None:
    """Raise :class:`BadInput` if one file is an image of both parts.

    Args:
        train: images of the training part, of which only paths are looked at.
    """
    known = {found: path for path in train if (found := _file(path))}
    both = [(known[found], path) for path in test if (found := _file(path)) in known]
    if both:
        names = " and ".join(dict.fromkeys(map(str, both[0])))
        raise BadInput(
            f"{len(both):,} images are in the training part and in the test part, such as "
            f"{names}; expected each file in one part, and once in a list that test_share splits",
            "test",
        )


def _file(image: RawImage) -> tuple[int, int] | None:
    """What identifies a file, whichever links lead to it; None if there is none."""
    if not isinstance(image, Path):
        return None
    try:
        found = image.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def repeats(train: Arrays, test: Arrays) -> list[str]:
    """What a user should know of images with the same pixels, in words, with their numbers."""
    found = []
    labels_of: dict[str, dict[bytes, set[int]]] = {}
    for part, (images, labels) in (("training", train), ("test", test)):
        of_part = labels_of.setdefault(part, {})
        for digest, label in zip(map(_digest, images), labels.tolist(), strict=True):
            of_part.setdefault(digest, set()).add(label)
        if several := sum(len(labels) > 1 for labels in of_part.values()):
            found.append(f"{several:,} images are in the {part} part with two labels or more")
    seen = sum(_digest(image) in labels_of["training"] for image in test[0])
    if seen:
        found.append(
            f"{seen:,} of {len(test[0]):,} test images have the pixels of a training image"
        )
    return found


def _digest(image: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).digest()
