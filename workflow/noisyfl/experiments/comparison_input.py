"""Read what is to be compared from a few words, instead of from files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from noisyfl.core.options import BadInput, check_count, check_keys, find, within
from noisyfl.core.plugins import load as load_plugins
from noisyfl.core.registry import split_component, split_method
from noisyfl.core.typed import each_once
from noisyfl.data.noise.noise_level import level_of
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.compared_setting import SETTING, setting_for, with_fitting_noise
from noisyfl.experiments.comparison import (
    MethodComparison,
    comparison_of,
    count_clients,
    specs_of,
)
from noisyfl.experiments.config import experiment_files, load_config
from noisyfl.experiments.expansion import Expansion
from noisyfl.experiments.scale_file import named_scale
from noisyfl.experiments.setting import Setting, merge
from noisyfl.experiments.sweeps import (
    ComparedRow,
    compared_rows,
    in_words,
    options_of,
    split_schedule,
)
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.spec import check_part

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
            number. A list in the place of a value stands for one row of every method a value, if it
            is in the schedule, and otherwise for one setting a value.
        own: reads a user's own files.
        seeds: how many; None: as many as the table that ``like`` names, or :data:`SEEDS`.
        like: ``<experiment>/<table>:<column>``, whose setting is taken where none is given.
        scale: in which that table is; its name, or its file. None: ``quick``.
        names: what error messages call the keys, where it is something else.

    Raises:
        BadInput: what is wrong, and what was expected.
    """
    known = [*OPTIONS, *Schedule.model_fields]
    check_keys(setting, known, "", "keyword")
    names = {
        **{key: key for key in (*known, "methods", "like", "scale", "seeds")},
        **(names or {}),
    }
    if seeds is not None:
        check_count(seeds, names["seeds"], MOST_SEEDS)
    if isinstance(given, str):
        raise BadInput(f"{names['methods']}: got {given!r}, expected a list of methods")
    if scale is not None and like is None:
        raise BadInput(f"{names['scale']}: got {scale!r}, expected none without {names['like']}")
    column = None if like is None else _column_of(like, scale or "quick", own, names)
    with naming(names):
        schedule, swept = split_schedule({k: v for k, v in setting.items() if k not in OPTIONS})
        rows = [
            row for one in given or DEFAULT_METHODS for row in compared_rows(one, schedule, swept)
        ]
        with within("method"):
            each_once([row.name for row in rows])
        variants = options_of({key: setting[key] for key in OPTIONS if key in setting})
        for variant, row in itertools.product(variants, rows):
            of_row = {**variant.options, "schedule": {**schedule, **row.schedule}}
            Setting.read(of_row, check=check_part)
    base = None
    if column is not None:
        base = column.setting_for(rows[0].method)
        rows = [replace(row, method=column.filled(row.method)) for row in rows]
        seeds = seeds or column.trials
    with naming(names):
        settings = []
        for variant in variants:
            found = _setting(base, variant.options, schedule)
            if base is None and not {"participation"} & {*schedule, *swept}:
                found = merge(found, {"schedule": {"participation": _share(found, rows[0], own)}})
            settings.append((variant.swept, found))
        return comparison_of(settings, rows, seeds or SEEDS, own)


def _setting(
    given: Mapping[str, Any] | None, options: Mapping[str, Any], schedule: Mapping[str, Any]
) -> dict[str, Any]:
    """A setting with its defaults, which are those that are given or else the dataset's."""
    base = dict(given or setting_for(options.get("dataset", SETTING["dataset"])))
    if "partition" in options:
        kind, of_partition = split_component(options["partition"], "partition")
        if kind == "file" or "clients" in of_partition:  # which says how many
            base.pop("clients", None)
            if "clients" in options:
                raise BadInput(
                    f"got {options['clients']!r}, expected none, as the partition "
                    f"{in_words(options['partition'])} says how many there are",
                    "clients",
                )
    base = with_fitting_noise(base, options)
    if base["noise_level"] == "none" and options.get("noise_level", "none") != "none":
        noise = in_words(options.get("label_noise", base["label_noise"]))
        raise BadInput(
            f"got {in_words(options['noise_level'])}, expected none, since the label noise {noise} "
            "uses no level; give one that does, too, such as symmetric",
            "noise_level",
        )
    if "noise_level" in options:
        options = {**options, "noise_level": level_of(options["noise_level"])}
    return merge(base, {**options, "schedule": schedule})


def _share(setting: Mapping[str, Any], row: ComparedRow, own: OwnFiles) -> float:
    """The share of the clients in each round, where nobody says it: large enough for
    :data:`LEAST_PARTICIPANTS`.
    """
    ((first, *_),) = specs_of(setting, [row], 1, own).values()
    clients = count_clients(first)
    few = min(clients, max(2, min(LEAST_PARTICIPANTS, math.ceil(clients / 2))))
    share: float = max(setting["schedule"]["participation"], math.ceil(1e4 * few / clients) / 1e4)
    return share


@contextmanager
def naming(names: Mapping[str, str]) -> Iterator[None]:
    """Let an error name what the user has given: the flag or keyword, or the method.

    Args:
        names: what messages call ``methods`` and the keys, where it is something else.
    """
    try:
        yield
    except BadInput as error:
        key, *rest = error.path or [""]
        if key == "schedule" and rest:
            key, *rest = rest
        key = "methods" if key == "method" else str(key)
        if key:
            error.where, error.path = f"{names.get(key, key)}: ", tuple(rest)
        raise


@dataclass(frozen=True)
class TableColumn:
    """A column of a scale's table.

    Attributes:
        expansion: of the experiment, as the scale has it.
    """

    expansion: Expansion
    table: str
    column: str

    @property
    def trials(self) -> int:
        """How many trials the table has."""
        return self.expansion.trials_of(self.table)

    def setting_for(self, method: Mapping[str, Any]) -> dict[str, Any]:
        """The setting in which a method is run, with the number of clients beside the partition."""
        raw = self._run_of(method)
        raw.pop("method")
        partition, options = split_component(raw["partition"], "partition")
        if "clients" in options:
            raw = {"clients": options.pop("clients"), **raw}
        return {**raw, "partition": {"name": partition, **options} if options else partition}

    def filled(self, method: Mapping[str, Any]) -> dict[str, Any]:
        """A method with the options that the table's paper and the scale give it, where it has none
        of its own: the scale's are in proportion to its rounds, but what somebody types is meant.
        """
        of_scale, typed = (
            split_method(one, "") for one in (self._run_of(method)["method"], method)
        )
        parts = [{**part, **own} for part, own in zip(of_scale, typed, strict=True)]
        return parts[0] if len(parts) == 1 else {"parts": parts}

    def _run_of(self, method: Mapping[str, Any]) -> dict[str, Any]:
        return self.expansion.raw_run(self.table, self.column, method)


def _column_of(like: str, scale: str, own: OwnFiles, names: Mapping[str, str]) -> TableColumn:
    """The column of ``<experiment>/<table>:<column>``. The scale's plugins are loaded."""
    found = re.fullmatch(r"(\w+)/(\w+)(?::(.+))?", like)
    if found is None:
        raise BadInput(
            f"{names['like']}: got {like!r}, expected <experiment>/<table>:<column>, such as "
            "'fedcorr/table2:ρ=0.6 τ=0.5'"
        )
    name, table, column = found.groups()
    file = named_scale(scale, names["scale"])
    config = load_config([file])
    load_plugins(config.plugins)
    path = find(experiment_files(config), name, "experiment", names["like"])
    expansion = Expansion(config, own, str(file), name, path, [])
    find(expansion.experiment.tables, table, "table", names["like"])
    columns = expansion.columns_with_runs(table)
    if column is None and len(columns) == 1:
        column = columns[0]
    if column not in columns:
        got = "no column" if column is None else repr(column)
        known = ", ".join(map(repr, columns))
        raise BadInput(f"{names['like']}: got {got}, expected one of {known}")
    return TableColumn(expansion, table, column)
