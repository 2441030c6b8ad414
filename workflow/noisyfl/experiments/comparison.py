"""Compare methods in one setting that is given in a few words instead of in files.

The runs are ordinary ones: a scale and an experiment that
:func:`noisyfl.experiments.comparison_files.write_scale` writes expand to the same specs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from noisyfl.core.options import BadInput, check_count, check_keys, find, within
from noisyfl.core.plugins import load as load_plugins
from noisyfl.core.registry import parts_of, split_component, split_method
from noisyfl.core.typed import each_once, is_list
from noisyfl.data.datasets.dataset import DATASETS, dataset
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.validation import ENDING
from noisyfl.data.noise.noise_level import level_of
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.remarks import remarks_on
from noisyfl.experiments.compared_setting import (
    FOR_ADAM,
    SETTING,
    setting_for,
    with_fitting_noise,
)
from noisyfl.experiments.config import Overlay, experiment_files, load_config
from noisyfl.experiments.expansion import Expansion
from noisyfl.experiments.run_specs import RunSpecs
from noisyfl.experiments.scale_file import named_scale
from noisyfl.experiments.setting import Setting, merge
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import edited_methods, methods
from noisyfl.specs.extent import remarks_of, work_of
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import check_part
from noisyfl.specs.words import component

LEAST_PARTICIPANTS = 4
"""Clients of a round, or half of all if that is fewer, where nobody says how many: with one client
there is nothing to aggregate, and an audit needs models of rounds in which a client did not take
part."""

DEFAULT_METHODS = ("fedavg", "rofl", "fedcni", "fednoil", "fedcorr", "fedrn")
"""What is compared if nobody says what."""

SEEDS = 3

OPTIONS = tuple(key for key in Setting.model_fields if key != "schedule")
"""The keys of a setting that may be given; the options of the schedule are given beside them."""

MOST_SEEDS = 1000


@dataclass(frozen=True)
class ComparedRow:
    """A method of the comparison.

    Attributes:
        name: the method in words; different from that of the other rows.
        method: as an experiment's file has it.
        schedule: options of the schedule that are not the same for all rows, or not the default.
        sweep: the method as the user wrote it, if the row has one of several values of an option.
        swept: these values, by ``<method>.<option>`` or ``schedule.<option>``.
        note: what else the table says of it.
    """

    name: str
    method: dict[str, Any]
    schedule: dict[str, Any] = field(default_factory=dict)
    sweep: str = ""
    swept: dict[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class MethodComparison:
    """Methods in one setting.

    Attributes:
        setting: of all runs, as an experiment's file has it.
        specs: of each row, by its name, the canonical specs of its runs, one a seed.
        own: reads a user's own files.
    """

    setting: dict[str, Any]
    rows: list[ComparedRow]
    specs: dict[str, list[dict[str, Any]]]
    own: OwnFiles

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """The spec of every run, by id."""
        return {identity(spec): spec for specs in self.specs.values() for spec in specs}

    @property
    def clients(self) -> int:
        """How many clients there are."""
        spec = next(iter(self.specs.values()))[0]
        count: int = spec["noisy_partition"]["partition"]["clients"]
        return count

    @property
    def seeds(self) -> int:
        """How many seeds each row has."""
        return len(next(iter(self.specs.values())))

    def remarks(self) -> list[str]:
        """What a user should know of the runs and their data, each once."""
        found = [remark for spec in self.runs.values() for remark in remarks_of(spec)]
        for spec in self.runs.values():
            partition = spec["noisy_partition"]
            found += [*self.own.remarks_on(partition), *remarks_on(partition)]
            schedule = Schedule(**spec["schedule"])
            if schedule.participants(self.clients) == 1 < self.clients:
                found.append(
                    f"1 of {self.clients} clients takes part in a round (participation "
                    f"{schedule.participation:g}), so that the server has nothing to aggregate"
                )
        used = {part["name"] for spec in self.runs.values() for part in parts_of(spec["method"])}
        return list(dict.fromkeys([*found, *self.own.doubts, *edited_methods(used)]))

    def describe(self) -> str:
        """The setting in one line, with every default."""
        given = {**self.setting, **self.setting["schedule"], "seeds": self.seeds}
        given.pop("schedule")
        for key in dict.fromkeys(key for row in self.rows for key in row.schedule):
            values = dict.fromkeys(row.schedule.get(key, given.get(key)) for row in self.rows)
            given[key] = " or ".join(map(str, values))
        return ", ".join(f"{key} {in_words(value)}" for key, value in given.items())

    @property
    def column(self) -> str:
        """The data and the noise in a few words."""
        spec = next(iter(self.runs.values()))
        given = [self.setting[key] for key in ("partition", "label_noise", "noise_level")]
        words = [in_words(one) for one in given if one != "none"]
        return ", ".join([dataset(spec["noisy_partition"]["dataset"]).title, *words])

    def on_validation(self) -> MethodComparison:
        """The rows that are values of an option, on the validation part of the dataset.

        Raises:
            BadInput: there is no such row, or the dataset has no validation part.
        """
        rows = [row for row in self.rows if row.sweep]
        if not rows:
            raise BadInput("no method has several values of an option to choose from")
        name, options = split_component(self.setting["dataset"], "dataset")
        chosen: str | dict[str, Any] = f"{name}{ENDING}"
        if name in KINDS:
            if options.get("validation"):
                raise BadInput(f"{in_words(self.setting['dataset'])} is a validation part already")
            chosen = {"name": name, **options, "validation": True}
        elif chosen not in DATASETS:
            own = ", ".join(f"{kind}(...)" for kind in KINDS)
            known = ", ".join(one.removesuffix(ENDING) for one in DATASETS if one.endswith(ENDING))
            raise BadInput(f"{name} has no validation part (known: {known}, {own})")
        setting = {**self.setting, "dataset": chosen}
        return _comparison(setting, rows, self.seeds, self.own)

    def choose(self, worth: Mapping[str, float]) -> MethodComparison:
        """The comparison with one value for each option that has several.

        Args:
            worth: by row, what its value is worth; the largest is chosen, of equal ones the first.
        """
        best: dict[str, str] = {}
        for row in self.rows:
            if row.sweep and (row.sweep not in best or worth[row.name] > worth[best[row.sweep]]):
                best[row.sweep] = row.name
        counts = {sweep: sum(row.sweep == sweep for row in self.rows) for sweep in best}
        rows = [
            replace(row, note=f"chosen from {counts[row.sweep]}") if row.sweep else row
            for row in self.rows
            if not row.sweep or best[row.sweep] == row.name
        ]
        return replace(self, rows=rows, specs={row.name: self.specs[row.name] for row in rows})


def read_comparison(
    given: Sequence[str | Mapping[str, Any]],
    setting: Mapping[str, Any],
    own: OwnFiles,
    seeds: int | None = None,
    like: str | None = None,
    scale: str | None = None,
    names: Mapping[str, str] | None = None,
) -> MethodComparison:
    """What is to be compared, checked.

    Args:
        given: methods; a list as the value of an option stands for one row a value. Empty:
            :data:`DEFAULT_METHODS`.
        setting: keys of :data:`OPTIONS` and options of the schedule. A ``noise_level`` may be a
            number. A list as the value of an option of the schedule stands for one row a value, of
            every method.
        own: reads a user's own files.
        seeds: how many; None: as many as the table that ``like`` names, or :data:`SEEDS`.
        like: ``<experiment>/<table>:<column>``, whose setting is taken where none is given.
        scale: in which that table is; its name, or its file. None: ``quick``.
        names: what error messages call the keys, where it is something else.

    Raises:
        BadInput: what is wrong, and what was expected.
    """
    names = names or {}

    def called(key: str) -> str:
        return names.get(key, key)

    known = [*OPTIONS, *Schedule.model_fields]
    check_keys(setting, known, "", "keyword")
    if seeds is not None:
        check_count(seeds, called("seeds"), MOST_SEEDS)
    if isinstance(given, str):
        raise BadInput(f"{called('methods')}: got {given!r}, expected a list of methods")
    if scale is not None and like is None:
        raise BadInput(f"{called('scale')}: got {scale!r}, expected none without {called('like')}")
    schedule, swept = _schedule(setting, called)
    rows = [row for one in given or DEFAULT_METHODS for row in _sweep(one, schedule, swept)]
    with within(where=f"{called('methods')}: "):
        each_once([row.name for row in rows])
    options = {key: value for key, value in setting.items() if key in OPTIONS}
    if "noise_level" in options:
        options["noise_level"] = level_of(options["noise_level"])
    with _naming(called):
        for row in rows:
            Setting.read({**options, "schedule": {**schedule, **row.schedule}}, check=check_part)
    if like is None:
        base = setting_for(options.get("dataset", SETTING["dataset"]))
    else:
        base, rows, trials = _like(like, scale or "quick", rows, own, called)
        seeds = seeds or trials
    if "partition" in options:
        kind, of_partition = split_component(options["partition"], "partition")
        if kind == "file" or "clients" in of_partition:  # which says how many
            base.pop("clients", None)
            if "clients" in options:
                raise BadInput(
                    f"{called('clients')}: got {options['clients']!r}, expected none, as the "
                    f"partition {in_words(options['partition'])} says how many there are"
                )
    base = with_fitting_noise(base, options)
    if base["noise_level"] == "none" and options.get("noise_level", "none") != "none":
        noise = in_words(options.get("label_noise", base["label_noise"]))
        raise BadInput(
            f"{called('noise_level')}: got {setting['noise_level']!r}, expected none, since the "
            f"label noise {noise} uses no level; give one that does, too, such as symmetric"
        )
    setting = merge(base, {**options, "schedule": schedule})
    with _naming(called):
        if like is None and "participation" not in schedule and "participation" not in swept:
            clients = _comparison(setting, rows[:1], 1, own).clients
            few = min(clients, max(2, min(LEAST_PARTICIPANTS, math.ceil(clients / 2))))
            share = max(setting["schedule"]["participation"], math.ceil(1e4 * few / clients) / 1e4)
            setting = merge(setting, {"schedule": {"participation": share}})
        return _comparison(setting, rows, seeds or SEEDS, own)


def _comparison(
    setting: Mapping[str, Any], rows: Sequence[ComparedRow], seeds: int, own: OwnFiles
) -> MethodComparison:
    specs = RunSpecs(Overlay.read({}), own, "", "compare", {})
    numbers = range(1, seeds + 1)
    found = {
        row.name: specs.of(
            "compare/methods",
            merge(setting, {"schedule": row.schedule}),
            row.method,
            numbers,
            row.name,
        )
        for row in rows
    }
    names: dict[str, str] = {}
    for name, (first, *_) in found.items():
        work_of(first)  # which checks the model's module, as planning does
        if (other := names.setdefault(identity(first), name)) != name:
            raise BadInput(f"{other} and {name} are the same run", "method")
    return MethodComparison(dict(setting), list(rows), found, own)


@contextmanager
def _naming(called: Any) -> Iterator[None]:
    """Let an error name what the user has given: the flag or keyword, or the method."""
    try:
        yield
    except BadInput as error:
        if error.path and error.path[0] != "method":
            key, *rest = error.path
            if key == "schedule" and rest:
                key, *rest = rest
            error.where, error.path = f"{called(str(key))}: ", tuple(rest)
        elif error.path:
            error.where, error.path = f"{called('methods')}: ", error.path[1:]
        raise


def _schedule(
    setting: Mapping[str, Any], called: Any
) -> tuple[dict[str, Any], Mapping[str, Sequence[Any]]]:
    """The options of the schedule that have one value, and those that have several."""
    schedule = {key: value for key, value in setting.items() if key not in OPTIONS}
    swept = {key: value for key, value in schedule.items() if isinstance(value, list | tuple)}
    for key, values in swept.items():
        schedule.pop(key)
        if not values:
            raise BadInput(f"{called(key)}: got [], expected at least one value")
    return schedule, swept


def _sweep(
    raw: str | Mapping[str, Any], schedule: Mapping[str, Any], swept: Mapping[str, Sequence[Any]]
) -> list[ComparedRow]:
    """The rows of a method: one, or one for each value of an option, of the method or of the
    schedule, that is given as a list.
    """
    text = raw if isinstance(raw, str) else in_words(raw)
    parts = split_method(raw, text)
    several: dict[tuple[int, str], list[Any]] = {}
    for place, part in enumerate(parts):
        fields = find(methods(), part["name"], "method").model_fields
        for option, value in part.items():
            if isinstance(value, list) and option in fields and not is_list(fields[option]):
                if not value:
                    raise BadInput(f"{text}: {option}: got [], expected at least one value")
                several[place, option] = value
    rows = []
    for values in itertools.product(*several.values(), *swept.values()):
        chosen = [dict(part) for part in parts]
        of_row = {}
        for (place, option), value in zip(several, values, strict=False):
            chosen[place][option] = value
            of_row[f"{chosen[place]['name']}.{option}"] = value
        own = dict(zip(swept, values[len(several) :], strict=True))
        of_row |= {f"schedule.{option}": value for option, value in own.items()}
        name = ", ".join(
            ["+".join(map(in_words, chosen)), *(f"{key}={value}" for key, value in own.items())]
        )
        if {**schedule, **own}.get("optimizer", "sgd") != "sgd":
            own = {**{key: FOR_ADAM[key] for key in FOR_ADAM if key not in schedule}, **own}
        method = chosen[0] if len(chosen) == 1 else {"parts": chosen}
        rows.append(ComparedRow(name, method, own, text if of_row else "", of_row))
    return rows


def in_words(raw: Any) -> str:
    """A component or a method as a user would write it."""
    if not isinstance(raw, Mapping):
        return str(raw)
    if "parts" in raw:
        return "+".join(map(in_words, raw["parts"]))
    return str(component(raw))


def _like(
    like: str, scale: str, rows: Sequence[ComparedRow], own: OwnFiles, called: Any
) -> tuple[dict[str, Any], list[ComparedRow], int]:
    """The setting of a table's column, the rows with the options that its paper and the scale give
    their methods, and how many seeds the table has. The scale's plugins are loaded.
    """
    found = re.fullmatch(r"(\w+)/(\w+)(?::(.+))?", like)
    if found is None:
        raise BadInput(
            f"{called('like')}: got {like!r}, expected <experiment>/<table>:<column>, such as "
            "'fedcorr/table2:ρ=0.6 τ=0.5'"
        )
    name, table, column = found.groups()
    file = named_scale(scale, called("scale"))
    config = load_config([file])
    load_plugins(config.plugins)
    path = find(experiment_files(config), name, "experiment", called("like"))
    expansion = Expansion(config, own, str(file), name, path, [])
    find(expansion.experiment.tables, table, "table", called("like"))
    columns = expansion.columns_with_runs(table)
    if column is None and len(columns) == 1:
        column = columns[0]
    if column not in columns:
        got = "no column" if column is None else repr(column)
        known = ", ".join(map(repr, columns))
        raise BadInput(f"{called('like')}: got {got}, expected one of {known}")
    filled = []
    for row in rows:
        raw = expansion.raw_run(table, column, row.method)
        of_scale, typed = (split_method(one, "") for one in (raw.pop("method"), row.method))
        # The scale's options are in proportion to its rounds, but what somebody types is meant.
        parts = [{**part, **own} for part, own in zip(of_scale, typed, strict=True)]
        filled.append(replace(row, method=parts[0] if len(parts) == 1 else {"parts": parts}))
    partition, options = split_component(raw["partition"], "partition")
    if "clients" in options:
        raw = {"clients": options.pop("clients"), **raw}
    setting = {**raw, "partition": {"name": partition, **options} if options else partition}
    return setting, filled, expansion.trials_of(table)
