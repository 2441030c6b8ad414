"""The setting of a comparison, as far as nobody gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.places import ROOT
from noisyfl.core.registry import split_component
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.own_vectors import RequestedVectors
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.experiments.setting import merge

SETTING: dict[str, Any] = {
    "dataset": "digits",
    "clients": 20,
    "partition": "dirichlet(alpha=0.5)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.4)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 20,
        "participation": 0.25,
        "local_epochs": 5,
        "batch_size": 20,
        "learning_rate": 0.05,
        "momentum": 0.5,
    },
}
"""The setting, where nothing else is given. The `desk` scale's values for a dataset, which its real
images need, override these."""

SIMILAR = {"cifar100": "cifar10", "svhn": "cifar10"}
"""Datasets that the `desk` scale has no values for, and the one whose values they take."""


FOR_ADAM = {"momentum": 0.0, "learning_rate": 0.001}
"""Of a schedule with Adam or AdamW, where nothing else is given."""


def setting_for(raw: Any) -> dict[str, Any]:
    """The setting for a dataset, if nothing else is given; a user's own labels are as they are."""
    name, options = split_component(raw, "dataset")
    if name in KINDS:
        model = "mlp" if name == RequestedVectors.name else SETTING["model"]
        noise = "file" if options.get("given") else "none"
        return {**SETTING, "model": model, "label_noise": noise, "noise_level": "none"}
    task = dataset(name).with_classes
    desk = read_yaml(ROOT / "config" / "desk.yaml")["overlay"]["datasets"]
    return merge(SETTING, desk.get(SIMILAR.get(task, task), {}))


def with_fitting_noise(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A base whose noise fits what is given: no level for a label noise that uses none, one for a
    label noise that is given and uses one, and no label noise for a dataset whose labels are noisy
    as they come.
    """
    found = dict(base)
    name, options = split_component(given.get("dataset", base["dataset"]), "dataset")
    known = options.get("true_labels", True) if name in KINDS else dataset(name).true_labels
    if not known:
        found["label_noise"] = "none"
    noise, _ = split_component(given.get("label_noise", found["label_noise"]), "label noise")
    if not LABEL_NOISES.get(noise).uses_level:
        found["noise_level"] = "none"
    elif (
        "label_noise" in given and split_component(found["noise_level"], "noise level")[0] == "none"
    ):
        found["noise_level"] = SETTING["noise_level"]
    return found
