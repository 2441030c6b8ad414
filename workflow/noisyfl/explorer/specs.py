"""Settings and options of runs in words; the page marks what differs from the paper's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from noisyfl.core.registry import parts_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.specs.catalogue import methods
from noisyfl.specs.identity import canonical_json, identity, with_seed
from noisyfl.specs.spec import measures_of
from noisyfl.specs.words import describe_noise, describe_setting, in_short

Spec = Mapping[str, Any]


class Specs:
    """Collects specs regardless of their seeds, each once, and numbers them.

    Attributes:
        descriptions: the description of each spec, in the order of their numbers.
    """

    def __init__(self) -> None:
        self.descriptions: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def number(self, spec: Spec) -> int:
        """The number of a canonical spec, which specs that differ only in their seeds share."""
        key = identity(with_seed(spec, 0))
        if key not in self._numbers:
            self._numbers[key] = len(self.descriptions)
            self.descriptions.append(describe_spec(spec))
        return self._numbers[key]


def describe_spec(spec: Spec) -> dict[str, Any]:
    """Describe a spec: its setting, and the options of its method's parts, in the order of those
    that a run's file has, so that equal specs are described alike.
    """
    spec = json.loads(canonical_json(spec))
    given = spec["noisy_partition"]
    return {
        "setting": {name: str(words) for name, words in describe_setting(spec).items()},
        "methods": [_method(part, spec) for part in parts_of(spec["method"])],
        "dataset": dataset(given["dataset"]).title,
        "partition": given["partition"]["name"],
        "noise": given["label_noise"]["name"],
        "words": {
            "partition": in_short(given["partition"], PARTITIONS.classes),
            "noise": describe_noise(given),
        },
    }


def _method(part: Spec, spec: Spec) -> dict[str, Any]:
    method = methods()[part["name"]]
    defaults = dict.fromkeys(method.model_fields) | method.defaults(measures_of(spec["schedule"]))
    return {
        "name": part["name"],
        "revision": part["revision"],
        "options": {name: part[name] for name in defaults},
        "defaults": {name: value for name, value in defaults.items() if value != part[name]},
    }
