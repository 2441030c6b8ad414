"""Read image files, bring them to one size as torchvision's transforms do, in several threads."""

from __future__ import annotations

import functools
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from noisyfl.core.text import reason

if TYPE_CHECKING:
    from PIL.Image import Image

Item = TypeVar("Item")
Result = TypeVar("Result")
Options = ParamSpec("Options")

Arrays = tuple[np.ndarray, np.ndarray]
"""Images, uint8 [n, height, width, channels], and labels, int64 [n]."""

JPEG_QUALITY = 95
"""Of images that are kept encoded; colours have half the resolution, as in cameras' files."""

AHEAD = 4
"""Images per thread that are begun or waiting, so that a slow one does not hold up the others."""


class Fit(NamedTuple):
    """How an image is brought to its size, by antialiased bilinear interpolation.

    Attributes:
        shorter: length to which the shorter side is scaled before the middle is cut out; None: the
            image is stretched to the final size, without keeping its aspect ratio.
    """

    height: int
    width: int
    shorter: int | None = None


@dataclass(frozen=True)
class Files:
    """A part of a dataset as image files, in the part's order.

    Attributes:
        names: paths of the images, relative to the folder.
        labels: int64 [n].
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


RawImage = Path | bytes | np.ndarray
"""An image: its file, its encoded bytes, or its pixels, uint8 [height, width] or with channels."""


class Unreadable(NamedTuple):
    """What cannot be read as an image, and why."""

    image: RawImage
    reason: str


def threads() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


NOT_IMAGES = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}
"""Formats that Pillow knows and that are not opened: it cannot decode them, or only by another
program, which runs what the file says (EPS).
"""


@functools.cache
def image_formats() -> dict[str, str]:
    """The format of each suffix that is read, such as ``{".jpg": "JPEG"}``: all that Pillow opens,
    except for :data:`NOT_IMAGES`.
    """
    from PIL import Image

    known = Image.registered_extensions()
    opened = Image.OPEN.keys() - NOT_IMAGES
    return {suffix: name for suffix, name in known.items() if name in opened} | {".mpo": "MPO"}


@functools.cache
def _formats() -> list[str]:
    """The names of the formats, in the order in which Pillow tries them."""
    from PIL import Image

    Image.init()
    return [name for name in Image.ID if name not in NOT_IMAGES]


def open_image(source: RawImage) -> Image:
    """An image as it is, of which no more than its head is read; of several frames, the first.

    Raises:
        OSError: it is no image.
    """
    from PIL import Image

    if isinstance(source, np.ndarray):
        return Image.fromarray(source[..., 0] if source.shape[2:] == (1,) else source)
    if isinstance(source, Path) and source.exists() and not source.is_file():
        raise OSError("it is no regular file")  # to open a named pipe would wait for its writer
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, "r", _formats())


def fitted(image: Image, fit: Fit | None) -> Image:
    """An image as RGB, brought to its size if there is one.

    Raises:
        OSError: it is truncated.
        ValueError: its pixels have a range that is not known.
    """
    from PIL.Image import Resampling

    colour = _as_rgb(image)
    if fit is None:
        return colour
    if fit.shorter is None:
        return colour.resize((fit.width, fit.height), Resampling.BILINEAR)
    # The longer side and the corner are rounded as torchvision's Resize and CenterCrop do.
    scaled = [int(fit.shorter * side / min(colour.size)) for side in colour.size]
    colour = colour.resize((scaled[0], scaled[1]), Resampling.BILINEAR)
    left, top = round((scaled[0] - fit.width) / 2), round((scaled[1] - fit.height) / 2)
    return colour.crop((left, top, left + fit.width, top + fit.height))


def is_deep(image: Image) -> bool:
    """Whether an image has 16 bits a channel; of mode I only these formats give such. Of colours,
    Pillow keeps the upper eight; what is not loaded yet shows how its decoder unpacks them.
    """
    if image.mode.startswith("I"):
        return image.mode != "I" or image.format in ("PNG", "PPM")
    tiles = (f"{codec} {args}" for codec, _, _, args in getattr(image, "tile", ()))
    return any(_DEEP.search(tile) for tile in tiles)


_DEEP = re.compile(r";16[BLN]\b|^SGI16 ")
"""The decoders' names for colours of 16 bits."""


def _as_rgb(image: Image) -> Image:
    """An image as RGB. Transparency is left out. Pixels of more than eight bits are brought to the
    range from 0 to 255 by what they are, not by what an image happens to have:

    - of 16 bits, the upper eight are kept;
    - whole numbers of 32 bits have to be from 0 to 255, and stay so;
    - floats have to be from 0 to 1, and are multiplied by 255.
    """
    from PIL import Image

    if image.mode == "P":  # the transparency of a palette would give a warning
        return image.convert("RGBA").convert("RGB")
    if not image.mode.startswith(("I", "F")):
        return image.convert("RGB")
    tags = getattr(image, "tag_v2", {})
    if tags.get(_PHOTOMETRIC, 1) == 0:
        raise ValueError(f"mode {image.mode} in which 0 is white, expected 0 to be black")
    values = np.asarray(image)
    low, high = values.min(), values.max()
    if is_deep(image):
        bits = max(tags.get(_BITS, (16,)))
        grey = values >> (bits - 8)
        if high > 0 and not grey.any():
            raise ValueError(
                f"{bits} bits per pixel, of which the brightest is {high}, expected up to "
                f"{2**bits - 1}: scale the pixels to {bits} bits, or save them with 8"
            )
    elif image.mode == "F":
        if not (low >= 0 and high <= 1):  # NaN is neither
            raise ValueError(f"float pixels from {low:g} to {high:g}, expected 0 to 1")
        grey = np.rint(values * 255)
    else:
        if low < 0 or high > 255:
            raise ValueError(
                f"pixels of 32 bits (mode I) from {low} to {high}, expected 0 to 255; or 16 bits"
            )
        grey = values
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")


_BITS, _PHOTOMETRIC = 258, 262
"""Tags of a TIFF: the bits per pixel, and whether 0 is black (1) or white (0)."""


def of_opened(
    read: Callable[Concatenate[Image, Options], Result],
) -> Callable[Concatenate[RawImage, Options], Result | Unreadable]:
    """Decorator: what is read of an opened image, by its file, or why it cannot be read."""

    @functools.wraps(read)
    def opened(source: RawImage, *args: Options.args, **options: Options.kwargs) -> Any:
        from PIL import UnidentifiedImageError

        try:
            with open_image(source) as image:
                return read(image, *args, **options)
        except UnidentifiedImageError:  # which would show a buffer's address
            return Unreadable(source, "cannot identify image")
        except Exception as error:  # of a broken or malicious file Pillow raises almost any
            return Unreadable(source, reason(error))

    return opened


@of_opened
def pixels(image: Image, fit: Fit) -> np.ndarray:
    """An image's pixels, uint8 [height, width, 3]; see :func:`fitted`."""
    return np.asarray(fitted(image, fit))


@of_opened
def jpeg(image: Image, fit: Fit) -> bytes:
    """An image as JPEG."""
    buffer = io.BytesIO()
    fitted(image, fit).save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of ``work`` on each item, in order, made by threads a little ahead of the caller.

    ``work`` should release Python's global interpreter lock, as decoding does.
    """
    workers = threads()
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
