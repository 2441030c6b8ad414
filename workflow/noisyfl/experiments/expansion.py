"""One experiment file under one scale: its tables and figures, expanded to runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisyfl.analysis.frame import lines_not_run
from noisyfl.analysis.local_epochs import epochs_by_round
from noisyfl.core.checked_yaml import as_model, read_yaml
from noisyfl.core.options import BadInput, find
from noisyfl.core.registry import parts_of
from noisyfl.core.typed import type_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import NotRead
from noisyfl.experiments.config import Configuration
from noisyfl.experiments.experiment import (
    AnyFigure,
    ByRound,
    Experiment,
    LidScores,
    LinesPanel,
    LocalEpochs,
    LocalModels,
    MarkEntry,
    NamedOverride,
    OfCell,
    OfTable,
    Partitions,
    Probes,
    RowEntry,
    Table,
)
from noisyfl.experiments.headers import Header, check_known, columns_of, rows_of, shown_places
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.run_specs import RunSpecs
from noisyfl.experiments.setting import is_change, merge
from noisyfl.specs.catalogue import canonical_method, methods
from noisyfl.specs.descriptions import (
    CellDescription,
    FigureDescription,
    Mark,
    Panel,
    TableDescription,
)
from noisyfl.specs.identity import identity
from noisyfl.specs.published import Published, join
from noisyfl.specs.spec import REGISTRIES, check_part

PROBES = {
    "local_models": ["local_models"],
    "similarity": ["local_models"],
    "detection": ["samples"],
    "features": ["features"],
}
"""By kind of figure, the probes that are measured at the end of the runs it is drawn from."""

NEED_TRUTH = ("detection", "lid_scores")
"""Kinds of figures that compare what a method finds with the true labels."""

OF_ONE_DATASET = ("class_counts", "noisy_partition", "features")
"""Kinds of figures whose panels share the colours and names of classes."""

MOST_RUNS = 200_000
"""Most runs that an experiment may expand to; planning so many takes some ten seconds."""

LOOKS = {"kind", "title", "caption", "footer", "xlabel", "rounds", "x", "y", "metrics"}
"""The keys of a figure that its description has as they are, if its kind has them."""


class Expansion:
    """One experiment file under one configuration.

    Args:
        own: reads a user's own files; None: none is read.
        config_name: what error messages call the configuration.
        published: all published numbers.
    """

    def __init__(
        self,
        config: Configuration,
        own: OwnFiles | None,
        config_name: str,
        name: str,
        path: Path,
        published: Sequence[Published],
    ) -> None:
        self.plan = Plan(config.scale)
        self.published = published
        self.config = config
        self.overlay = config.overlay
        self.config_name = config_name
        self.name = name
        self.part = name  # of which table or figure is being expanded, <experiment>/<name>
        self.where = str(path)
        self.experiment = as_model(read_yaml(path), Experiment, self.where, check=_check_named)
        self.settings = {key: one.as_given() for key, one in self.experiment.settings.items()}
        methods = self.experiment.methods
        self.specs = RunSpecs(self.overlay, own, config_name, name, methods)

    def expand(self) -> Plan:
        """The plan of every table and figure, and of what they are made from."""
        for name, table in self.experiment.tables.items():
            with self._part(name):
                self.plan.tables[self.part] = self._table(name, table)
        for name, figure in self.experiment.figures.items():
            with self._part(name):
                if (described := self._figure(name, figure)) is not None:
                    self.plan.figures[self.part] = described
        return self.plan

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Expand a table or figure, and take note if something is wrong with it."""
        self.part = f"{self.name}/{name}"
        grown = (self.plan.runs, self.plan.partitions)
        before = [len(specs) for specs in grown]
        try:
            yield
        except NotRead:
            raise
        except BadInput as error:
            self.plan.wrong[self.part] = str(error)
            for specs, size in zip(grown, before, strict=True):
                while len(specs) > size:
                    specs.popitem()

    def columns_with_runs(self, table: str) -> list[str]:
        """The names of a table's columns whose cells have runs of their own."""
        entry = self.experiment.tables[table]
        columns = columns_of(entry.columns, f"{self.where}: tables.{table}.columns")
        return [column.name for column in columns if column.has_runs]

    def trials_of(self, table: str) -> int:
        """How many trials a table has: as the scale says, or else its file."""
        own = self.overlay.trials.get(f"{self.name}/{table}")
        return own or self.config.trials or self.experiment.tables[table].trials

    def raw_run(self, table: str, column: str, method: str | Mapping[str, Any]) -> dict[str, Any]:
        """A run of a method in the setting of a table's column, before defaults are filled in, and
        without a seed.
        """
        entry, where = self.experiment.tables[table], f"{self.where}: tables.{table}"
        headers = {one.name: one for one in columns_of(entry.columns, f"{where}.columns")}
        header = headers[column]
        setting = self._setting(header.setting or entry.setting, where, header.overrides)
        part = f"{self.name}/{table}"
        return self.specs.raw(part, setting, method, where, header.method)

    def _table(self, name: str, entry: Table) -> TableDescription:
        where = f"{self.where}: tables.{name}"
        columns = self._select("columns", name, columns_of(entry.columns, f"{where}.columns"))
        every = rows_of(entry.rows, f"{where}.rows")
        added = self._added_rows(name, every)
        for row in (*every, *added):
            for setting in row.method_in:
                find(self.settings, setting, "setting", f"{row.place}.method_in")
        kept = self._select("rows", name, [*every, *added])
        rows = [row for row in (*every, *added) if row in kept or row in added]
        trials = self.trials_of(name)
        if len(self.plan.runs) + len(rows) * len(columns) * trials > MOST_RUNS:
            raise BadInput(
                f"{where}: got {len(rows)} rows, {len(columns)} columns and {trials} trials, "
                f"expected fewer: an experiment has at most {MOST_RUNS:,} runs"
            )
        seeds = range(1, trials + 1)
        lines = [
            [self._cell(entry.setting, row, column, seeds, where) for column in columns]
            for row in rows
        ]
        joined = join(self.published, entry.published, rows, columns, entry.metric, where)
        table = TableDescription(
            experiment=self.name,
            experiment_title=self.experiment.title,
            name=name,
            title=entry.title,
            note=entry.note,
            scale=self.plan.scale,
            scale_note=self.config.note,
            metric=entry.metric,
            statistic=entry.statistic,
            published=entry.published,
            columns=tuple(replace(column.heading(), method=None) for column in columns),
            rows=tuple(row.heading() for row in rows),
            cells=tuple(
                tuple(
                    CellDescription(runs=runs, as_published=same, labels=labels, number=number)
                    for (runs, same), (labels, number) in zip(*pairs, strict=True)
                )
                for pairs in zip(lines, joined.cells, strict=True)
            ),
            left_out=tuple(row.heading() for row in every if row not in rows),
            other_numbers=joined.others,
        )
        lines_not_run(table, where)  # which rejects two numbers for one place
        return table

    def _added_rows(self, table: str, every: Sequence[Header]) -> list[Header]:
        """The rows that the scale adds to a table, whose own rows, ``every``, have other names."""
        where = f"{self.config_name}: overlay.add_rows.{self.name}/{table}"
        rows = self.overlay.add_rows.get(f"{self.name}/{table}", ())
        entries = [RowEntry.read(row, f"{where}[{n}]: ") for n, row in enumerate(rows)]
        added, taken = rows_of(entries, where), {row.name for row in every}
        for row in added:
            if row.name in taken:
                raise BadInput(
                    f"{row.place}: the table has a row {row.name!r}; choose another name"
                )
        return added

    def _select(self, kind: str, table: str, headers: list[Header]) -> list[Header]:
        """The rows or columns that the scale keeps: those it names, or all if it names none."""
        kept = self.overlay.rows if kind == "rows" else self.overlay.columns
        names = kept.get(f"{self.name}/{table}")
        if names is None:
            return headers
        where = f"{self.config_name}: overlay.{kind}.{self.name}/{table}"
        check_known((header.name for header in headers), names, kind.removesuffix("s"), where)
        return [header for header in headers if header.name in names]

    def _cell(
        self, setting: str, row: Header, column: Header, seeds: Sequence[int], where: str
    ) -> tuple[tuple[str, ...], bool]:
        """The runs of a cell, and whether their setting and method are exactly the paper's."""
        if not column.has_runs:
            return (), False
        name = row.setting or column.setting or setting
        place = row.place if row.setting else column.place if column.setting else where
        paper = self._setting(name, place, column.overrides, row.overrides)
        method, options = row.method_in.get(name, row.method), column.method or {}
        place = f"{row.place}, column {column.name!r}"
        specs = self.specs.of(self.part, paper, method, seeds, place, options)
        as_published = True
        if self.overlay.changes_runs:
            (published,) = self.specs.of(
                self.part, paper, method, seeds[:1], place, options, overlay=False
            )
            as_published = _exactly(specs[0]) == _exactly(published)
        return tuple(self.plan.add_run(spec) for spec in specs), as_published

    def _figure(self, name: str, entry: AnyFigure) -> FigureDescription | None:
        """A figure; None if the scale keeps too little of its table to draw it."""
        where = f"{self.where}: figures.{name}"
        content: dict[str, Any]
        if isinstance(entry, OfTable | OfCell):
            content = self._figure_of_a_table(entry, where)
            if not content:
                return None
        elif isinstance(entry, LocalEpochs):
            content = {"panels": tuple(self._panels_of_epochs(entry, f"{where}.methods"))}
        else:
            content = self._figure_of_panels(entry, where)
        for key, value in entry.model_dump(include=LOOKS).items():
            content[key] = tuple(value) if isinstance(value, list) else value
        if isinstance(entry, ByRound):
            content["marks"] = tuple(self._marks(entry.marks, content["runs"], f"{where}.marks"))
        return FigureDescription(
            experiment=self.name,
            experiment_title=self.experiment.title,
            name=name,
            scale=self.plan.scale,
            **content,
        )

    def _marks(
        self, entries: Sequence[MarkEntry], runs: Sequence[str], where: str
    ) -> Iterator[Mark]:
        """The marks of a figure; of an option, at its value in the first drawn run that has one."""
        options = {
            name
            for method in methods().values()
            for name, field in method.model_fields.items()
            if type_of(field) is int
        }
        for mark in entries:
            at: Any = mark.at
            if isinstance(at, str):
                find(dict.fromkeys(sorted(options)), at, "option", where)
                parts = (part for run in runs for part in parts_of(self.plan.runs[run]["method"]))
                at = next((part[at] for part in parts if part.get(at)), None)
            if at is not None:
                yield Mark(at, mark.label)

    def _panels_of_epochs(self, entry: LocalEpochs, where: str) -> Iterator[Panel]:
        """The lines of a figure of schedules that methods have of their own."""
        for n, one in enumerate(entry.methods):
            place = f"{where}[{n}].method"
            method = canonical_method(one.method, place)
            epochs_by_round(method, entry.rounds, place)  # which rejects one without
            yield Panel(name=one.name, method=method)

    def _figure_of_a_table(self, entry: OfTable | OfCell, where: str) -> dict[str, Any]:
        """The content of a figure drawn from a table of this experiment, or from a part of one;
        empty if the scale keeps too little of it.
        """
        prefix = f"{self.name}/"
        if why := self.plan.wrong.get(f"{prefix}{entry.table}"):
            raise BadInput(why)
        tables = {k.removeprefix(prefix): t for k, t in self.plan.tables.items()}
        table = find(tables, entry.table, "table", f"{where}.table")
        file = self.experiment.tables[table.name]
        all_rows = rows_of(file.rows, where)
        all_columns = [one for one in columns_of(file.columns, where) if one.has_runs]
        plural = "" if isinstance(entry, OfCell) else "s"
        rows = shown_places(all_rows, table.rows, entry.rows, f"{where}.row{plural}")
        columns = shown_places(all_columns, table.columns, entry.columns, f"{where}.column{plural}")
        if not (rows and columns):
            wanted = entry.rows or all_rows, entry.columns or all_columns
            if all(wanted):
                return {}
            raise BadInput(
                f"{where}: rows, and columns with runs: got {len(wanted[0])} and {len(wanted[1])}, "
                "expected at least one of each"
            )
        part = table.part(rows, columns)
        if entry.kind == "by_setting":
            part.panels(where)  # which rejects columns that cannot be drawn
        if entry.kind == "by_client":
            run = part.runs[0][0][0]
            partition = identity(self.plan.runs[run]["noisy_partition"])
            return {"table": part, "runs": (run,), "partitions": (partition,)}
        return {"table": part, "runs": tuple(part.run_ids())}

    def _figure_of_panels(
        self, entry: LidScores | Partitions | Probes | LocalModels, where: str
    ) -> dict[str, Any]:
        """The content of a figure with runs of its own, or of noisy partitions alone."""
        setting = self._setting(entry.setting, where)
        if entry.kind in PROBES:
            setting["probes"] = PROBES[entry.kind]
        if isinstance(entry, LidScores):
            panels = [self._panel(entry, setting, entry.seed, where)]
            parts = parts_of(self.plan.runs[panels[0].run]["method"])
            if not any(issubclass(methods()[p["name"]], methods()["fedcorr"]) for p in parts):
                raise BadInput(
                    f"{where}.method: got {entry.method!r}, expected fedcorr, which scores clients"
                )
        else:
            panels = [
                self._panel(panel, setting, entry.seed, f"{where}.panels[{n}]")
                for n, panel in enumerate(entry.panels)
            ]
        lines = [line for panel in panels for line in panel.lines or (panel,)]
        names = {self.plan.partitions[line.partition]["dataset"] for line in lines}
        if entry.kind in OF_ONE_DATASET and len(names) > 1:
            raise BadInput(
                f"{where}: got panels of {' and '.join(sorted(names))}, expected one dataset, "
                "whose classes all panels show"
            )
        for facts in (dataset(self.plan.partitions[line.partition]["dataset"]) for line in lines):
            if entry.kind in NEED_TRUTH and not facts.true_labels:
                raise BadInput(
                    f"{where}: got the dataset {facts.title}, whose true labels are not known, and "
                    f"{entry.kind} compares what is found with them"
                )
        return {
            "panels": tuple(panels),
            "runs": tuple(line.run for line in lines if line.run),
            "partitions": tuple(line.partition for line in lines),
        }

    def _panel(
        self, entry: LidScores | NamedOverride, setting: Mapping[str, Any], seed: int, where: str
    ) -> Panel:
        """A panel with its lines, or with a noisy partition and, if it names a method, a run."""
        setting = merge(setting, entry.with_.as_given())
        if isinstance(entry, LinesPanel):
            lines = [
                self._panel(line, setting, seed, f"{where}.lines[{n}]")
                for n, line in enumerate(entry.lines)
            ]
            return Panel(name=entry.name, lines=tuple(lines))
        # A noisy partition is checked as part of a run's spec, which has to name some method.
        method = getattr(entry, "method", None)
        (spec,) = self.specs.of(self.part, setting, method or "fedavg", [seed], where)
        return Panel(
            **entry.model_dump(include={"name", "score", "classes"}),
            run=self.plan.add_run(spec) if method else "",
            partition=self.plan.add_partition(spec["noisy_partition"]),
        )

    def _setting(self, name: str, where: str, *overrides: Mapping[str, Any]) -> dict[str, Any]:
        """A setting as the paper has it: the named one, parts of which others override."""
        return merge(find(self.settings, name, "setting", f"{where}.setting"), *overrides)


def _check_named(kind: str, raw: Any) -> None:
    """:func:`check_part`, except for options without a component's name: these are checked with
    each run, where it is known which component they change.
    """
    if kind not in REGISTRIES or not is_change(raw):
        check_part(kind, raw)


def _exactly(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without its precision, in which it may differ and still be as the paper has it."""
    return {**spec, "schedule": {**spec["schedule"], "precision": None}}
