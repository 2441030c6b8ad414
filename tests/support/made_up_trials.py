"""Trials of our cells, made up for a test."""

import numpy as np

A, B = (1, 0, -1), (3**-0.5, -2 * 3**-0.5, 3**-0.5)
"""How far three trials lie from their mean, with a standard deviation of one: uncorrelated."""


def trials(mean, apart=(0,)):
    """The columns of a cell of ours.

    Args:
        mean: of its trials; empty for a cell that is not run.
        apart: how far each trial lies from the mean.
    """
    values = [] if mean == "" else [float(mean) + float(one) for one in apart]
    return {
        "ours": mean,
        "ours_std": float(np.std(values, ddof=1)) if len(values) > 1 else "",
        "ours_trials": len(values),
        "ours_seeds": " ".join(str(seed) for seed, _ in enumerate(values, 1)),
        "ours_values": " ".join(map(str, values)),
    }


def times(std, *patterns):
    """Patterns like :data:`A` with another standard deviation."""
    return [tuple(std * np.array(pattern)) for pattern in patterns]
