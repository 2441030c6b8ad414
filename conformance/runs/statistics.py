"""What the whole runs say: means, spreads, and the difference with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.runs import CLIENTS


@dataclass(frozen=True)
class Comparison:
    """Of both sides, over the seeds that both have.

    Attributes:
        seeds: how many.
        official: mean and standard deviation of the accuracy, each seed's over its last rounds.
        ours: the same.
        difference: ours less the official one, the mean over seeds.
        half_width: of its 95 % interval, by Student's t on the differences of seeds, which share
            partition, first weights and participants.
        seconds: of the processor, the mean of the official code and of ours.
    """

    seeds: int
    official: tuple[float, float]
    ours: tuple[float, float]
    difference: float
    half_width: float
    seconds: tuple[float, float]

    @classmethod
    def of(
        cls, record: dict[str, Any], official: str = "official", ours: str = "ours"
    ) -> Comparison:
        """From a method's file; other runs of it can stand for both sides."""
        from scipy import stats

        sides = (official, ours)
        seeds = sorted(record[ours].keys() & record[official].keys(), key=int)
        theirs, own = (
            np.array([np.mean(record[side][seed]["accuracy"]) for seed in seeds]) for side in sides
        )
        apart = own - theirs
        count = len(seeds)
        half = math.inf
        if count > 1:
            half = float(stats.t.ppf(0.975, count - 1) * apart.std(ddof=1) / math.sqrt(count))
        seconds = [
            float(np.mean([record[side][seed]["seconds"] for seed in seeds])) for side in sides
        ]
        return cls(
            count, _spread(theirs), _spread(own), float(apart.mean()), half,
            (seconds[0], seconds[1]),
        )  # fmt: skip

    @property
    def inside(self) -> bool:
        """Whether no difference lies in the interval."""
        return abs(self.difference) <= self.half_width


def decided(record: dict[str, Any], side: str) -> dict[str, float]:
    """What a side decided, as means over the seeds of both; of flagged clients how many."""
    found: dict[str, list[float]] = {}
    for seed in record[side].keys() & record["ours"].keys() & record["official"].keys():
        for name, value in record[side][seed]["decided"].items():
            number = len(value) if name == "flagged" else float(np.mean(value))
            found.setdefault(name, []).append(number)
    return {name: float(np.mean(values)) for name, values in found.items()}


def flagged_alike(record: dict[str, Any]) -> tuple[int, int]:
    """Clients of which both sides say the same, noisy or not, and clients in all, over seeds."""
    same = asked = 0
    for seed in record["ours"].keys() & record["official"].keys():
        ours, official = (record[side][seed]["decided"] for side in ("ours", "official"))
        asked += CLIENTS
        same += CLIENTS - len(set(ours["flagged"]) ^ set(official["flagged"]))
    return same, asked


def _spread(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan
