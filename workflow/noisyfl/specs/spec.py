"""A run's spec: everything that decides its result, as one plain mapping, and the id made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.options import BadInput, Declaration, check_keys, did_you_mean
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation import augment
from noisyfl.data.datasets.dataset import DATASETS, dataset
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.data.roots import Roots
from noisyfl.models import MODELS, check_model
from noisyfl.simulation.schedule import SCHEDULES
from noisyfl.specs.catalogue import canonical_method, methods, parts_of, without_revisions
from noisyfl.specs.identity import canonical_json
from noisyfl.specs.identity import identity as identity

SIMULATION_REVISION = 2
"""Increased when the simulation's own arithmetic changes, which makes every run stale."""

PARTITION_KEYS = ("dataset", "partition", "label_noise", "noise_level")
KEYS = (
    *PARTITION_KEYS,
    "seed",
    "model",
    "augmentation",
    "normalization",
    "schedule",
    "method",
)
"""What a user gives for a run; the noise level may be left out if the label noise does not use one.
All keys but the method and the seed make up the run's setting."""

PROBES = ("features", "local_models", "samples")
"""What may be measured after a run's last round (:mod:`noisyfl.simulation.probes`)."""


def canonical_run(
    given: Mapping[str, Any], where: str, roots: Roots | None = None
) -> dict[str, Any]:
    """Check a run and fill in every default.

    Args:
        given: a mapping with the keys of :data:`KEYS` and, if anything is to be probed, with
            ``probes``, a list of names in :data:`PROBES`. A spec without probes lacks that key.
        where: what the error messages call it.
        roots: the data folders, where files of human labels may lie.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    check_keys(given, (*KEYS, "probes"), where)
    for key in KEYS:
        if key not in given and key != "noise_level":
            raise BadInput(f"{where}: key {key!r} is missing")
    facts = dataset(given["dataset"], f"{where}.dataset")
    partition = noisy_partition.canonical(
        {key: given[key] for key in (*PARTITION_KEYS, "seed") if key in given}, where, roots
    )
    noisy_partition.check(partition, where)
    model = MODELS.canonical(given["model"], f"{where}.model")
    check_model(model, facts.shape, f"{where}.model")
    for key, known in (
        ("augmentation", augment.AUGMENTATIONS),
        ("normalization", augment.NORMALIZATIONS),
    ):
        if given[key] not in known:
            hint = did_you_mean(str(given[key]), known)
            raise BadInput(f"{where}.{key}: got {given[key]!r}{hint} (known: {', '.join(known)})")
    if augment.AUGMENTATIONS[given["augmentation"]].client_light and facts.encoded:
        raise BadInput(
            f"{where}.augmentation: got {given['augmentation']!r}, which needs all pixels in "
            f"memory, and {facts.name} is kept encoded"
        )
    augment.statistics(given["normalization"], facts, f"{where}.normalization")
    schedule = SCHEDULES.canonical({"name": "schedule", **given["schedule"]}, where)
    measures = measures_of(schedule) | {"clients": partition["partition"]["clients"]}
    method = canonical_method(given["method"], f"{where}.method", measures)
    for part in parts_of(method):
        if methods()[part["name"]].needs_truth and not facts.true_labels:
            raise BadInput(
                f"{where}.method: got {part['name']!r}, which has to know the true labels, and "
                f"those of {facts.name} are not known"
            )
    for part in parts_of(method):
        _check_participants(part, schedule, partition["partition"]["clients"], f"{where}.method")
    probes = _probes(given.get("probes", []), f"{where}.probes")
    return {
        "noisy_partition": partition,
        "seed": given["seed"],
        "model": model,
        "augmentation": given["augmentation"],
        "normalization": given["normalization"],
        "schedule": {key: value for key, value in schedule.items() if key != "name"},
        "method": method,
        "simulation_revision": SIMULATION_REVISION,
        **({"probes": probes} if probes else {}),
    }


def _check_participants(
    method: Mapping[str, Any], schedule: Mapping[str, Any], clients: int, where: str
) -> None:
    """Raise :class:`BadInput` if a round has fewer participants than a method or option needs."""
    declaration = methods()[method["name"]]
    there = SCHEDULES.build(schedule, where).participants(clients)
    takes = {f"{where}.{method['name']}": declaration.least_participants}
    for option in declaration.options:
        if option.participants and (value := method[option.name]) is not None:
            each, more = option.participants
            place = f"{where}.{method['name']}.{option.name}: got {value}, which"
            takes[place] = each * value + more
    place, most = max(takes.items(), key=lambda each: each[1])
    if there < most:
        raise BadInput(f"{place} takes {most} participants in a round; there are {there}")


def measures_of(schedule: Mapping[str, Any]) -> dict[str, float]:
    """The measures of a run's length that the defaults of methods' options may scale with.

    These are ``rounds``; ``visits``, the number of rounds that each client takes part in on
    average; and ``local_epochs``.
    """
    return {
        "rounds": schedule["rounds"],
        "visits": schedule["rounds"] * schedule["participation"],
        "local_epochs": schedule["local_epochs"],
    }


def _probes(given: Any, where: str) -> list[str]:
    """Checked names of probes, in alphabetical order since their order makes no other run."""
    if not isinstance(given, list):
        raise BadInput(f"{where}: got {given!r}, expected a list of names")
    for name in given:
        if name not in PROBES:
            hint = did_you_mean(str(name), PROBES)
            raise BadInput(f"{where}: got {name!r}{hint} (known: {', '.join(PROBES)})")
    if len(set(given)) < len(given):
        raise BadInput(f"{where}: got {given!r}, expected each name once")
    return sorted(given)


def describe_run(spec: Mapping[str, Any]) -> str:
    """A run in words: its method, dataset, partition, noise and seed."""
    given = spec["noisy_partition"]
    method = "+".join(in_words(part, methods()) for part in parts_of(spec["method"]))
    partition = in_words(given["partition"], PARTITIONS.declarations())
    words = f"{method} on {given['dataset']}, {partition}"
    if not DATASETS[given["dataset"]].true_labels:
        return f"{words}, label noise as it comes, seed {spec['seed']}"
    if given["label_noise"]["name"] == "none":
        return f"{words}, no label noise, seed {spec['seed']}"
    noise = in_words(given["label_noise"], LABEL_NOISES.declarations())
    level = in_words(given["noise_level"], NOISE_LEVELS.declarations())
    at = "" if level == "none" else f" at {level}"
    return f"{words}, {noise} label noise{at}, seed {spec['seed']}"


def in_words(component: Mapping[str, Any], declared: Mapping[str, Declaration]) -> str:
    """``name(option=value, ...)`` with the options that have no default or differ from it.

    Of a component that nobody declares any more, such as a method whose file is gone, all options.
    """
    one = declared.get(component["name"])
    options = {option.name: option for option in one.options} if one else {}

    def counts(key: str, value: Any) -> bool:
        if one is None:
            return key not in ("name", "revision")
        return key in options and (options[key].required or value != options[key].default)

    changed = [f"{key}={value}" for key, value in component.items() if counts(key, value)]
    return component["name"] + (f"({', '.join(changed)})" if changed else "")


def check_run(spec: Any, where: str) -> None:
    """Raise :class:`BadInput` unless ``spec`` is exactly what :func:`canonical_run` would return.

    A spec of another revision is refused, since it names a run that the present code cannot make.
    """
    try:
        partition = spec["noisy_partition"]
        given = {key: partition[key] for key in PARTITION_KEYS}
        given |= {key: spec[key] for key in KEYS if key not in given}
        given |= {key: spec[key] for key in ("probes",) if key in spec}
        given["method"] = without_revisions(spec["method"])
        canonical = canonical_run(given, where)
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BadInput(f"{where}: not a run's spec ({error!r})") from error
    # Compared as texts, from which the id is made: as values, 4.0 would equal 4.
    if canonical_json(canonical) != canonical_json(spec):
        surplus = [key for key in spec if key not in canonical]
        if surplus:
            raise BadInput(
                f"{where}: not a canonical spec of this version, which would not have "
                f"{', '.join(surplus)}"
            )
        differing = [
            key
            for key in canonical
            if canonical_json({key: canonical[key]}) != canonical_json({key: spec.get(key)})
        ]
        raise BadInput(
            f"{where}: not a canonical spec of this version; {', '.join(differing)} would now be "
            f"{', '.join(canonical_json(canonical[key]) for key in differing)}"
        )
