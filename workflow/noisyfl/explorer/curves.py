"""What the page shows when a cell is opened: its runs' curves, estimates and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

POINTS = 200
"""The most points of a curve; a longer one is thinned evenly, and keeps its first and last."""

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

FINER = 100
"""What curves of values are multiplied by that a method reports, which may be small."""

ESTIMATES = {
    "estimated_noise_level": "estimated noise level",
    "clean_share": "share not selected as clean",
    "called_noisy": "flagged as noisy",
}
"""Columns of ``clients`` that hold estimates of a client's noise."""


def details(run: Run, metrics: Iterable[str]) -> dict[str, Any]:
    """The curves of a run, of which its cells show some metrics, and what it estimated."""
    run = replace(run)  # so that what is read of it here is not kept in memory
    curves = {}
    for metric in dict.fromkeys(("test_accuracy", *metrics, *LABEL_METRICS)):
        x, y = run.series(metric)
        shown = metric != "label_accuracy" or (len(y) and np.ptp(y) > 0)
        if len(y) and shown:
            one = METRICS[metric]
            curves[metric] = pack(x, one.factor * y, 1 if one.is_ranked else FINER)
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


def partition(path: Path, counted: bool = True) -> dict[str, Any]:
    """The noisy partition in a file: how many samples each client has, and how many are wrong.

    ``counts`` and ``wrong`` are the numbers of samples, and of wrongly labelled ones, by client and
    given class: int [clients, classes], row by row, as the text that :func:`whole` makes. ``noise``
    is the realised noise level of each client in percent. ``wrong`` and ``noise`` are None if the
    true labels are not known.

    Args:
        counted: otherwise only ``noise`` is returned.
    """
    found = noisy_partition.read(path)
    names = dataset(found.spec["dataset"]).classes
    known = not np.isnan(found.realised).any()
    noise = [round(100 * level, 1) for level in found.realised.tolist()] if known else None
    if not counted:
        return {"noise": noise}
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
        "noise": noise,
    }


def pack(x: np.ndarray, y: np.ndarray, finer: int = 1) -> list[str]:
    """A curve as two short texts, for x and for y: the :func:`steps` between consecutive values.

    Args:
        x: float64 [values].
        y: float64 [values], without NaN.
        finer: what the values of y are multiplied by; if it is not 1, it is a third text.
    """
    if len(x) > POINTS:
        kept = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
        x, y = x[kept], y[kept]
    return [steps(x), steps(finer * y), *([str(finer)] if finer != 1 else [])]


def steps(values: np.ndarray) -> str:
    """The differences of consecutive values in whole hundredths, the first from 0, as text."""
    hundredths = np.rint(100 * np.asarray(values, dtype=float)).astype(int)
    return ",".join(map(str, np.diff(hundredths, prepend=0).tolist()))


def whole(values: Sequence[int] | np.ndarray) -> str:
    """Whole numbers separated by commas; zeros are written as empty texts."""
    return ",".join("" if value == 0 else str(value) for value in np.ravel(values).tolist())
