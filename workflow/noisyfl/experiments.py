"""From configuration to plan: which runs make which tables and figures.

A paper's experiments are data (``config/papers/<paper>.yaml``); a scale (``config/<scale>.yaml``)
lays its own values over them. Everything a user can get wrong in either is found here, before any
job starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from referencing import Registry, Resource

from noisyfl.catalogue import methods, split_method
from noisyfl.data.datasets import dataset
from noisyfl.options import BadInput, did_you_mean, find, split_component
from noisyfl.spec import canonical_run, identity

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "workflow" / "schemas"

DEFAULTS: dict[str, Any] = {
    "results": "results",
    "data": {"folder": "data", "download": False},
    "device": "auto",
    "executor": "fast",
    "checkpoint_seconds": 60,
    "trials": None,
    "overlay": {},
}


@dataclass(frozen=True)
class Table:
    """One table: what its page says, and the runs behind each cell.

    Attributes:
        runs: ids by row, then column, then trial.
        description: plain data for the table's job; the job is done anew when it changes.
    """

    experiment: str
    name: str
    runs: tuple[tuple[tuple[str, ...], ...], ...]
    description: dict[str, Any]

    def run_ids(self) -> list[str]:
        """Every run of the table once, in order."""
        return list(dict.fromkeys(run for row in self.runs for cell in row for run in cell))


@dataclass(frozen=True)
class Figure:
    """One figure: what is drawn, and the runs or noisy partitions that it is drawn from."""

    experiment: str
    name: str
    runs: tuple[str, ...]
    partitions: tuple[str, ...]
    description: dict[str, Any]


@dataclass
class Plan:
    """Everything a scale asks for, by name and by id."""

    scale: str
    tables: dict[str, Table] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_run(self, spec: dict[str, Any]) -> str:
        """Note a run and its partition; returns the run's id."""
        run = identity(spec)
        self.runs[run] = spec
        self.add_partition(spec["noisy_partition"])
        return run

    def add_partition(self, spec: dict[str, Any]) -> str:
        """Note a noisy partition; returns its id."""
        partition = identity(spec)
        self.partitions[partition] = spec
        return partition


def check_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A scale's configuration, checked against its schema, with defaults filled in."""
    checked = _checked(dict(config), "config", where)
    return {**DEFAULTS, **checked, "data": {**DEFAULTS["data"], **checked.get("data", {})}}


def load_config(path: Path) -> dict[str, Any]:
    """Read and check a scale's YAML file."""
    return check_config(_read_yaml(path), str(path))


def make_plan(config: Mapping[str, Any], experiments: Path, where: str) -> Plan:
    """Expand a checked configuration.

    Args:
        config: as :func:`check_config` returns it.
        experiments: the folder of the experiments' YAML files.
        where: what the error messages call the configuration.

    Raises:
        BadInput: naming the file, the key, the value and what was expected.
    """
    plan = Plan(config["scale"])
    for key in config["overlay"].get("datasets", {}):
        dataset(key, f"{where}: overlay.datasets")
    known = {path.stem: path for path in sorted(experiments.glob("*.yaml"))}
    for name in config["experiments"]:
        path = find(known, name, "experiment", f"{where}: experiments")
        _Expansion(plan, config, where, name, path).expand()
    for part in ("columns", "trials"):
        for key in config["overlay"].get(part, {}):
            find(plan.tables, key, "table", f"{where}: overlay.{part}")
    for key in config["overlay"].get("methods", {}):
        find(methods(), key, "method", f"{where}: overlay.methods")
    return plan


class _Expansion:
    """One experiment file under one configuration."""

    def __init__(
        self, plan: Plan, config: Mapping[str, Any], config_name: str, name: str, path: Path
    ) -> None:
        self.plan = plan
        self.overlay = config["overlay"]
        self.trials = config["trials"]
        self.label_folder = Path(config["data"]["folder"])
        self.config_name = config_name
        self.name = name
        self.where = str(path)
        self.content = _checked(_read_yaml(path), "experiment", self.where)

    def expand(self) -> None:
        for name, given in self.content.get("tables", {}).items():
            self.plan.tables[f"{self.name}/{name}"] = self._table(name, given)
        for name, given in self.content.get("figures", {}).items():
            self.plan.figures[f"{self.name}/{name}"] = self._figure(name, given)

    def _table(self, name: str, given: Mapping[str, Any]) -> Table:
        where = f"{self.where}: tables.{name}"
        for kind in ("columns", "rows"):
            names = [part["name"] for part in given[kind]]
            for twice in {name for name in names if names.count(name) > 1}:
                raise BadInput(
                    f"{where}.{kind}: two are called {twice!r}, expected names to differ"
                )
        columns = self._columns(name, given["columns"])
        own = self.overlay.get("trials", {}).get(f"{self.name}/{name}")
        seeds = range(1, (own or self.trials or given["trials"]) + 1)
        cells: list[list[tuple[str, ...]]] = []
        as_published: list[list[bool]] = []
        for r, row in enumerate(given["rows"]):
            cells.append([])
            as_published.append([])
            for c, column in columns:
                parts = {f"{where}.columns[{c}].with": column, f"{where}.rows[{r}].with": row}
                paper = self._paper_setting(given["setting"], parts, where)
                place = f"{where}.rows[{r}]"
                specs = [self._spec(paper, row["method"], seed, place) for seed in seeds]
                cells[-1].append(tuple(self.plan.add_run(spec) for spec in specs))
                published = self._spec(paper, row["method"], seeds[0], place, overlay=False)
                as_published[-1].append(specs[0] == published)
        description = {
            "experiment": self.name,
            "experiment_title": self.content["title"],
            "name": name,
            "title": given["title"],
            "note": given.get("note", ""),
            "scale": self.plan.scale,
            "statistic": given["statistic"],
            "published": given.get("published"),
            "columns": [_face(column) for _, column in columns],
            "rows": [{**_face(row), "method": row["method"]} for row in given["rows"]],
            "runs": cells,
            "as_published": as_published,
        }
        runs = tuple(tuple(line) for line in cells)
        return Table(self.name, name, runs, description)

    def _columns(self, table: str, given: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
        """The columns that the scale keeps, with their places in the file."""
        kept = self.overlay.get("columns", {}).get(f"{self.name}/{table}")
        names = [column["name"] for column in given]
        for name in kept or []:
            if name not in names:
                where = f"{self.config_name}: overlay.columns.{self.name}/{table}"
                raise BadInput(
                    f"{where}: no column is called {name!r}{did_you_mean(name, names)} "
                    f"(known: {', '.join(names)})"
                )
        return [(c, x) for c, x in enumerate(given) if kept is None or x["name"] in kept]

    def _figure(self, name: str, given: Mapping[str, Any]) -> Figure:
        where = f"{self.where}: figures.{name}"
        common = {
            "experiment": self.name,
            "experiment_title": self.content["title"],
            "name": name,
            "scale": self.plan.scale,
            "kind": given["kind"],
            "title": given["title"],
            "caption": given["caption"],
        }
        if given["kind"] == "accuracy_by_round":
            known = {
                key: t for key, t in self.plan.tables.items() if key.startswith(f"{self.name}/")
            }
            table = find(known, f"{self.name}/{given['table']}", "table", f"{where}.table")
            description = {
                "columns": [column["name"] for column in table.description["columns"]],
                "rows": [row["name"] for row in table.description["rows"]],
                "cells": table.runs,
            }
            return Figure(self.name, name, tuple(table.run_ids()), (), {**common, **description})
        if given["kind"] == "lid_scores":
            setting = self._paper_setting(given["setting"], {f"{where}.with": given}, where)
            spec = self._spec(setting, given["method"], given.get("seed", 1), where)
            partition = identity(spec["noisy_partition"])
            run = self.plan.add_run(spec)
            return Figure(self.name, name, (run,), (partition,), {**common, "cells": [run]})
        partitions = []
        for p, panel in enumerate(given["panels"]):
            place = f"{where}.panels[{p}]"
            setting = self._paper_setting(given["setting"], {f"{place}.with": panel}, where)
            # A noisy partition is part of a run's spec; any method makes the run whole.
            spec = self._spec(setting, "fedavg", given.get("seed", 1), place)
            partitions.append(self.plan.add_partition(spec["noisy_partition"]))
        description = {"panels": [panel["name"] for panel in given["panels"]], "cells": partitions}
        return Figure(self.name, name, (), tuple(partitions), {**common, **description})

    def _paper_setting(
        self, name: str, parts: Mapping[str, Mapping[str, Any]], where: str
    ) -> dict[str, Any]:
        """A setting as the paper has it: the named one, with what each part lays over it.

        Args:
            name: of the setting.
            parts: by place, columns, rows or panels with their own values under ``with``.
            where: what the error messages call the table or figure.
        """
        setting = find(self.content["settings"], name, "setting", f"{where}.setting")
        for place, part in parts.items():
            setting = merge(setting, part.get("with", {}), place)
        return setting

    def _spec(
        self,
        setting: Mapping[str, Any],
        method: str | Mapping[str, Any],
        seed: int,
        where: str,
        overlay: bool = True,
    ) -> dict[str, Any]:
        """The canonical spec of a run in a paper's setting, under the scale's overlay or without.

        The setting's ``clients`` become the partition's.
        """
        given = dict(setting)
        parts = split_method(method, f"{where}.method")
        if overlay:
            stand_in = self.overlay.get("datasets", {}).get(given.get("dataset"), {})
            for over in (stand_in, self.overlay.get("setting", {})):
                given = merge(given, over, f"{self.config_name}: overlay")
            over_methods = self.overlay.get("methods", {})
            parts = [{**part, **over_methods.get(part["name"], {})} for part in parts]
        clients = given.pop("clients", None)
        if clients is not None and "partition" in given:
            kind, values = split_component(given["partition"], "partition", f"{where}: partition")
            given["partition"] = {"name": kind, "clients": clients, **values}
        given["method"] = parts[0] if len(parts) == 1 else {"parts": parts}
        return canonical_run({**given, "seed": seed}, where, self.label_folder)


def merge(base: Mapping[str, Any], over: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``base`` with the values of ``over``.

    A component given as a mapping without a name changes the options that the mapping has; given in
    any other form, it replaces the old one.
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


def _face(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a table shows of a row or a column."""
    return {"name": part["name"], "published": part.get("published", {})}


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file") from error
    except yaml.YAMLError as error:
        raise BadInput(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path}: got {type(content).__name__}, expected keys and values")
    return content


def _checked(content: dict[str, Any], schema: str, where: str) -> dict[str, Any]:
    """``content`` if it fits ``workflow/schemas/<schema>.schema.json``."""
    schemas = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.schema.json")}
    registry = Registry().with_resources(
        (name, Resource.from_contents(text)) for name, text in schemas.items()
    )
    validator = jsonschema.Draft202012Validator(schemas[f"{schema}.schema.json"], registry=registry)
    error = jsonschema.exceptions.best_match(validator.iter_errors(content))
    if error is not None:
        raise BadInput(f"{where}: {_in_words(error)}")
    return content


def _in_words(error: jsonschema.ValidationError) -> str:
    """The key, the value, and what was expected."""
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    ).lstrip(".")
    prefix = f"{place}: " if place else ""
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = error.schema.get("properties", {})
        unknown = next(key for key in error.instance if key not in known)
        hint = did_you_mean(str(unknown), known)
        return f"{prefix}unknown key {unknown!r}{hint} (known: {', '.join(known)})"
    if error.validator == "required":
        return f"{prefix}{error.message.replace('is a required property', 'is missing')}"
    if error.validator == "type":
        kinds = error.validator_value
        expected = kinds if isinstance(kinds, str) else " or ".join(kinds)
        return f"{prefix}got {error.instance!r}, expected {expected}"
    return f"{prefix}{error.message}"
