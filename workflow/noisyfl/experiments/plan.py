"""The plan of a scale: tables and figures, the runs behind them, and what is known of these.

Reading a plan needs neither methods nor models, hence no torch: what rules, progress and costs
have to know of a run is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from noisyfl.core.options import BadInput
from noisyfl.data.roots import Stamp
from noisyfl.specs.cost import Estimate, Work, estimate
from noisyfl.specs.descriptions import FigureDescription, TableDescription, complete_block
from noisyfl.specs.identity import canonical_json, identity, with_seed

Spec = dict[str, Any]

Exists = Callable[[str], bool]
"""Whether the run, or the noisy partition, of an id exists."""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run besides its spec.

    Attributes:
        partition: the id of its noisy partition.
        words: what it is called on the console, without its seed.
        remarks: what a user should know of it.
        work: what it does and holds.
    """

    partition: str
    words: str
    remarks: tuple[str, ...]
    work: Work


@dataclass
class Plan:
    """Everything a scale asks for, by name and by id.

    Attributes:
        runs: the spec of every run, by id.
        partitions: the spec of every noisy partition, by id.
        facts: what else is known of every run, by id.
        targets: the experiments, tables and figures that are made if none is asked for by name;
            empty for all.
        wrong: for each table and figure with a wrong setting, what is wrong with it. This matters
            only to those who ask for it.
        warnings: those of the remarks that are on data: images, labels and noise levels.
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
    facts: dict[str, RunFacts] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    claim_parts: list[str] = field(default_factory=list)
    own_files: dict[str, Stamp] = field(default_factory=dict)
    own_images: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._estimates: dict[tuple[int, str], Estimate] = {}

    def add(self, other: Plan) -> None:
        """Add the tables, figures, runs and partitions of another plan."""
        self.tables |= other.tables
        self.figures |= other.figures
        self.wrong |= other.wrong
        self.runs |= other.runs
        self.partitions |= other.partitions

    def why_wrong(self, target: str) -> str:
        """Why a target cannot be made if something is wrong with it, its experiment or a part of
        it; otherwise empty.
        """
        reasons = {name.replace("/", "_"): why for name, why in self.wrong.items()}
        words = re.split("[_/]", target)
        names = ("_".join(words[:end]) for end in range(1, len(words) + 1))
        found = next((reasons[name] for name in names if name in reasons), "")
        return found or self.wrong_experiments.get(target, "")

    @property
    def wrong_experiments(self) -> dict[str, str]:
        """The experiments with wrong tables or figures, and what is wrong with one of them."""
        return {name.partition("/")[0]: why for name, why in self.wrong.items()}

    def check_targets(self) -> None:
        """Raise :class:`BadInput` if something is wrong with what the scale makes."""
        for name, why in self.wrong.items():
            if not self.targets or {name, name.partition("/")[0]}.intersection(self.targets):
                raise BadInput(why)

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

    def words_of(self, run: str) -> str:
        """What a run is called on the console."""
        return f"{self.facts[run].words}, seed {self.runs[run]['seed']}"

    def estimate(self, run: str, device: str) -> Estimate:
        """What a run should take on a device, named as the configuration has it."""
        work = self.facts[run].work
        key = id(work), device  # few of a scale's runs differ in more than the seed
        if key not in self._estimates:
            self._estimates[key] = estimate(work, device)
        return self._estimates[key]

    def to_json(self) -> tuple[str, str]:
        """The runs as JSON, and the rest of the plan as JSON."""
        rest = replace(self, runs={}, partitions={}, facts={})
        runs = _adapter(_Runs).dump_json(_Runs.of(self))
        return runs.decode(), _adapter(Plan).dump_json(rest).decode()

    @classmethod
    def from_json(cls, runs: str, rest: str | None = None) -> Plan:
        """Read what :meth:`to_json` returned; without the rest, the plan has only runs.

        Raises:
            ValueError: it is no plan; other errors follow from JSON of another form.
        """
        plan = cls("") if rest is None else _adapter(Plan).validate_json(rest)
        _adapter(_Runs).validate_json(runs).add_to(plan)
        return plan


def partial_plan(plan: Plan, has_run: Exists, has_partition: Exists) -> Plan:
    """The plan with its tables and figures, but not its runs, cut down to the runs that exist.

    Every table stays: cells without runs are empty, and the table says how many runs are missing
    and what they cost. A figure shows those rows and columns of its table in which every cell has
    a run, or those panels and lines whose runs exist; a figure of which too little is left to be
    drawn is dropped.
    """
    tables = {name: _table(table, plan, has_run) for name, table in plan.tables.items()}
    found = {name: _figure(one, plan, has_run, has_partition) for name, one in plan.figures.items()}
    figures = {name: figure for name, figure in found.items() if figure is not None}
    return replace(plan, tables=tables, figures=figures)


def _table(table: TableDescription, plan: Plan, exists: Exists) -> TableDescription:
    missing = [run for run in table.run_ids() if not exists(run)]
    seconds = sum(plan.estimate(run, "cpu").seconds for run in missing)
    return replace(
        _existing(table, exists), missing=len(missing), missing_hours=round(seconds / 3600, 1)
    )


def _existing(table: TableDescription, exists: Exists) -> TableDescription:
    """The table with those of its runs that exist."""
    return table.with_runs([[[*filter(exists, cell)] for cell in row] for row in table.runs])


def _figure(
    figure: FigureDescription, plan: Plan, has_run: Exists, has_partition: Exists
) -> FigureDescription | None:
    """What is left of a figure; None if nothing is."""
    if figure.table is not None:
        part = _of_a_table(figure, figure.table, plan, has_run)
    else:
        part = figure.without_runs(lambda run: not has_run(run))
    return part if part is not None and all(map(has_partition, part.partitions)) else None


def _of_a_table(
    figure: FigureDescription, table: TableDescription, plan: Plan, exists: Exists
) -> FigureDescription | None:
    existing = _existing(table, exists)
    rows, columns = complete_block(existing.runs)
    if not rows:
        return None
    sizes = [(len(rows), len(table.rows), "row"), (len(columns), len(table.columns), "column")]
    few = " and ".join(f"{n} of {whole} {word}s" for n, whole, word in sizes if n < whole)
    note = f" Trained so far: {few}." if few else ""
    part = existing.part(rows, columns)
    runs = tuple(part.run_ids())
    # A figure of clients draws the first existing run, and the partition of that run.
    partitions = (plan.facts[runs[0]].partition,) if figure.partitions else ()
    caption = figure.caption.rstrip() + note
    return replace(figure, table=part, runs=runs, partitions=partitions, caption=caption)


@dataclass
class _MethodRuns:
    """The runs of one method in one setting, by their numbers; ``seeds`` are by id of a run."""

    setting: int
    method: int
    work: int
    words: str
    remarks: tuple[str, ...]
    seeds: dict[str, int]


@dataclass
class _Runs:
    """The runs of a plan, of which each setting, method and work is written once.

    Attributes:
        settings: specs without method and seed.
        partitions: specs of noisy partitions that no run has.
    """

    settings: list[Spec]
    methods: list[Spec]
    works: list[Work]
    trials: list[_MethodRuns]
    partitions: list[Spec]

    @classmethod
    def of(cls, plan: Plan) -> _Runs:
        settings: dict[str, tuple[int, Spec]] = {}
        methods: dict[str, tuple[int, Spec]] = {}
        works: dict[int, tuple[int, Work]] = {}
        trials: dict[tuple[Any, ...], _MethodRuns] = {}
        for run, spec in plan.runs.items():
            facts, method = plan.facts[run], spec["method"]
            setting = with_seed({**spec, "method": {}}, 0)
            place = (
                settings.setdefault(canonical_json(setting), (len(settings), setting))[0],
                methods.setdefault(canonical_json(method), (len(methods), method))[0],
                works.setdefault(id(facts.work), (len(works), facts.work))[0],
            )
            key = (*place, facts.words, facts.remarks)
            trials.setdefault(key, _MethodRuns(*key, seeds={})).seeds[run] = spec["seed"]
        of_runs = {facts.partition for facts in plan.facts.values()}
        return cls(
            [setting for _, setting in settings.values()],
            [method for _, method in methods.values()],
            [work for _, work in works.values()],
            [*trials.values()],
            [spec for name, spec in plan.partitions.items() if name not in of_runs],
        )

    def add_to(self, plan: Plan) -> None:
        partitions: dict[tuple[int, int], str] = {}
        for one in self.trials:
            work = self.works[one.work]
            for run, seed in one.seeds.items():
                method = self.methods[one.method]
                spec = with_seed({**self.settings[one.setting], "method": method}, seed)
                place = one.setting, seed
                if place not in partitions:
                    partitions[place] = plan.add_partition(spec["noisy_partition"])
                plan.runs[run] = spec
                plan.facts[run] = RunFacts(partitions[place], one.words, one.remarks, work)
        for partition in self.partitions:
            plan.add_partition(partition)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    # That of tables takes a tenth of a second, and a training job reads none.
    return TypeAdapter(kind)
