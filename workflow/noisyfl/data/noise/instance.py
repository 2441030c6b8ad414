"""Label noise that depends on the image (Xia et al., NeurIPS 2020, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, LabelNoise

BATCH = 2_048
"""Images that are projected at once."""


@LABEL_NOISES.register("instance")
class Instance(LabelNoise):
    """A label is flipped into a class that the image's pixels, projected at random, resemble.

    Xia et al., NeurIPS 2020, algorithm 2: image x of class y is flipped with a probability q from a
    normal distribution around the level, truncated to [0, 1], into class j with a probability in
    proportion to exp(x W_y)_j, j other than y. W_y is standard normal, pixels are from 0 to 1. All
    clients share the projections, so that an image is mistaken for the same classes wherever it is.
    A client of level 0 has no noise, although the distribution's mean would then be above 0.
    """

    std: float = option(0.1, doc="standard deviation of q before the truncation", above=0)

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Flip labels by what the images look like; raises :class:`BadInput` without images."""
        from scipy.stats import truncnorm

        if context.images is None:
            raise BadInput("depends on the images, and there are none")
        classes = len(context.dataset.classes)
        given = []
        for k, (labels, level) in enumerate(zip(clients, levels, strict=True)):
            if level == 0:
                given.append(labels.copy())
                continue
            rng = stream(context.seed, "label noise", k)
            low, high = -level / self.std, (1 - level) / self.std
            flipped = rng.random(len(labels)) < truncnorm.rvs(
                low, high, loc=level, scale=self.std, size=len(labels), random_state=rng
            )
            chances = likenesses(context.images(k), labels, classes, context.seed)
            drawn = (chances.cumsum(1) < rng.random(len(labels))[:, None]).sum(1)
            given.append(np.where(flipped, drawn.clip(max=classes - 1), labels))
        return given


def likenesses(images: np.ndarray, labels: np.ndarray, classes: int, seed: int) -> np.ndarray:
    """The chance of each class if an image's label is flipped: float64 [n, classes], 0 for its own.

    Args:
        images: uint8 [n, height, width, channels], or vectors, float32 [n, 1, 1, features].
        labels: true ones, int64 [n].
        seed: the trial's, of which the projections are drawn.
    """
    chances = np.zeros((len(labels), classes))
    size = int(np.prod(images.shape[1:]))
    full = 255 if images.dtype == np.uint8 else 1  # of vectors, features count as they are
    for label in np.unique(labels):
        projection = stream(seed, "label noise", "projection", int(label)).normal(
            size=(size, classes)
        )
        members = np.flatnonzero(labels == label)
        for rows in np.split(members, range(BATCH, len(members), BATCH)):
            scores = (images[rows].reshape(len(rows), -1) / full) @ projection
            scores[:, label] = -np.inf
            exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
            chances[rows] = exponents / exponents.sum(axis=1, keepdims=True)
    return chances
