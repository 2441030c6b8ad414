"""Runs in words, with their methods: for messages, trackers and the explorer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noisyfl.core.registry import Component, parts_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods
from noisyfl.specs.spec import REGISTRIES, measures_of
from noisyfl.specs.words import Spec, describe_noise, in_short


def describe_run(spec: Spec) -> str:
    """A run in words: its method, dataset, partition, noise and seed."""
    return f"{describe_trials(spec)}, seed {spec['seed']}"


def describe_trials(spec: Spec) -> str:
    """A run in words without its seed, as :func:`describe_run` has it."""
    given = spec["noisy_partition"]
    method = "+".join(in_short(part, methods()) for part in parts_of(spec["method"]))
    facts = dataset(given["dataset"])
    words = f"{method} on {facts.title}, {in_short(given['partition'], PARTITIONS.classes)}"
    if not facts.true_labels:
        return f"{words}, label noise as it comes"
    if given["label_noise"]["name"] == "none":
        return f"{words}, no label noise"
    return f"{words}, {describe_noise(given, ' label noise')}"


def changed_options(spec: Spec) -> dict[str, list[str]]:
    """The options of a canonical spec that have a default and differ from it, by what they are of:
    a component of the setting, the schedule, a method.

    Where a default scales with the length of a run, it is that of this run.
    """
    given = {**spec["noisy_partition"], "model": spec["model"]}
    found = {
        key: list(_changed(given[key], registry.get(given[key]["name"])))
        for key, registry in REGISTRIES.items()
        if given.get(key)
    }
    found["schedule"] = list(_changed(spec["schedule"], Schedule))
    measures = measures_of(spec["schedule"])
    for part in parts_of(spec["method"]):
        found[part["name"]] = list(_changed(part, methods()[part["name"]], measures))
    return {key: names for key, names in found.items() if names}


def _changed(
    raw: Spec, declared: type[Component], measures: Mapping[str, float] | None = None
) -> Iterator[str]:
    for name, default in declared.defaults(measures).items():
        if raw.get(name, default) != default:
            yield name
