"""The plan of a scale: tables and figures, the runs behind them, and what is known of these.

Reading a plan needs neither methods nor models, hence no torch: whatever rules, progress and costs
have to know of a run is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from noisyfl.data.own_files import Stamp
from noisyfl.specs.cost import Estimate, Work, estimate
from noisyfl.specs.descriptions import FigureDescription, TableDescription
from noisyfl.specs.identity import identity

Spec = dict[str, Any]


@dataclass
class Plan:
    """Everything a scale asks for, by name and by id.

    Attributes:
        runs: the spec of every run, by id.
        partitions: the spec of every noisy partition, by id.
        targets: the experiments, tables and figures that are made if none is asked for by name;
            empty for all.
        left_out: for each experiment that cannot be planned because human labels are missing, what
            to do about it.
        partition: by run, the id of its noisy partition.
        words: by run, what it is called on the console.
        remarks: by run, what a user should know of it, if there is anything.
        warnings: those of the remarks that are on data: images, labels and noise levels.
        works: what runs do, each once, since few of a scale's runs differ in more than the seed.
        work: by run, the place of its work in ``works``.
        methods: by the name of a method or a combination, what it was made of.
        claim_parts: the tables and figures that the papers' claims are about, by name.
        own_files: a user's own files that were looked for, and those that are kept of them, with
            their stamps.
        own_images: a user's own datasets, by the JSON of their options, with their fingerprints.
    """

    scale: str
    tables: dict[str, TableDescription] = field(default_factory=dict)
    figures: dict[str, FigureDescription] = field(default_factory=dict)
    runs: dict[str, Spec] = field(default_factory=dict)
    partitions: dict[str, Spec] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    partition: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=dict)
    claim_parts: list[str] = field(default_factory=list)
    own_files: dict[str, Stamp] = field(default_factory=dict)
    own_images: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._estimates: dict[tuple[int, str], Estimate] = {}

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

    def add_run(self, spec: Spec) -> str:
        """Add a run and its noisy partition; return the run's id."""
        run = identity(spec)
        if run not in self.runs:
            self.runs[run] = spec
            self.add_partition(spec["noisy_partition"])
        return run

    def add_partition(self, spec: Spec) -> str:
        """Add a noisy partition; return its id."""
        partition = identity(spec)
        self.partitions[partition] = spec
        return partition

    def work_of(self, run: str) -> Work:
        """What a run does and holds."""
        return self.works[self.work[run]]

    def estimate(self, run: str, device: str) -> Estimate:
        """What a run should take on a device, named as the configuration has it."""
        key = self.work[run], device
        if key not in self._estimates:
            self._estimates[key] = estimate(self.work_of(run), device)
        return self._estimates[key]

    def to_json(self) -> str:
        """The plan as JSON."""
        return _PLANS.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what :meth:`to_json` gave.

        Raises:
            ValueError: it is no plan; or an id is not that of its spec, so that a run would be
                trained under the id of another one.
        """
        plan = _PLANS.validate_json(text)
        for specs in (plan.runs, plan.partitions):
            wrong = next((name for name, spec in specs.items() if identity(spec) != name), None)
            if wrong is not None:
                raise ValueError(f"{wrong} is not the id of its spec")
        return plan


_PLANS = TypeAdapter(Plan)
