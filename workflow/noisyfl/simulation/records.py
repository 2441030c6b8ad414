"""The records of a run: rows of its rounds and clients, and how well it selected samples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from noisyfl.simulation.ledger import Ledger

ROUND_COLUMNS = {
    "round": pa.int64(),
    "ordinary_rounds": pa.float64(),
    "stage": pa.string(),
    "participants": pa.int64(),
    "test_accuracy": pa.float64(),
    "test_top5_accuracy": pa.float64(),
    "test_balanced_accuracy": pa.float64(),
    "test_loss": pa.float64(),
    "train_loss": pa.float64(),
    "label_precision": pa.float64(),
    "label_recall": pa.float64(),
    "noise_detection_precision": pa.float64(),
    "noise_detection_recall": pa.float64(),
    "open_set_recall": pa.float64(),
    "label_accuracy": pa.float64(),
    "participants_noise_level": pa.float64(),
    "bytes_down": pa.int64(),
    "bytes_up": pa.int64(),
    "samples_forward": pa.int64(),
    "samples_backward": pa.int64(),
    "seconds": pa.float64(),
    "confusion": pa.list_(pa.int64()),
}
"""The columns of ``rounds``, which every run has; docs/artifacts.md says what they mean."""

CLIENT_COLUMNS = {
    "round": pa.int64(),
    "client": pa.int64(),
    "label_precision": pa.float64(),
    "label_recall": pa.float64(),
    "noise_detection_precision": pa.float64(),
    "noise_detection_recall": pa.float64(),
    "open_set_recall": pa.float64(),
}
"""The columns that ``clients`` always has; a method's estimates follow."""


@dataclass(frozen=True)
class Selection:
    """How well a method separated a client's clean samples from its noisy ones; a share of no
    samples is NaN.

    Attributes:
        label_precision: share of the selected samples that are clean.
        label_recall: share of the clean samples that are selected.
        noise_detection_precision: share of the samples left out that are noisy.
        noise_detection_recall: share of the noisy samples that are left out.
        open_set_recall: share of the samples of no class that are left out.
    """

    label_precision: float
    label_recall: float
    noise_detection_precision: float
    noise_detection_recall: float
    open_set_recall: float

    @classmethod
    def of(cls, selected: torch.Tensor, clean: torch.Tensor, open_set: torch.Tensor) -> Selection:
        """Compare the samples that were selected with those that are clean, and with those of no
        class: all bool [samples].
        """
        sets = (selected & clean, selected, clean, open_set, open_set & ~selected)
        counts = torch.stack([each.sum() for each in sets])
        true_clean, kept, correct, others, others_rejected = map(float, counts.tolist())
        total = len(clean)
        left_out, noisy = total - kept, total - correct
        true_noisy = noisy - (kept - true_clean)
        return cls(
            label_precision=true_clean / kept if kept else math.nan,
            label_recall=true_clean / correct if correct else math.nan,
            noise_detection_precision=true_noisy / left_out if left_out else math.nan,
            noise_detection_recall=true_noisy / noisy if noisy else math.nan,
            open_set_recall=others_rejected / others if others else math.nan,
        )

    @classmethod
    def means(cls, selections: Sequence[Selection]) -> dict[str, float]:
        """The mean of each share over the selections in which it is not NaN."""
        means = {}
        for share in fields(cls):
            values = [getattr(selection, share.name) for selection in selections]
            means[share.name] = mean_or_nan([value for value in values if not math.isnan(value)])
        return means


class Records:
    """The artifact's rows of the rounds done so far, and the notes of the round under way.

    Attributes:
        ledger: of single samples; None if it is not kept.
    """

    def __init__(self) -> None:
        self.ledger: Ledger | None = None
        self.rounds: list[dict[str, Any]] = []
        self.clients: list[dict[str, Any]] = []
        self.counted = 0
        self.forward = 0
        self.backward = 0
        self.down = 0
        self.up = 0
        self.selections: list[tuple[int, Selection]] = []
        self.estimates: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def forget_notes(self) -> None:
        """Reset the counters for a round."""
        self.forward = self.backward = self.down = self.up = 0
        self.selections.clear()
        self.estimates.clear()
        if self.ledger is not None:
            self.ledger.forget()


def mean_or_nan(values: list[float]) -> float:
    """The mean; NaN (written as a null) if there are no values."""
    return float(np.mean(values)) if values else math.nan
