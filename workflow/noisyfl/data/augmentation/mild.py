"""Mild augmentation, as FedLSR has it (Jiang et al., CIKM 2022): one draw for a batch of images.

Images of one channel are rotated. Others are mirrored, their colours are jittered, and they become
grey, each by chance. Probabilities and ranges are those of the official notebook
(``Sprinter1999/FedLSR``), and the operations are torchvision's. The notebook applies them to images
that are normalised already, so that a jitter limits values of any sign to 0 to 1 and a rotation
fills the corners with the mean; here they come before normalisation, as torchvision means them, and
corners are black.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

DEGREES = 30
"""The largest rotation, to either side."""

JITTERS = ("brightness", "contrast", "saturation", "hue")
"""In the order in which their strengths are drawn; a draw has an order of its own."""

LEAST, MOST = np.array([0.2, 0.2, 0.2, -0.2]), np.array([1.8, 1.8, 1.8, 0.2])
"""Ranges of their strengths: factors, of which 1 changes nothing, and turns of the colour wheel."""

MIRRORED, JITTERED, GREY = 0.5, 0.8, 0.2
"""The probabilities of the three."""

DRAWS = np.dtype(
    [
        ("angle", np.float64),
        ("mirrored", np.bool_),
        ("jittered", np.bool_),
        ("order", np.int64, len(JITTERS)),
        ("strength", np.float64, len(JITTERS)),
        ("grey", np.bool_),
    ]
)
"""What is drawn for one image: degrees, for one of one channel; and for others whether they are
mirrored, whether they are jittered, in which order and how strongly (:data:`JITTERS`), and whether
they become grey."""


def draw_mild(
    sizes: Sequence[int], rng: np.random.Generator, shape: tuple[int, int, int]
) -> np.ndarray:
    """Draw the mild augmentation of batches of images of a shape (height, width, channels).

    Returns:
        :data:`DRAWS` [images], alike for the images of a batch.
    """
    count = len(sizes)
    draws = np.zeros(count, dtype=DRAWS)
    if shape[2] == 1:
        draws["angle"] = rng.uniform(-DEGREES, DEGREES, size=count)
    else:
        draws["mirrored"] = rng.random(count) < MIRRORED
        draws["jittered"] = rng.random(count) < JITTERED
        draws["order"] = rng.permuted(np.tile(np.arange(len(JITTERS)), (count, 1)), axis=1)
        draws["strength"] = rng.uniform(LEAST, MOST, size=(count, len(JITTERS)))
        draws["grey"] = rng.random(count) < GREY
    return np.repeat(draws, sizes)


def apply_mild(images: Tensor, draws: np.ndarray) -> Tensor:
    """Rotate images of one channel; mirror others, jitter their colours and make them grey.

    Args:
        images: uint8 [n, channels, height, width] with 1 or 3 channels; left as they are.
        draws: :data:`DRAWS` [n], as :func:`draw_mild` makes them.

    Returns:
        uint8, like ``images``, on their device.
    """
    import torch

    # Neighbours with the same draw are changed together: these are the batches.
    ends = [*(np.flatnonzero(draws[1:] != draws[:-1]) + 1).tolist(), len(draws)]
    sizes = np.diff([0, *ends]).tolist()
    parts = zip(images.split(sizes), draws[np.array(ends) - 1], strict=True)
    return torch.cat([_changed(part, draw) for part, draw in parts])


def _changed(images: Tensor, draw: Any) -> Tensor:
    """Images of one batch, changed as one entry of :data:`DRAWS` says."""
    from torchvision.transforms import functional

    if images.shape[1] == 1:
        return functional.rotate(images, float(draw["angle"]))
    if draw["mirrored"]:
        images = functional.hflip(images)
    if draw["jittered"]:
        for number in draw["order"]:
            change = getattr(functional, f"adjust_{JITTERS[number]}")
            images = change(images, float(draw["strength"][number]))
    return functional.rgb_to_grayscale(images, 3) if draw["grey"] else images
