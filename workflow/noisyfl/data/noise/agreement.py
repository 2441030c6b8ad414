"""Whether given labels have to do with the true ones."""

from __future__ import annotations

import numpy as np

LEAST = 0.05
"""The least agreement beyond chance, as a share of what is possible (Cohen's kappa)."""


def doubt(given: np.ndarray, true: np.ndarray) -> str:
    """What is odd about given labels that agree with the true ones about as often as by chance;
    empty if they agree more often.

    Args:
        given: numbers of classes, int64 [n].
        true: the same.
    """
    agreement = float(np.mean(given == true))
    size = int(max(given.max(), true.max())) + 1
    shares = [np.bincount(labels, minlength=size) / len(labels) for labels in (given, true)]
    chance = float(shares[0] @ shares[1])
    if agreement == 1 or agreement - chance > LEAST * (1 - chance):
        return ""
    return (
        f"the given labels agree with the true ones in {agreement:.1%} of {len(true):,} samples, "
        f"where labels at random would in {chance:.1%}; they may have another order, or other "
        "numbers of classes"
    )
