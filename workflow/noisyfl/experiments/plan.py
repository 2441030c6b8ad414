"""What a scale asks for: tables and figures, the runs behind them, and their noisy partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from noisyfl.specs.descriptions import FigureDescription, TableDescription
from noisyfl.specs.spec import identity


@dataclass
class Plan:
    """Everything a scale asks for, by name and by id.

    Attributes:
        targets: the experiments, tables and figures that are made if none is asked for by name;
            empty for all.
        left_out: for each experiment that cannot be planned because human labels are missing, what
            to do about it.
    """

    scale: str
    tables: dict[str, TableDescription] = field(default_factory=dict)
    figures: dict[str, FigureDescription] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, other: Plan) -> None:
        """Add the tables, figures, runs and partitions of another plan."""
        self.tables |= other.tables
        self.figures |= other.figures
        self.runs |= other.runs
        self.partitions |= other.partitions

    def why_left_out(self, target: str) -> str:
        """Why a target cannot be made if its experiment is left out; otherwise empty."""
        words = re.split("[_/]", target)
        names = ("_".join(words[:end]) for end in range(1, len(words) + 1))
        return next((self.left_out[name] for name in names if name in self.left_out), "")

    def add_run(self, spec: dict[str, Any]) -> str:
        """Add a run and its noisy partition; return the run's id."""
        run = identity(spec)
        if run not in self.runs:
            self.runs[run] = spec
            self.add_partition(spec["noisy_partition"])
        return run

    def add_partition(self, spec: dict[str, Any]) -> str:
        """Add a noisy partition; return its id."""
        partition = identity(spec)
        self.partitions[partition] = spec
        return partition
