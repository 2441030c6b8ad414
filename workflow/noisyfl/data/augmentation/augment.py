"""Batched augmentation and normalisation of uint8 images, on their own device.

Random numbers come from numpy generators and are passed in, so that they are the same on every
device. The names of augmentations can be checked without importing torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data.augmentation.crops import centre, draw_boxes, draw_windows, resized, window
from noisyfl.data.augmentation.mild import apply_mild, draw_mild
from noisyfl.data.augmentation.randaugment import (
    FIXMATCH,
    TORCHSSL,
    apply_strong,
    draw_fixmatch,
    draw_torchssl,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisyfl.data.datasets.dataset import Dataset


class Augmentation(NamedTuple):
    """What is done to a training image.

    Attributes:
        crop: a random crop, drawn again whenever the image is shown. If images are kept at the size
            that a network sees, they are padded first.
        flip: a random mirroring, drawn in the same way.
        resized: the crop has a random size and aspect ratio, is taken from the image without
            padding, and is scaled to the size that a network sees.
        client_light: every client has its own light: all of its images are made darker or brighter
            by the same factor, once for the run.
    """

    crop: bool
    flip: bool
    resized: bool = False
    client_light: bool = False


AUGMENTATIONS = {
    "none": Augmentation(crop=False, flip=False),
    "crop": Augmentation(crop=True, flip=False),
    "crop_flip": Augmentation(crop=True, flip=True),
    "crop_client_light": Augmentation(crop=True, flip=False, client_light=True),
    "resized_crop_flip": Augmentation(crop=True, flip=True, resized=True),
}
"""By name. ``crop`` is for images that mean something else when mirrored, such as digits."""

LIGHT = (0.5, 1.5)
"""The darkest and the brightest light of a client, as factors of a pixel's value (RoFL, appendix).
"""

NORMALIZATIONS = {
    "dataset": None,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "none": ((0.0,), (1.0,)),
}
"""Mean and standard deviation of each channel, of pixels from 0 to 1; None: the dataset's own."""

PADDING = 4
"""The maximum padding with zeros, in pixels; it is an eighth of the side, rounded half up."""


def padding(side: int) -> int:
    """How far a crop can be off centre: 4 pixels for sides 28 and 32, as in the papers; 1 for 8."""
    return min(PADDING, (side + 4) // 8)


def draw(
    augmentation: str,
    n: int,
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    image_shape: tuple[int, int, int] | None = None,
) -> np.ndarray:
    """Draw the random choices of an augmentation for ``n`` images.

    Args:
        augmentation: a name of :data:`AUGMENTATIONS`.
        shape: of an image as a network sees it: height, width, channels.
        image_shape: of an image as it is kept; by default the same.

    Returns:
        int64 [n, places + 1]. For a crop there are two places: the pixels by which it is shifted
        down and to the right or, in images that are kept larger, its upper left corner. For a
        resized crop there are four: its box, as
        :func:`noisyfl.data.augmentation.crops.draw_boxes` returns it. The last column is whether
        the crop is then mirrored (0 or 1).
    """
    kind = AUGMENTATIONS[augmentation]
    image_shape = image_shape or shape
    if kind.resized:
        places = draw_boxes(n, rng, image_shape)
    elif kind.crop and image_shape != shape:
        places = draw_windows(n, rng, image_shape, shape)
    elif kind.crop:
        reach = np.array([padding(shape[0]), padding(shape[1])])
        places = rng.integers(-reach, reach, size=(n, 2), endpoint=True)
    else:
        places = np.zeros((n, 2), dtype=np.int64)
    mirrored = rng.integers(2, size=n) if kind.flip else np.zeros(n, dtype=np.int64)
    return np.column_stack([places, mirrored])


def crop_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Crop and mirror; what a crop takes from outside the image is black.

    Args:
        images: uint8 [n, channels, height, width].
        draws: int64 [n, 3], as :func:`draw` makes them for images that are kept at the size that
            a network sees, on the images' device.

    Returns:
        uint8 [n, channels, height, width].
    """
    from torch.nn.functional import pad

    _, channels, height, width = images.shape
    padded = pad(images, (PADDING,) * 4)
    return window(padded, PADDING + draws[:, :2], draws[:, 2] > 0, (height, width, channels))


def apply_moves(
    augmentation: str, images: Tensor, draws: np.ndarray, shape: tuple[int, int, int]
) -> Tensor:
    """Images cropped and mirrored as an augmentation says.

    Args:
        images: uint8 [n, channels, height, width], of the size at which they are kept.
        draws: as :func:`draw` made them for that size.
        shape: of an image as a network sees it: height, width, channels.

    Returns:
        uint8 [n, channels, height, width], of that shape.
    """
    import torch

    if AUGMENTATIONS[augmentation].resized:
        return resized(images, draws[:, :-1], draws[:, -1] > 0, shape)
    # A blocking copy would make the CPU wait for all pending work of a GPU.
    moves = torch.from_numpy(draws).to(images.device, non_blocking=True)
    if images.shape[2:] != shape[:2]:
        return window(images, moves[:, :-1], moves[:, -1] > 0, shape)
    return crop_flip(images, moves)


def client_lights(clients: int, seed: int) -> np.ndarray:
    """The light of each client: float64 [clients], uniform on :data:`LIGHT`."""
    return stream(seed, "client light").uniform(*LIGHT, size=clients)


def brighten(images: Tensor, factor: float) -> Tensor:
    """Do what Pillow's ``ImageEnhance.Brightness`` does: multiply pixels by the factor, limit them
    to 255 and drop their fractions.

    Args:
        images: uint8 [n, channels, height, width].
        factor: at least 0; 1 leaves them as they are.

    Returns:
        uint8, like ``images``.
    """
    # Pillow multiplies in float32, which rounds some products up to a whole number.
    return images.float().mul_(float(np.float32(factor))).clamp_(max=255).to(images.dtype)


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """``(images / 255 - mean) / std`` as float32; of vectors, ``(vectors - mean) / std``.

    Args:
        images: uint8 [n, channels, height, width], 0 to 255; or vectors, float32 [n, features, 1,
            1], which are left as they are.
        mean: of each channel of images in 0 to 1, float [1, channels, 1, 1].
        std: of each channel, float [1, channels, 1, 1].
    """
    import torch

    if images.is_floating_point():
        return images.sub(mean).div_(std)
    # By a number, a GPU would divide otherwise than a CPU: it multiplies by the rounded reciprocal.
    full = images.new_full((), 255, dtype=torch.float32)
    return images.float().div_(full).sub_(mean).div_(std)


def channel_statistics(
    normalization: str, dataset: Dataset
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel.

    Args:
        normalization: a name in :data:`NORMALIZATIONS`.

    Raises:
        BadInput: the normalisation is for another number of channels than the dataset has, or for
            images where the dataset has vectors, or the dataset's own mean and standard deviation
            are to be used and are not known.
    """
    known = NORMALIZATIONS[normalization]
    if dataset.vectors and normalization not in ("dataset", "none"):
        raise BadInput(
            f"got {normalization!r}, which is for images, and {dataset.title} has vectors; "
            "expected dataset or none",
            "normalization",
        )
    mean, std = (dataset.mean, dataset.std) if known is None else known
    channels = dataset.shape[2]
    if not mean:
        others = [name for name, values in NORMALIZATIONS.items() if values is not None]
        raise BadInput(
            f"got {normalization}, and nobody has published the mean and standard "
            f"deviation of {dataset.name}; expected {' or '.join(others)}",
            "normalization",
        )
    if len(mean) not in (1, channels):
        raise BadInput(
            f"{normalization} is for {len(mean)} channels, and the images of "
            f"{dataset.name} have {channels}",
            "normalization",
        )
    return mean, std


KINDS = ("plain", "mild", "weak", "strong", "strong3", "strong3_uncut")
"""How images are shown. Plain: as they are, or only their middle if they are kept larger than a
network sees them. Mild: plain, then rotated or mirrored and in other colours, all images of a batch
alike (:mod:`noisyfl.data.augmentation.mild`). Weak: with the run's augmentation. Strong: weak, then
FixMatch's RandAugment and cutout. Strong3: TorchSSL's RandAugment and cutout, then weak;
strong3_uncut: the same without cutout (:mod:`noisyfl.data.augmentation.randaugment`). Vectors are
shown as they are in every view."""

STRONG3 = ("strong3", "strong3_uncut")


class Draws(NamedTuple):
    """Random choices for images, one row each: of the run's augmentation, and of what a mild or a
    strong view does.
    """

    moves: np.ndarray
    operations: np.ndarray

    def part(self, first: int, last: int) -> Draws:
        """The draws of the images from ``first`` up to but not including ``last``."""
        return Draws(self.moves[first:last], self.operations[first:last])


class View:
    """How a run sees its images: normalised, and in training augmented too.

    Args:
        augmentation: a name of :data:`AUGMENTATIONS`.
        normalization: a name of :data:`NORMALIZATIONS`.
    """

    def __init__(
        self, dataset: Dataset, augmentation: str, normalization: str, device: torch.device
    ) -> None:
        import torch

        mean, std = channel_statistics(normalization, dataset)
        self.shape = dataset.shape
        self.vectors = dataset.vectors
        self.train_shape = dataset.train_shape or dataset.shape
        self.augmentation = augmentation
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None]

    def in_client_light(self, images: Tensor, clients: Sequence[np.ndarray], seed: int) -> Tensor:
        """The training images, each in the light of its client if the augmentation says so.

        All kinds of views show the images that this returns.

        Args:
            images: uint8 [n, channels, height, width]; left as they are.
            clients: the rows of each client's images, int64 [samples]; no row is of two clients.

        Returns:
            uint8, like ``images``.
        """
        import torch

        if not AUGMENTATIONS[self.augmentation].client_light:
            return images
        taken = images.clone()
        for rows, light in zip(clients, client_lights(len(clients), seed), strict=True):
            index = torch.from_numpy(rows).to(images.device)
            taken[index] = brighten(images[index], light)
        return taken

    def is_fixed(self, kind: str) -> bool:
        """Whether a view always shows an image in the same way."""
        own = AUGMENTATIONS[self.augmentation]
        moves = own.crop or own.resized or own.flip
        return self.vectors or kind == "plain" or (kind == "weak" and not moves)

    def draw(
        self, kind: str, n: int, rng: np.random.Generator, sizes: Sequence[int] | None = None
    ) -> Draws:
        """Draw the random choices of a view for ``n`` images of the training part.

        Args:
            kind: one of :data:`KINDS`.
            sizes: images of each batch, which a mild view shows alike; by default all are one.
        """
        nothing = np.zeros((n, 0), dtype=np.int64)
        if kind == "plain" or self.vectors:
            return Draws(nothing, nothing)
        if kind == "mild":
            return Draws(nothing, draw_mild([n] if sizes is None else sizes, rng, self.shape))
        moves = draw(self.augmentation, n, rng, self.shape, self.train_shape)
        if kind == "strong":
            return Draws(moves, draw_fixmatch(n, rng, self.shape))
        if kind in STRONG3:
            cutout = kind == "strong3"
            return Draws(moves, draw_torchssl(n, rng, self.train_shape, cutout))
        return Draws(moves, nothing)

    def show(self, kind: str, images: Tensor, draws: Draws) -> Tensor:
        """The images as a network sees them: float32, normalised.

        Args:
            kind: as for :meth:`draw`.
            images: uint8 [n, channels, height, width], at the size at which they are kept, or
                vectors, float32 [n, features, 1, 1]; of the training part, or in a plain view of
                either part.
            draws: what :meth:`draw` drew for them.
        """
        if self.vectors:
            return normalize(images, self.mean, self.std)
        if kind in STRONG3:
            images = apply_strong(images, draws.operations, TORCHSSL)
        if kind in ("plain", "mild") or not AUGMENTATIONS[self.augmentation].crop:
            images = centre(images, self.shape)
        else:
            images = apply_moves(self.augmentation, images, draws.moves, self.shape)
        if kind == "strong":
            images = apply_strong(images, draws.operations, FIXMATCH)
        if kind == "mild":
            images = apply_mild(images, draws.operations)
        return normalize(images, self.mean, self.std)
