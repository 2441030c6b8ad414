"""Read what is to be compared from a few words, instead of from files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
    clients_of,
    comparison_of,
    specs_of,
)
from noisyfl.experiments.config import experiment_files, load_config
from noisyfl.experiments.expansion import Expansion
from noisyfl.experiments.scale_file import named_scale
from noisyfl.experiments.setting import Setting, merge
from noisyfl.experiments.sweeps import ComparedRow, in_words, options_of, rows_of, split_schedule
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

Called = Callable[[str], str]
"""What error messages call a key."""


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
    with _naming(called):
        schedule, swept = split_schedule({k: v for k, v in setting.items() if k not in OPTIONS})
        rows = [row for one in given or DEFAULT_METHODS for row in rows_of(one, schedule, swept)]
        variants = options_of({key: setting[key] for key in OPTIONS if key in setting})
    with within(where=f"{called('methods')}: "):
        each_once([row.name for row in rows])
    base: Mapping[str, Any] | None = None
    if like is not None:
        base, rows, trials = _like(like, scale or "quick", rows, own, called)
        seeds = seeds or trials
    settings = []
    for variant in variants:
        with _naming(called):
            for row in rows:
                of_row = {**variant.options, "schedule": {**schedule, **row.schedule}}
                Setting.read(of_row, check=check_part)
        found = _setting(base, variant.options, schedule, called)
        if like is None and "participation" not in schedule and "participation" not in swept:
            with _naming(called):
                ((first, *_),) = specs_of(found, rows[:1], 1, own).values()
            clients = clients_of(first)
            few = min(clients, max(2, min(LEAST_PARTICIPANTS, math.ceil(clients / 2))))
            share = max(found["schedule"]["participation"], math.ceil(1e4 * few / clients) / 1e4)
            found = merge(found, {"schedule": {"participation": share}})
        settings.append((variant.swept, found))
    with _naming(called):
        return comparison_of(settings, rows, seeds or SEEDS, own)


def _setting(
    given: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    schedule: Mapping[str, Any],
    called: Called,
) -> dict[str, Any]:
    """A setting with its defaults, which are those that are given or else the dataset's."""
    base = dict(given or setting_for(options.get("dataset", SETTING["dataset"])))
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
            f"{called('noise_level')}: got {in_words(options['noise_level'])}, expected none, "
            f"since the label noise {noise} uses no level; give one that does, too, such as "
            "symmetric"
        )
    if "noise_level" in options:
        options = {**options, "noise_level": level_of(options["noise_level"])}
    return merge(base, {**options, "schedule": schedule})


@contextmanager
def _naming(called: Called) -> Iterator[None]:
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


def _like(
    like: str, scale: str, rows: Sequence[ComparedRow], own: OwnFiles, called: Called
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
