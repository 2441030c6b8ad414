"""Metrics of a run, round by round, as tables and figures show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisyfl.data.datasets.dataset import dataset

Rounds = Mapping[str, np.ndarray]
"""The columns of a run's ``rounds``, each float64 [rounds]; NaN where a round has no value."""

Values = Callable[[Rounds, Mapping[str, Any]], np.ndarray]

FACTORS = {
    "percent": 100.0,
    "seconds": 1.0,
    "bytes": 1e-6,
    "samples": 1.0,
    "ranks": 1.0,
    "number": 1.0,
}
"""What a value is multiplied by to be shown in its unit: shares in percent, bytes in megabytes."""

SYMBOLS = {
    "percent": "%",
    "seconds": "s",
    "bytes": "MB",
    "samples": "passes",
    "ranks": "ranks",
    "number": "",
}
"""The units as they are printed. Samples through a network, divided by samples, are passes."""


@dataclass(frozen=True)
class Metric:
    """What is measured of a run, and how it is shown.

    Attributes:
        label: its name in words, without the unit.
        unit: a key of :data:`FACTORS`. Values of the unit ``percent`` are shares, 0 to 1.
        values: computes the values from the rounds' columns and the run's canonical spec, float64
            [rounds]; NaN where a round has no value, and everywhere if the run does not record the
            columns that are needed.
        less_is_better: a smaller value is the better one.
        of_clients: a column of ``clients``, if ``values`` is not used: a round's value is then the
            mean of the column over the clients that have a value.
        is_ranked: whether methods are ranked by it.
    """

    label: str
    unit: str
    values: Values
    less_is_better: bool = False
    of_clients: str = ""
    is_ranked: bool = True

    @property
    def axis(self) -> str:
        """The label of an axis that shows it."""
        symbol = SYMBOLS[self.unit]
        return f"{self.label} ({symbol})" if symbol else self.label

    @property
    def factor(self) -> float:
        """The factor that brings values to the unit of that axis."""
        return FACTORS[self.unit]


def mean_samples(spec: Mapping[str, Any]) -> float:
    """The mean number of samples of a client, from a run's canonical spec.

    It is exact: a partition either gives each client ``per_client`` samples, or deals out the whole
    training set, or ``samples`` of it, except for the remainder that ``iid`` and ``shard`` leave.
    """
    partition = spec["noisy_partition"]["partition"]
    size = dataset(spec["noisy_partition"]["dataset"]).task_size
    clients, samples = partition["clients"], partition.get("samples") or size
    if partition.get("per_client") is not None:
        return partition["per_client"]
    if partition["name"] == "iid" and not partition["stratified"]:
        return samples // clients
    if partition["name"] == "shard":
        return samples // (clients * partition["shards"]) * partition["shards"]
    return samples / clients


def _column(name: str) -> Values:
    def values(rounds: Rounds, spec: Mapping[str, Any]) -> np.ndarray:
        return rounds.get(name, np.full(len(rounds["round"]), np.nan))

    return values


def _per_participant(name: str) -> Values:
    def values(rounds: Rounds, spec: Mapping[str, Any]) -> np.ndarray:
        totals, participants = _column(name)(rounds, spec), _column("participants")(rounds, spec)
        found = np.full(len(totals), np.nan)
        np.divide(totals, participants, out=found, where=participants > 0)
        return found

    return values


def _per_sample(name: str) -> Values:
    def values(rounds: Rounds, spec: Mapping[str, Any]) -> np.ndarray:
        return _per_participant(name)(rounds, spec) / mean_samples(spec)

    return values


def _share(label: str, column: str, of_clients: str = "") -> Metric:
    return Metric(label, "percent", _column(column), of_clients=of_clients)


def _cost(label: str, unit: str, values: Values) -> Metric:
    return Metric(label, unit, values, less_is_better=True)


class Metrics(dict[str, Metric]):
    """Metrics by name. ``clients.<column>`` is a column that a method reports of its clients, of
    which nobody knows whether more of it is better.
    """

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or bool(REPORTED.fullmatch(str(name)))

    def __missing__(self, name: str) -> Metric:
        if not (reported := REPORTED.fullmatch(name)):
            raise KeyError(name)
        column = reported[1]
        label = column.replace("_", " ")
        return Metric(label, "number", _column(column), of_clients=column, is_ranked=False)


REPORTED = re.compile(r"clients\.([A-Za-z]\w*)")
"""The name of a metric that is a column of ``clients``."""

METRICS = Metrics(
    {
        "test_accuracy": _share("test accuracy", "test_accuracy"),
        "top1_accuracy": _share("top-1 test accuracy", "test_accuracy"),
        "top5_accuracy": _share("top-5 test accuracy", "test_top5_accuracy"),
        "balanced_accuracy": _share("balanced test accuracy", "test_balanced_accuracy"),
        "label_precision": _share("label precision", "label_precision"),
        "label_recall": _share("label recall", "label_recall"),
        "label_accuracy": _share("label accuracy", "label_accuracy"),
        "pseudo_label_accuracy": _share(
            "accuracy of pseudo-labels", "pseudo_label_accuracy", of_clients="pseudo_label_accuracy"
        ),
        "noise_detection_precision": _share(
            "noise detection precision", "noise_detection_precision"
        ),
        "noise_detection_recall": _share("noise detection recall", "noise_detection_recall"),
        "open_set_recall": _share("open-set recall", "open_set_recall"),
        "noise_ratio": _cost(
            "noise level of participants", "percent", _column("participants_noise_level")
        ),
        "seconds_per_round": _cost("time of a round", "seconds", _column("seconds")),
        "samples_forward": _cost(
            "computation forward of a local update, per sample",
            "samples",
            _per_sample("samples_forward"),
        ),
        "samples_backward": _cost(
            "computation backward of a local update, per sample",
            "samples",
            _per_sample("samples_backward"),
        ),
        "bytes_down": _cost(
            "sent to a participant in a round", "bytes", _per_participant("bytes_down")
        ),
        "bytes_up": _cost(
            "sent by a participant in a round", "bytes", _per_participant("bytes_up")
        ),
    }
)
"""The metrics by the names that experiment files use.

``samples_forward`` and ``samples_backward`` are the samples that pass through the network in a
round, divided by the number of participants and by the mean number of samples of a client
(:func:`mean_samples`). For a plain local update that is its number of local epochs (FedRN,
Table 10); where clients differ in size, it is so on average over rounds whose participants are
drawn uniformly. Bytes are those of a round divided by its participants.
"""

OF_CLIENTS = Metrics(
    {
        name: METRICS[name]
        for name in (
            "label_precision",
            "label_recall",
            "noise_detection_precision",
            "noise_detection_recall",
            "open_set_recall",
        )
    }
)
"""The metrics that ``clients`` has a column for."""

ACCURACY = "test_accuracy"
"""The metric in which methods are compared."""

RANK = "average rank"

MEASURES = Metrics({**METRICS, RANK: Metric(RANK, "ranks", lambda rounds, spec: np.empty(0), True)})
"""All that a cell may show: a metric of its runs, or the average of its row's ranks."""
