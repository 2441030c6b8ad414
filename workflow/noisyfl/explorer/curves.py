"""What the page shows when a cell is opened: its runs' curves, estimates and partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noisyfl.analysis.clients import last_values
from noisyfl.analysis.curves import spread_over_clients
from noisyfl.analysis.metrics import METRICS
from noisyfl.analysis.runs import Run
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import dataset
from noisyfl.explorer.series import pack, whole

LABEL_METRICS = (
    *("label_precision", "label_recall", "noise_detection_precision", "noise_detection_recall"),
    "open_set_recall",
    "label_accuracy",
)
"""Metrics of how rightly a method judged the labels."""

RELABELLED = {
    "pseudo_labelled": "samples with a pseudo-label",
    "pseudo_label_accuracy": "pseudo-labels that are right",
    "refurbished": "samples with a refurbished label",
    "refurbished_accuracy": "refurbished labels that are right",
    "corrected_label_accuracy": "prototypes' labels that are right",
}
"""Columns of ``clients`` on how much is relabelled and how rightly, shown as means by round."""

ESTIMATES = {
    "estimated_noise_level": "estimated noise level",
    "clean_share": "share not selected as clean",
    "called_noisy": "flagged as noisy",
}
"""Columns of ``clients`` that hold estimates of a client's noise."""


def details(run: Run, metrics: Iterable[str]) -> dict[str, Any]:
    """The curves of a run and what it estimated.

    Args:
        run: the run; what is read of it here is not kept in memory.
        metrics: the metrics that its cells show.
    """
    run = replace(run)
    curves = {}
    for metric in dict.fromkeys(("test_accuracy", *metrics, *LABEL_METRICS)):
        x, y = run.series(metric)
        shown = metric != "label_accuracy" or (len(y) and np.ptp(y) > 0)
        if len(y) and shown:
            curves[metric] = pack(x, METRICS[metric].factor * y)
    return {
        "curves": curves,
        "relabelled": {name: curve for name in RELABELLED if (curve := share_by_round(run, name))},
        "estimates": {name: last for name in ESTIMATES if (last := last_by_client(run, name))},
    }


def share_by_round(run: Run, column: str) -> list[str]:
    """The curve of a share, in percent, as its mean over clients by round; empty without values."""
    work, mean, *_ = spread_over_clients(run, column)
    return pack(work, 100 * mean) if len(work) else []


def last_by_client(run: Run, column: str) -> dict[str, str]:
    """The last value of each client, in percent; empty if the run lacks the column.

    ``clean_share`` is turned into the share that is not selected as clean.
    """
    last = last_values(run, column, run.spec["noisy_partition"]["partition"]["clients"])
    order = np.flatnonzero(~np.isnan(last))
    if not len(order):
        return {}
    shares = 1 - last[order] if column == "clean_share" else last[order]
    return {
        "clients": ",".join(map(str, order.tolist())),
        "values": ",".join(f"{100 * share:.1f}" for share in shares.tolist()),
    }


def partition(path: Path) -> dict[str, Any]:
    """The noisy partition in a file: how many samples each client has, and how many are wrong.

    ``counts`` and ``wrong`` are the numbers of samples, and of wrongly labelled ones, by client and
    given class: int [clients, classes], row by row, as the text that :func:`whole` makes. ``noise``
    is the realised noise level of each client in percent. ``wrong`` and ``noise`` are None if the
    true labels are not known.
    """
    found = noisy_partition.read(path)
    names = dataset(found.spec["dataset"]).classes
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
