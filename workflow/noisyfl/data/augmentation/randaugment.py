"""Strong augmentation: RandAugment, then cutout, of batches of uint8 images. There are two recipes,
:data:`FIXMATCH` and :data:`TORCHSSL`; both come before normalisation.

FixMatch's comes after the crop and the mirroring of :mod:`noisyfl.data.augmentation.augment`.
FedNoiL adopts FixMatch (Sohn et al., 2020, section 2.3) and gives no more details. Operations and
ranges are those of FixMatch's common PyTorch reimplementation (``kekmodel/FixMatch-pytorch``),
which works on one image at a time with Pillow. The arithmetic here is Pillow's, in integers
wherever Pillow uses only integers, so that pixels do not depend on the device. Differences from the
reimplementation:

- Cutout: the square extends a quarter of the shorter side to each side of its centre (it is 16
  pixels wide for 32, 14 for 28) and is clipped at each border, as in DeVries and Taylor (2017).
  The reimplementation's square is a pixel wider, and moved inwards at the upper and left border.
- Crops have black borders, as everywhere here. The reimplementation mirrors the image there.
- Color does nothing to images of one channel. It stays in the pool, so that the other operations
  are as frequent as with three channels.

TorchSSL's, which the codes of FedRG and FedGR call ``RandAugment(3, 5)``, comes before the crop. It
always applies three operations, each with a strength that is uniform on the operation's range,
and cuts a square out whose side is uniform up to half of the image's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

POINTWISE = (
    "AutoContrast",
    "Brightness",
    "Color",
    "Contrast",
    "Equalize",
    "Posterize",
    "Sharpness",
    "Solarize",
)
GEOMETRIC = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
OPERATIONS = ("Identity", *POINTWISE, *GEOMETRIC)
"""Drawn uniformly, with replacement. An operation's number in the draws is its index here."""

LEVELS = 10
"""Strengths are in tenths of an operation's range; levels 1 to 9 are drawn, as in that code."""

PROBABILITY = 0.5
"""The probability with which an operation that was drawn is applied."""


class Recipe(NamedTuple):
    """How strong augmentation is drawn.

    Attributes:
        number: of operations that are drawn for an image.
        fill: the pixel values that cutout fills its square with, one a channel.
    """

    number: int
    fill: tuple[int, int, int]

    @property
    def draws(self) -> np.dtype:
        """What is drawn for one image: its operations in order (Identity where one is not applied),
        their strengths (:func:`strengths`), and the box that is cut out: rows from, to, columns
        from, to (exclusive).
        """
        number = self.number
        return np.dtype(
            [
                ("operation", np.int64, number),
                ("strength", np.float64, number),
                ("box", np.int64, 4),
            ]
        )


FIXMATCH = Recipe(number=2, fill=(127, 127, 127))
TORCHSSL = Recipe(number=3, fill=(125, 123, 114))


def strengths(height: int, width: int) -> np.ndarray:
    """The strength of each operation at each level, float64 [operations, levels].

    Brightness, Color, Contrast, Sharpness: factor of the blend, 1 is the original. Posterize: bits
    that are kept, from 4 to 7: the higher the level, the weaker. Solarize: pixels of at least this
    value are inverted. Rotate: degrees. Shear: pixels per pixel. Translate: pixels. All other
    operations: 0.
    """
    level = np.arange(LEVELS)
    factors = ("Brightness", "Color", "Contrast", "Sharpness")
    ranges: dict[str, np.ndarray] = dict.fromkeys(factors, 0.05 + 0.09 * level)
    ranges |= {"Posterize": 4 + 4 * level // 10, "Solarize": 256 - 256 * level // 10}
    ranges |= {"Rotate": 30 * level // 10, "ShearX": 0.03 * level, "ShearY": 0.03 * level}
    ranges |= {"TranslateX": 3 * level * width // 100, "TranslateY": 3 * level * height // 100}
    return np.array([ranges.get(name, 0 * level) for name in OPERATIONS], dtype=np.float64)


def ranges(height: int, width: int) -> np.ndarray:
    """The lowest and the highest strength of each operation of :data:`TORCHSSL`, float64
    [operations, 2], in the units of :func:`strengths`; the whole part of Posterize's counts.
    """
    factors = ("Brightness", "Color", "Contrast", "Sharpness")
    known = dict.fromkeys(factors, (0.05, 0.95)) | {"Posterize": (4, 8), "Solarize": (0, 256)}
    largest = {"Rotate": 30, "ShearX": 0.3, "ShearY": 0.3}
    largest |= {"TranslateX": 0.3 * width, "TranslateY": 0.3 * height}
    known |= {name: (-value, value) for name, value in largest.items()}
    return np.array([known.get(name, (0, 0)) for name in OPERATIONS], dtype=np.float64)


def draw_fixmatch(n: int, rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Draw FixMatch's augmentation of ``n`` images of a shape (height, width, channels).

    Returns:
        :attr:`FIXMATCH.draws <Recipe.draws>` [n]; may be sliced and concatenated like the images.
    """
    height, width, _ = shape
    size = (n, FIXMATCH.number)
    operation = rng.integers(len(OPERATIONS), size=size)
    level = rng.integers(1, LEVELS, size=size)
    sign = rng.choice([-1, 1], size=size)
    operation[rng.random(size) >= PROBABILITY] = OPERATIONS.index("Identity")
    draws = _without_color(operation, FIXMATCH, shape)
    operation = draws["operation"]
    signed = operation > len(POINTWISE)
    draws["strength"] = np.where(signed, sign, 1) * strengths(height, width)[operation, level]
    centre = rng.integers([height, width], size=(n, 2))
    reach = min(height, width) // 4
    draws["box"][:, ::2] = np.maximum(centre - reach, 0)
    draws["box"][:, 1::2] = np.minimum(centre + reach, [height, width])
    return draws


def draw_torchssl(
    n: int, rng: np.random.Generator, shape: tuple[int, int, int], cutout: bool
) -> np.ndarray:
    """Draw TorchSSL's augmentation of ``n`` images of a shape (height, width, channels).

    Returns:
        :attr:`TORCHSSL.draws <Recipe.draws>` [n]; may be sliced and concatenated like the images.
    """
    height, width, _ = shape
    size = (n, TORCHSSL.number)
    draws = _without_color(rng.integers(len(OPERATIONS), size=size), TORCHSSL, shape)
    low, high = ranges(height, width)[draws["operation"]].transpose(2, 0, 1)
    draws["strength"] = low + (high - low) * rng.random(size)
    bits = draws["operation"] == OPERATIONS.index("Posterize")
    draws["strength"][bits] = np.floor(draws["strength"][bits])
    if cutout:
        side = 0.5 * width * rng.random((n, 1))
        first = np.maximum(rng.random((n, 2)) * [height, width] - side / 2, 0).astype(np.int64)
        draws["box"][:, ::2] = first
        # Pillow's rectangle includes its last row and column.
        last = np.minimum(first + side, [height - 1, width - 1]).astype(np.int64)
        draws["box"][:, 1::2] = last + 1
    return draws


def _without_color(
    operation: np.ndarray, recipe: Recipe, shape: tuple[int, int, int]
) -> np.ndarray:
    """Draws with these operations; Color becomes Identity where images have one channel."""
    draws = np.zeros(len(operation), dtype=recipe.draws)
    if shape[2] == 1:
        operation[operation == OPERATIONS.index("Color")] = OPERATIONS.index("Identity")
    draws["operation"] = operation
    return draws


def apply_strong(images: Tensor, draws: np.ndarray, recipe: Recipe) -> Tensor:
    """Apply the operations, one after the other, then cutout.

    Args:
        images: uint8 [n, channels, height, width] with 1 or 3 channels; left as they are.
        draws: [n], as drawn for the recipe.
        recipe: :data:`FIXMATCH` or :data:`TORCHSSL`. Of its fill, images of one channel take the
            second value, green's.

    Returns:
        uint8, like ``images``, on their device and in their memory format.
    """
    import torch

    def send(array: np.ndarray) -> Tensor:
        # A blocking copy would make the CPU wait for all pending work of a GPU.
        return torch.from_numpy(array).to(images.device, non_blocking=True)

    height, width = images.shape[2:]
    # All geometric operations are done by a single gather, so they share the last group.
    group = np.minimum(draws["operation"], 1 + len(POINTWISE))
    order = send(np.argsort(group, axis=0, kind="stable"))
    strength = send(draws["strength"].astype(np.float32))
    matrices = send(_matrices(draws, height, width))
    images = images.clone()
    for turn in range(recipe.number):
        sizes = np.bincount(group[:, turn], minlength=2 + len(POINTWISE)).tolist()
        _, *pointwise, geometric = order[:, turn].split(sizes)
        for name, index in zip(POINTWISE, pointwise, strict=True):
            if len(index):
                taken, power = images.index_select(0, index), strength[index, turn]
                images.index_copy_(0, index, _POINTWISE[name](taken, power.view(-1, 1, 1, 1)))
        if len(geometric):
            taken = images.index_select(0, geometric)
            images.index_copy_(0, geometric, _warp(taken, matrices[geometric, turn]))
    top, bottom, left, right = send(draws["box"])[:, :, None].unbind(1)
    row = torch.arange(height, device=images.device)
    column = torch.arange(width, device=images.device)
    # In uint8 throughout: on a CPU, filling by a mask takes 20 times as long.
    rows = ((row >= top) & (row < bottom)).to(images.dtype)
    columns = ((column >= left) & (column < right)).to(images.dtype)
    cut = rows[:, None, :, None] * columns[:, None, None, :]
    fill = send(np.array(recipe.fill if images.shape[1] == 3 else recipe.fill[1:2], np.uint8))
    return images.mul_(1 - cut).add_(fill.view(1, -1, 1, 1) * cut)


def _matrices(draws: np.ndarray, height: int, width: int) -> np.ndarray:
    """Affine matrices from a pixel's position to the position that its value comes from.

    Returns:
        int32 [n, count, 2, 3], in 1/65536 of a pixel, Pillow's resolution. The first row times
        (column, row, 1) is the source's column, the second its row.
    """
    operation, strength = draws["operation"], draws["strength"]
    angle = np.deg2rad(np.where(operation == OPERATIONS.index("Rotate"), strength, 0))
    matrices = np.zeros((*operation.shape, 2, 3))
    matrices[..., 0, 0] = matrices[..., 1, 1] = np.cos(angle)
    matrices[..., 1, 0] = np.sin(angle)
    matrices[..., 0, 1] = -matrices[..., 1, 0]
    centre = np.array([width / 2, height / 2])
    matrices[..., 2] = centre - matrices[..., :2] @ centre
    entries = {"ShearX": (0, 1), "ShearY": (1, 0), "TranslateX": (0, 2), "TranslateY": (1, 2)}
    for name, (row, column) in entries.items():
        hit = operation == OPERATIONS.index(name)
        matrices[hit, row, column] = strength[hit]
    # A pixel is sampled at its centre.
    matrices[..., 2] += matrices[..., :2].sum(-1) / 2
    return np.floor(matrices * 65536 + 0.5).astype(np.int32)


def _warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Images sampled at the nearest neighbour, black outside; ``matrices`` are int32 [n, 2, 3]."""
    import torch
    from torch.nn.functional import pad

    height, width = images.shape[2:]
    per_column, per_row, offset = matrices[..., None, None].unbind(2)
    columns = torch.arange(width, dtype=torch.int32, device=images.device)
    rows = torch.arange(height, dtype=torch.int32, device=images.device)[:, None]
    column, row = ((per_column * columns + (per_row * rows + offset)) >> 16).unbind(1)
    # Pixels from outside the image are taken from a black frame around it.
    source = (row.clamp(-1, height) + 1) * (width + 2) + (column.clamp(-1, width) + 1)
    source = source.long().flatten(1)[:, None].expand(-1, images.shape[1], -1)
    return pad(images, (1, 1, 1, 1)).flatten(2).gather(2, source).view(images.shape)


def _blend(from_images: Tensor | int, images: Tensor, factor: Tensor) -> Tensor:
    """From ``from_images`` at factor 0 to ``images`` at 1; fractions are dropped, as in Pillow."""
    return (images.float() - from_images).mul_(factor).add_(from_images).to(images.dtype)


def _luma(images: Tensor) -> Tensor:
    """Pillow's conversion to grey, int32 [n, 1, height, width]."""
    if images.shape[1] == 1:
        return images.int()
    red, green, blue = images.int().split(1, 1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16


def _autocontrast(images: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel's range to 0 to 255. Fractions of float64 are dropped, as in Pillow."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    span = (high - low).clamp(min=1).double()
    # torch computes 255 / span as the rounded reciprocal of span times 255.
    scale = span.new_full((), 255) / span
    stretched = (images * scale - low * scale).to(images.dtype)
    return stretched.where(high > low, images)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    luma = _luma(images)
    count = luma.shape[2] * luma.shape[3]
    mean = (2 * luma.sum((2, 3), keepdim=True) + count) // (2 * count)
    return _blend(mean, images, factor)


def _equalize(images: Tensor, _: Tensor) -> Tensor:
    """Equalize the histogram of each channel.

    A channel with fewer than 255 pixels darker than its maximum is left as it is.
    """
    pixels = images.flatten(2).long()
    histogram = pixels.new_zeros((*pixels.shape[:2], 256))
    histogram.scatter_add_(2, pixels, pixels.new_ones(()).expand_as(pixels))
    brightest = histogram.gather(2, pixels.amax(2, keepdim=True))
    step = (pixels.shape[2] - brightest) // 255
    darker = histogram.cumsum(2) - histogram
    table = ((darker + step // 2) // step.clamp(min=1)).clamp_(max=255)
    return table.gather(2, pixels).where(step > 0, pixels).to(images.dtype).view(images.shape)


def _posterize(images: Tensor, bits: Tensor) -> Tensor:
    shift = (8 - bits).to(images.dtype)
    return images >> shift << shift


def _sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend from the mean of 3x3 pixels, the middle counted five times; the edge stays as it is."""
    exact = images.int()
    rows = exact[:, :, :-2] + exact[:, :, 1:-1] + exact[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * exact[:, :, 1:-1, 1:-1]
    smooth = exact.clone()
    smooth[:, :, 1:-1, 1:-1] = (2 * total + 13) // 26
    return _blend(smooth, images, factor)


_POINTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "AutoContrast": _autocontrast,
    "Brightness": lambda images, factor: _blend(0, images, factor),
    "Color": lambda images, factor: _blend(_luma(images), images, factor),
    "Contrast": _contrast,
    "Equalize": _equalize,
    "Posterize": _posterize,
    "Sharpness": _sharpness,
    "Solarize": lambda images, limit: images.where(images < limit, 255 - images),
}
