"""Open-set label noise: images of no class of the task, with a label of the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from noisyfl.core.options import BadInput, option
from noisyfl.core.randomness import stream
from noisyfl.data.datasets.dataset import DATASETS, Dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, Flipping, nearest
from noisyfl.data.noise.transitions import Transition, by_table, draw_uniform, shifted


@LABEL_NOISES.register("open_set")
class OpenSet(Flipping):
    """A noisy sample's image is replaced by one of no class of the task, and its label stays.

    Wang et al., CVPR 2018, put CIFAR-100's images under CIFAR-10's labels; EvidentialMix (Sachdeva
    et al., WACV 2021) mixes both kinds of noise: of the noisy samples a share is open-set, and the
    labels of the others are flipped. Sizes of clients and of classes, as labels have them, are as
    without noise. No image is used twice. The true label of an open-set sample is the number of
    classes, so that its given label is always wrong.
    """

    share: float = option(
        1.0,
        doc="of the noisy samples that are open-set; the labels of the others are flipped",
        at_least=0,
        at_most=1,
    )
    flips: Literal["symmetric", "pair"] = option(
        "symmetric", doc="how the others are flipped: to any other class, or to the next one"
    )

    def check(self, dataset: Dataset, clients: int) -> None:
        """Raise :class:`BadInput` if the dataset has no images of other classes."""
        super().check(dataset, clients)
        if not dataset.open_set:
            known = ", ".join(name for name, facts in DATASETS.items() if facts.open_set)
            raise BadInput(
                f"got dataset {dataset.name}, all of whose images are of the task's classes, "
                f"expected one of {known}"
            )

    def flip(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Flip the labels of each client's noisy samples that are not open-set."""
        given = []
        transitions = self.transitions(clients, context)
        for k, (labels, level, wrong) in enumerate(zip(clients, levels, transitions, strict=True)):
            _, others, rng = self._noisy(labels, level, k, context)
            flipped = labels.copy()
            flipped[others] = wrong(labels[others], rng)
            given.append(flipped)
        return given

    def replace(
        self, clients: Sequence[np.ndarray], levels: np.ndarray, context: Context
    ) -> list[np.ndarray]:
        """Replace the images of each client's open-set samples by random ones of the open set.

        Raises:
            BadInput: there are more such samples than images.
        """
        places = [
            self._noisy(rows, level, k, context)[0]
            for k, (rows, level) in enumerate(zip(clients, levels, strict=True))
        ]
        needed, there = sum(map(len, places)), context.dataset.open_set
        if needed > there:
            raise BadInput(
                f"got {self.share}, with which {needed:,} samples are open-set, and "
                f"{context.dataset.name} has {there:,} images for them",
                "share",
            )
        order = stream(context.seed, "label noise", "open set").permutation(there)
        images = np.split(
            context.dataset.task_size + order[:needed], np.cumsum([len(p) for p in places])[:-1]
        )
        replaced = [rows.copy() for rows in clients]
        for rows, place, image in zip(replaced, places, images, strict=True):
            rows[place] = image
        return replaced

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """The same for all clients."""
        classes = len(context.dataset.classes)
        one = (
            draw_uniform(classes, False)
            if self.flips == "symmetric"
            else by_table(shifted(classes, 1))
        )
        return [one] * len(clients)

    def _noisy(
        self, samples: np.ndarray, level: float, client: int, context: Context
    ) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Positions of a client's open-set samples, and of its other noisy ones; and its stream."""
        rng = stream(context.seed, "label noise", client)
        chosen = rng.permutation(self.choose(samples, level, rng))
        open_set, others = np.split(chosen, [nearest(self.share, len(chosen))])
        return open_set, others, rng
