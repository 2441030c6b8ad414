"""Runs as curves read them, without an artifact."""

from types import SimpleNamespace

import numpy as np


def run_of(rounds, accuracies, status="finished", rounds_done=None, per_round=10, **metrics):
    """A run as the curves read it, with so many training batches per ordinary round."""
    series = {"test_accuracy": (rounds, accuracies), **metrics}
    scale = {"ordinary_rounds": 1, "batches": per_round}
    done = rounds_done or (rounds or [0])[-1]

    def values(metric, unit="ordinary_rounds"):
        at, found = series.get(metric, ([], []))
        return scale[unit] * np.array(at, float), np.array(found, float)

    return SimpleNamespace(
        series=values,
        accuracies=tuple(accuracies),
        diverged=status == "diverged",
        work=lambda unit="ordinary_rounds": scale[unit] * np.array([done]),
    )
