"""What a scale asks for: tables and figures, the runs behind them, and their noisy partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from noisyfl.reporting.descriptions import FigureDescription, TableDescription
from noisyfl.specs.spec import identity


@dataclass
class Plan:
    """Everything a scale asks for, by name and by id.

    Attributes:
        targets: the experiments, tables and figures that are made if none is asked for by name; all
            if there are none here.
        left_out: by experiment that cannot be planned, since the human labels that it needs are
            missing, what to do about it.
    """

    scale: str
    tables: dict[str, TableDescription] = field(default_factory=dict)
    figures: dict[str, FigureDescription] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, other: Plan) -> None:
        """Ask for what another plan does, too."""
        self.tables |= other.tables
        self.figures |= other.figures
        self.runs |= other.runs
        self.partitions |= other.partitions

    def why_left_out(self, target: str) -> str:
        """Why a target cannot be made, if it is of an experiment that is left out; else empty."""
        words = re.split("[_/]", target)
        names = ("_".join(words[:end]) for end in range(1, len(words) + 1))
        return next((self.left_out[name] for name in names if name in self.left_out), "")

    def add_run(self, spec: dict[str, Any]) -> str:
        """Note a run and its partition; returns the run's id."""
        run = identity(spec)
        if run not in self.runs:
            self.runs[run] = spec
            self.add_partition(spec["noisy_partition"])
        return run

    def add_partition(self, spec: dict[str, Any]) -> str:
        """Note a noisy partition; returns its id."""
        partition = identity(spec)
        self.partitions[partition] = spec
        return partition
