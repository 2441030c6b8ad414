"""What a page shows of a run when one of its cells is opened: curves, estimates, its partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.core.artifacts import Results
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.reporting.explorer.series import packed, whole
from noisyfl.reporting.metrics import METRICS
from noisyfl.reporting.runs import Run

THOUGHT = (
    *("label_precision", "label_recall", "noise_detection_precision", "noise_detection_recall"),
    "label_accuracy",
)
"""Metrics that say what a method made of the labels."""

RELABELLED = {
    "pseudo_labelled": "samples with a pseudo-label",
    "pseudo_label_accuracy": "pseudo-labels that are right",
    "refurbished": "samples with a refurbished label",
    "refurbished_accuracy": "refurbished labels that are right",
    "corrected_label_accuracy": "prototypes' labels that are right",
}
"""Columns of ``clients`` that say how much is relabelled and how rightly: means by round."""

ESTIMATES = {
    "estimated_noise_level": "estimated noise level",
    "clean_share": "share not called clean",
    "called_noisy": "called noisy",
}
"""Columns of ``clients`` that estimate a client's noise."""


def details(run: Run, metrics: Iterable[str]) -> dict[str, Any]:
    """The curves of a run and what it estimated.

    Args:
        run: of which nothing is kept in memory.
        metrics: that its cells show.
    """
    run = replace(run)
    curves = {}
    for metric in dict.fromkeys(("test_accuracy", *metrics, *THOUGHT)):
        x, y = run.series(metric)
        told = metric != "label_accuracy" or (len(y) and np.ptp(y) > 0)
        if len(y) and told:
            curves[metric] = packed(x, METRICS[metric].factor * y)
    return {
        "curves": curves,
        "relabelled": {name: curve for name in RELABELLED if (curve := by_round(run, name))},
        "estimates": {name: last for name in ESTIMATES if (last := last_by_client(run, name))},
    }


def by_round(run: Run, column: str) -> list[str]:
    """The mean over clients of what is a share, in percent, by round; empty if the run lacks it."""
    rounds, _, values = run.of_clients(column)
    if not len(values):
        return []
    at, place = np.unique(rounds, return_inverse=True)
    means = np.bincount(place, values) / np.bincount(place)
    return packed(run.all_rounds["ordinary_rounds"][at.astype(int) - 1], 100 * means)


def last_by_client(run: Run, column: str) -> dict[str, str]:
    """Of each client its last value in percent; empty if the run lacks the column."""
    _, clients, values = run.of_clients(column)
    if not len(values):
        return {}
    last = dict(zip(clients.astype(int).tolist(), values.tolist(), strict=True))
    if column == "clean_share":
        last = {client: 1 - value for client, value in last.items()}
    order = sorted(last)
    return {
        "clients": ",".join(map(str, order)),
        "values": ",".join(f"{100 * last[client]:.1f}" for client in order),
    }


def partition_file(identity: str, layouts: Sequence[Results]) -> Path | None:
    """Where a noisy partition lies, if it is there."""
    return next((p for one in layouts if (p := one.partition(identity)).exists()), None)


def partition(path: Path) -> dict[str, Any]:
    """The noisy partition in a file: of each client and given class the samples and the wrong ones.

    ``counts`` and ``wrong`` are int [clients, classes], row by row; the latter is None where nobody
    knows the true labels. ``noise`` is the realised level of each client in percent.
    """
    found = noisy_partition.read(path)
    names = DATASETS[found.spec["dataset"]].classes
    known = not np.isnan(found.realised).any()
    counts = [np.bincount(c.given_label, minlength=len(names)) for c in found.clients]
    wrong = [
        np.bincount(c.given_label[c.given_label != c.true_label], minlength=len(names))
        for c in found.clients
    ]
    return {
        "clients": len(found.clients),
        "classes": list(names),
        "counts": whole(np.array(counts)),
        "wrong": whole(np.array(wrong)) if known else None,
        "noise": [round(100 * level, 1) for level in found.realised.tolist()] if known else None,
    }
