"""Label noise that stays among the classes of a client (FedNoisy)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from noisyfl.core.options import option
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context, Flipping
from noisyfl.data.noise.transitions import Transition, draw_uniform, shifted


@LABEL_NOISES.register("local")
class Local(Flipping):
    """A flipped label is another class that the client holds, so that none appears that it has not.

    FedNoisy, localized noise: symmetric, or pair, the next class that the client holds, cyclically;
    floor; ``uniform`` levels. A client of one class keeps its labels; FedNoisy's code rejects it.
    """

    by_client = True
    kind: Literal["symmetric", "pair"] = option(
        doc="uniform over the client's other classes, or the next of its classes"
    )

    def transitions(self, clients: Sequence[np.ndarray], context: Context) -> list[Transition]:
        """By the classes of each client."""
        return [self._among(np.unique(labels)) for labels in clients]

    def _among(self, held: np.ndarray) -> Transition:
        """Flip among these classes, which are sorted."""
        if len(held) < 2:
            return lambda labels, rng: labels
        following, other = shifted(len(held), 1), draw_uniform(len(held), False)

        def wrong(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            places = np.searchsorted(held, labels)
            return held[following[places] if self.kind == "pair" else other(places, rng)]

        return wrong
