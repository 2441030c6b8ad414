"""One experiment file under one scale: its tables and figures, expanded to runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisyfl.core.checked_yaml import checked, read_yaml
from noisyfl.core.options import BadInput, find
from noisyfl.core.registry import split_component
from noisyfl.core.typed import type_of
from noisyfl.data.noise.human_labels import LabelsMissing
from noisyfl.data.roots import Roots
from noisyfl.experiments.experiment import Experiment
from noisyfl.experiments.headers import Header, columns_of, only, rows_of
from noisyfl.experiments.overlay import blamed, declared_of
from noisyfl.experiments.plan import Plan
from noisyfl.specs.catalogue import canonical_method, methods, parts_of, split_method
from noisyfl.specs.descriptions import FigureDescription, Mark, Panel, TableDescription
from noisyfl.specs.extent import check_ends
from noisyfl.specs.published import Published, join
from noisyfl.specs.spec import canonical_run, identity

PROBES = {
    "local_models": ["local_models"],
    "similarity": ["local_models"],
    "detection": ["samples"],
    "features": ["features"],
}
"""By kind of figure, the probes that are measured at the end of the runs it is drawn from."""


MOST_RUNS = 200_000
"""Most runs that an experiment may expand to; planning so many takes some ten seconds."""

USED = ("scale", "note", "trials", "allow_years", "overlay")
"""The keys of a configuration that decide runs and how they are shown, without data folders."""

AXES = ("x", "y", "metrics")
"""The keys of a figure that say what its axes show: a name, or several."""


class Expansion:
    """One experiment file under one configuration.

    Args:
        config: the keys :data:`USED` of what :func:`noisyfl.experiments.config.check_config`
            returns.
        roots: the data folders, where files of human labels may lie; None: the checksums of such
            files are not looked up.
        config_name: what error messages call the configuration.
        name: of the experiment.
        path: of the experiment's file.
        published: all published numbers.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        roots: Roots | None,
        config_name: str,
        name: str,
        path: Path,
        published: Sequence[Published],
    ) -> None:
        self.plan = Plan(config["scale"])
        self.published = published
        self.overlay = config["overlay"]
        self.trials = config["trials"]
        self.scale_note = config["note"]
        self.roots = roots
        self.allow_years = config["allow_years"]
        self.config_name = config_name
        self.name = name
        self.part = name  # of which table or figure is being expanded, <experiment>/<name>
        self.where = str(path)
        self.content = read_yaml(path)
        checked(self.content, Experiment, self.where)
        for key in self.content.get("methods", {}):
            declared_of(key, f"{self.where}: methods")

    def expand(self) -> Plan:
        """The plan of every table and figure, and of what they are made from."""
        for name, given in self.content.get("tables", {}).items():
            self.part = f"{self.name}/{name}"
            self.plan.tables[self.part] = self._table(name, given)
        for name, given in self.content.get("figures", {}).items():
            self.part = f"{self.name}/{name}"
            self.plan.figures[self.part] = self._figure(name, given)
        return self.plan

    def _table(self, name: str, given: Mapping[str, Any]) -> TableDescription:
        where = f"{self.where}: tables.{name}"
        columns = self._kept("columns", name, columns_of(given["columns"], f"{where}.columns"))
        every = rows_of(given["rows"], f"{where}.rows")
        rows = self._kept("rows", name, every)
        own = self.overlay.get("trials", {}).get(f"{self.name}/{name}")
        trials = own or self.trials or given["trials"]
        if len(self.plan.runs) + len(rows) * len(columns) * trials > MOST_RUNS:
            raise BadInput(
                f"{where}: got {len(rows)} rows, {len(columns)} columns and {trials} trials, "
                f"expected fewer: an experiment has at most {MOST_RUNS:,} runs"
            )
        seeds = range(1, trials + 1)
        lines = [
            [self._cell(given["setting"], row, column, seeds, where) for column in columns]
            for row in rows
        ]
        metric, selection = given.get("metric", "test_accuracy"), given.get("published")
        joined = join(self.published, selection, rows, columns, metric, where)
        return TableDescription(
            experiment=self.name,
            experiment_title=self.content["title"],
            name=name,
            title=given["title"],
            note=given.get("note", ""),
            scale=self.plan.scale,
            scale_note=self.scale_note,
            metric=metric,
            statistic=given["statistic"],
            published=selection,
            columns=tuple(replace(column.heading(), method=None) for column in columns),
            rows=tuple(row.heading() for row in rows),
            runs=tuple(tuple(runs for runs, _ in line) for line in lines),
            as_published=tuple(tuple(same for _, same in line) for line in lines),
            left_out=tuple(row.heading() for row in every if row not in rows),
            labels=joined.labels,
            numbers=joined.numbers,
        )

    def _kept(self, kind: str, table: str, headers: list[Header]) -> list[Header]:
        """The rows or columns that the scale keeps: those it names, or all if it names none."""
        kept = self.overlay.get(kind, {}).get(f"{self.name}/{table}")
        if kept is None:
            return headers
        where = f"{self.config_name}: overlay.{kind}.{self.name}/{table}"
        only((header.name for header in headers), kept, kind.removesuffix("s"), where)
        return [header for header in headers if header.name in kept]

    def _cell(
        self, setting: str, row: Header, column: Header, seeds: Sequence[int], where: str
    ) -> tuple[tuple[str, ...], bool]:
        """The runs of a cell, and whether their setting and method are exactly the paper's."""
        if not column.has_runs:
            return (), False
        name = row.setting or column.setting or setting
        paper = self._setting(name, {**column.overlays, **row.overlays}, where)
        method, options = row.method_in.get(name, row.method), column.method or {}
        specs = self._specs(paper, method, seeds, row.place, options)
        as_published = True
        if self.overlay:
            (published,) = self._specs(paper, method, seeds[:1], row.place, options, overlay=False)
            as_published = _exactly(specs[0]) == _exactly(published)
        return tuple(self.plan.add_run(spec) for spec in specs), as_published

    def _figure(self, name: str, given: Mapping[str, Any]) -> FigureDescription:
        where = f"{self.where}: figures.{name}"
        if "table" in given:
            drawn = self._figure_of_a_table(given, where)
        elif "setting" in given:
            drawn = self._figure_of_panels(given, where)
        else:
            drawn = self._figure_of_methods(given, where)
        told = ("kind", "title", "caption", "xlabel", "rounds")
        axes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k in AXES
        }
        return FigureDescription(
            experiment=self.name,
            experiment_title=self.content["title"],
            name=name,
            scale=self.plan.scale,
            marks=tuple(
                self._marks(given.get("marks", ()), drawn.get("runs", ()), f"{where}.marks")
            ),
            **{key: given[key] for key in told if key in given},
            **axes,
            **drawn,
        )

    def _marks(
        self, given: Sequence[Mapping[str, Any]], runs: Sequence[str], where: str
    ) -> Iterator[Mark]:
        """The marks of a figure; of an option, at its value in the first drawn run that has one."""
        options = {
            name
            for method in methods().values()
            for name, field in method.model_fields.items()
            if type_of(field) is int
        }
        for mark in given:
            at = mark["at"]
            if isinstance(at, str):
                find(dict.fromkeys(sorted(options)), at, "option", where)
                drawn = (part for run in runs for part in parts_of(self.plan.runs[run]["method"]))
                at = next((part[at] for part in drawn if part.get(at)), None)
            if at is not None:
                yield Mark(at, mark["label"])

    def _figure_of_a_table(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The content of a figure drawn from a table of this experiment, or from a part of one."""
        prefix = f"{self.name}/"
        tables = {k.removeprefix(prefix): t for k, t in self.plan.tables.items() if prefix in k}
        table = find(tables, given["table"], "table", f"{where}.table")
        places: dict[str, list[int]] = {}
        for kind, there in (("rows", table.rows), ("columns", table.columns)):
            names = [header.name for header in there]
            # If the scale keeps a part of the table, the figure shows what is left of its own rows
            # or columns; if none are left, all that the table keeps.
            headers = (rows_of if kind == "rows" else columns_of)(
                self.content["tables"][table.name][kind], where
            )
            declared = [header.name for header in headers if header.has_runs]
            one = [given[kind[:-1]]] if kind[:-1] in given else declared
            wanted = only(declared, given.get(kind, one), kind[:-1], f"{where}.{kind}")
            left = [n for n in wanted if n in names] or [n for n in declared if n in names]
            places[kind] = [names.index(n) for n in left]
        part = table.part(places["rows"], places["columns"])
        if given["kind"] == "by_client":
            run = part.runs[0][0][0]
            partition = identity(self.plan.runs[run]["noisy_partition"])
            return {"table": part, "runs": (run,), "partitions": (partition,)}
        return {"table": part, "runs": tuple(part.run_ids())}

    def _figure_of_panels(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The content of a figure with runs of its own, or of noisy partitions alone."""
        drawn: list[Panel] = []
        panels = []
        for p, panel in enumerate(given.get("panels", [given])):
            place = f"{where}.panels[{p}]" if "panels" in given else where
            lines = []
            for n, line in enumerate(panel.get("lines", [panel])):
                parts = {f"{place}.with": panel.get("with", {})}
                if line is not panel:
                    parts[f"{place}.lines[{n}].with"] = line.get("with", {})
                setting = self._setting(given["setting"], parts, where)
                lines.append(self._drawn(given, setting, line, place))
            drawn += lines
            panels.append(
                Panel(**_told(panel), lines=tuple(lines)) if "lines" in panel else lines[0]
            )
        return {
            "panels": tuple(panels),
            "runs": tuple(line.run for line in drawn if line.run),
            "partitions": tuple(line.partition for line in drawn),
        }

    def _drawn(
        self,
        given: Mapping[str, Any],
        setting: Mapping[str, Any],
        line: Mapping[str, Any],
        where: str,
    ) -> Panel:
        """The noisy partition of a panel or a line, and its run if it names a method."""
        probes = PROBES.get(given["kind"])
        setting = {**setting, "probes": probes} if probes else setting
        # A noisy partition is checked as part of a run's spec, which has to name some method.
        method = line.get("method", "fedavg")
        (spec,) = self._specs(setting, method, [given.get("seed", 1)], where)
        partition = self.plan.add_partition(spec["noisy_partition"])
        run = self.plan.add_run(spec) if "method" in line else ""
        return Panel(**_told(line), run=run, partition=partition)

    def _figure_of_methods(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The content of a figure that is drawn from methods' options alone."""
        return {
            "panels": tuple(
                Panel(
                    name=line["name"], method=canonical_method(line["method"], f"{where}.methods")
                )
                for line in given["methods"]
            )
        }

    def _setting(
        self, name: str, parts: Mapping[str, Mapping[str, Any]], where: str
    ) -> dict[str, Any]:
        """A setting as the paper has it: the named one, with each part laid over it.

        Args:
            name: of the setting.
            parts: by place in the file, what is laid over the setting.
            where: what the error messages call the table or figure.
        """
        setting = dict(find(self.content["settings"], name, "setting", f"{where}.setting"))
        for place, part in parts.items():
            setting = merge(setting, part, place)
        return setting

    def _specs(
        self,
        setting: Mapping[str, Any],
        method: str | Mapping[str, Any],
        seeds: Sequence[int],
        where: str,
        options: Mapping[str, Any] | None = None,
        overlay: bool = True,
    ) -> list[dict[str, Any]]:
        """The canonical specs of runs in a paper's setting, one per seed.

        The setting's ``clients`` becomes an option of the partition, unless that has its own.

        Args:
            setting: as the paper has it.
            method: as the file has it.
            seeds: of the runs.
            where: what the error messages call the runs.
            options: added to the method's.
            overlay: whether to lay the scale's values over the paper's.
        """
        given = dict(setting)
        parts = self._method(method, options or {}, overlay, where)
        if overlay:
            for over in (
                self.overlay.get("datasets", {}).get(given.get("dataset"), {}),
                self.overlay.get("setting", {}),
                self.overlay.get("experiments", {}).get(self.name, {}),
                self.overlay.get("experiments", {}).get(self.part, {}),
            ):
                given = merge(given, over, f"{self.config_name}: overlay")
        clients = given.pop("clients", None)
        if clients is not None and "partition" in given:
            kind, values = split_component(given["partition"], "partition", f"{where}: partition")
            given["partition"] = {"name": kind, "clients": clients, **values}
        given["method"] = parts[0] if len(parts) == 1 else {"parts": parts}
        try:
            spec = canonical_run({**given, "seed": seeds[0]}, where, self.roots)
            if not self.allow_years:
                check_ends(spec, where)
        except LabelsMissing:
            raise
        except BadInput as error:
            if overlay and self.overlay:
                self._blame_overlay(error, where, setting, method, seeds, options)
            raise
        return [with_seed(spec, seed) for seed in seeds]

    def _blame_overlay(
        self,
        error: BadInput,
        where: str,
        setting: Mapping[str, Any],
        method: str | Mapping[str, Any],
        seeds: Sequence[int],
        options: Mapping[str, Any] | None,
    ) -> None:
        """Raise the error with the overlay's key that it comes from.

        A setting that is wrong without the overlay too raises its own error instead.
        """
        self._specs(setting, method, seeds[:1], where, options, overlay=False)
        key = blamed(error, self.overlay, (self.part, self.name), setting.get("dataset"))
        place = f"{self.config_name}: overlay{'.' if key else ''}{key}"
        raise BadInput(f"{place}: laid over {error}") from error

    def _method(
        self, given: str | Mapping[str, Any], options: Mapping[str, Any], overlay: bool, where: str
    ) -> list[dict[str, Any]]:
        """A method's parts, with the options of paper, column, row and scale; later ones win.

        What a row gives as 0, such as a stage that begins at once, is in proportion at any scale.
        """
        parts = split_method(given, f"{where}.method")
        if options and len(parts) > 1:
            raise BadInput(
                f"{where}: got options {dict(options)!r} for a combination, expected one method"
            )
        papers = self.content.get("methods", {})
        scales = self.overlay.get("methods", {}) if overlay else {}
        combination = "+".join(part["name"] for part in parts)

        def given_for(part: Mapping[str, Any], among: Mapping[str, Any]) -> dict[str, Any]:
            is_partner = part is parts[-1] and len(parts) > 1
            return among.get(part["name"], {}) | (among.get(combination, {}) if is_partner else {})

        def scaled(part: Mapping[str, Any]) -> dict[str, Any]:
            variants = methods()[part["name"]].variants if part["name"] in methods() else {}
            row = {**variants.get(str(part.get("variant")), {}), **options, **part}
            zero = {name for name, value in row.items() if value == 0 and value is not False}
            return {k: v for k, v in given_for(part, scales).items() if k not in zero}

        return [{**given_for(part, papers), **options, **part, **scaled(part)} for part in parts]


def with_seed(spec: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The canonical spec of the same run with another seed."""
    return {**spec, "seed": seed, "noisy_partition": {**spec["noisy_partition"], "seed": seed}}


def merge(base: Mapping[str, Any], over: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``base`` with the values of ``over`` laid over it.

    A component given as a mapping without a name changes only the options in that mapping; given in
    any other form, it replaces the old one.

    Args:
        base: a setting.
        over: what is laid over it.
        where: what the error messages call ``over``.
    """
    merged = dict(base)
    for key, value in over.items():
        if key == "schedule":
            merged[key] = {**merged.get(key, {}), **value}
        elif isinstance(value, Mapping) and "name" not in value and key in merged:
            name, options = split_component(merged[key], key, f"{where}.{key}")
            merged[key] = {"name": name, **options, **value}
        else:
            merged[key] = value
    return merged


def _exactly(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without its precision, in which it may differ and still be as the paper has it."""
    return {**spec, "schedule": {**spec["schedule"], "precision": None}}


def _told(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a figure's job is told of a panel or a line, apart from its runs and partitions."""
    return {key: part[key] for key in ("name", "score", "classes") if key in part}
