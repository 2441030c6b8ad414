"""Read image files, bring them to one size as torchvision's transforms do, in several threads."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Item = TypeVar("Item")
Result = TypeVar("Result")

JPEG_QUALITY = 95
"""Of images that are kept encoded; colours have half the resolution, as in cameras' files."""

AHEAD = 4
"""Images per thread that are begun or waiting, so that a slow one does not hold up the others."""


class Fit(NamedTuple):
    """How an image is brought to its size, by antialiased bilinear interpolation.

    Attributes:
        height: final height in pixels.
        width: final width in pixels.
        shorter: length to which the shorter side is scaled before the middle is cut out; None: the
            image is stretched to the final size, whatever its aspect ratio.
    """

    height: int
    width: int
    shorter: int | None = None


@dataclass(frozen=True)
class Files:
    """A part of a dataset as image files, in the part's order.

    Attributes:
        folder: the folder in which the images lie.
        names: paths of the images, relative to the folder.
        labels: int64 [n].
        fit: how the images are brought to one size.
    """

    folder: Path
    names: Sequence[str]
    labels: np.ndarray
    fit: Fit

    def __len__(self) -> int:
        return len(self.names)

    def paths(self) -> Iterator[Path]:
        """The paths of the images."""
        return (self.folder / name for name in self.names)

    def part(self, first: int, last: int) -> Files:
        """The images from ``first`` up to but not including ``last``."""
        return replace(self, names=self.names[first:last], labels=self.labels[first:last])


Source = Path | bytes | np.ndarray
"""An image: its file, its encoded bytes, or its pixels, uint8 [height, width] or with channels."""


class Unreadable(NamedTuple):
    """What cannot be read as an image, and why."""

    image: Source
    reason: str


def threads() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_image(source: Source) -> Image:
    """An image as it is, of which no more than its head is read.

    Raises:
        OSError: it is no image.
    """
    from PIL import Image

    if isinstance(source, np.ndarray):
        return Image.fromarray(source[..., 0] if source.shape[2:] == (1,) else source)
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)


def fitted(source: Source, fit: Fit) -> Image:
    """An image as RGB, brought to its size.

    Raises:
        OSError: it is no image, or truncated.
    """
    from PIL import Image

    with open_image(source) as image:
        if image.mode.startswith("I"):  # 16 bits a pixel, as some X-rays have
            grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255)
            colour = Image.fromarray(grey.astype(np.uint8)).convert("RGB")
        else:
            colour = image.convert("RGB")
    if fit.shorter is None:
        return colour.resize((fit.width, fit.height), Image.Resampling.BILINEAR)
    # The longer side and the corner are rounded as torchvision's Resize and CenterCrop do.
    scaled = [int(fit.shorter * side / min(colour.size)) for side in colour.size]
    colour = colour.resize((scaled[0], scaled[1]), Image.Resampling.BILINEAR)
    left, top = round((scaled[0] - fit.width) / 2), round((scaled[1] - fit.height) / 2)
    return colour.crop((left, top, left + fit.width, top + fit.height))


def pixels(source: Source, fit: Fit) -> np.ndarray | Unreadable:
    """An image's pixels, uint8 [height, width, 3]."""
    try:
        return np.asarray(fitted(source, fit))
    except (OSError, SyntaxError, ValueError) as error:
        return Unreadable(source, _reason(error))


def jpeg(path: Path, fit: Fit) -> bytes | Unreadable:
    """A file's image as JPEG."""
    buffer = io.BytesIO()
    try:
        fitted(path, fit).save(buffer, "JPEG", quality=JPEG_QUALITY)
    except (OSError, SyntaxError, ValueError) as error:
        return Unreadable(path, _reason(error))
    return buffer.getvalue()


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """The results of ``work`` on each item, in order, made by threads a little ahead of the caller.

    Args:
        work: what is done; should release Python's global interpreter lock, as decoding does.
        items: taken only as they are needed.
        workers: number of threads; by default one per core.
    """
    workers = workers or threads()
    waiting = iter(items)
    with ThreadPoolExecutor(workers, "images") as pool:
        under_way: deque[Future[Result]] = deque(
            pool.submit(work, item) for item in islice(waiting, AHEAD * workers)
        )
        try:
            while under_way:
                result = under_way.popleft().result()
                under_way.extend(pool.submit(work, item) for item in islice(waiting, 1))
                yield result
        finally:
            for future in under_way:
                future.cancel()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
