"""Runs that are small enough to be repeated often: every method on a few digits."""

from collections import defaultdict

import pytest

from noisyfl.checks.small_run import SETTING, federation_of, inputs, spec_of, train_small
from noisyfl.specs.catalogue import methods

__all__ = ["SETTING", "federation_of", "inputs", "spec_of", "train_small"]

SMALL = defaultdict(
    dict,
    {
        "centralized": {"epochs": 8},
        "cfl": {"eps1": 5.0, "eps2": 0.1, "relative": True, "warm_up_rounds": 2},
        "coteaching": {"ramp_rounds": 2},
        "coteaching_plus": {"ramp_rounds": 2, "warm_up_rounds": 2},
        "dividemix": {"ramp_rounds": 2, "warm_up_rounds": 3},
        "dynamic_bootstrapping": {"guided_rounds": 1, "hard_round": 6, "warm_up_rounds": 3},
        "fedcni": {"aggregation_round": 3, "mixup_alpha": 0.5, "pseudo_label_round": 3},
        "fedcorr": {"finetuning_rounds": 2, "preprocessing_iterations": 2, "relabel_ratio": 0.35},
        "feddiv": {"warm_up_rounds": 3},
        "fedelc": {"warm_up_rounds": 3},
        "fedfixer": {"selection_round": 2},
        "fedlsr": {"ramp_rounds": 3},
        "fedgr": {"confidence": 0.3, "sieving_rounds": 3, "teaching_round": 2},
        "fedned": {"distillation_steps": 3, "most_uncertain": 1.0, "warm_up_rounds": 2},
        "fednoil": {
            "clean_share": 0.55,
            "confidence": 0.3,
            "guesses": 3,
            "least_epochs": 2,
            "least_from": 4,
            "most_epochs": 4,
        },
        "fednoro": {"ramp_end": 6, "warm_up_rounds": 3},
        "fedrg": {"pretraining_rounds": 3, "projector_hidden": 16, "projector_output": 8},
        "fedrn": {"warm_up_rounds": 3},
        "fedsir": {
            "consensus_samples": 4,
            "identification_epochs": 2,
            "identification_samples": 4,
            "relabel_every": 2,
        },
        "jointopt": {"history": 2, "start_round": 2},
        "josrc": {"warm_up": 0.25},
        "masked_optim": {"warm_up_rounds": 3},
        "poc": {"candidates": 5},
        "rofl": {"forget_ramp_rounds": 3, "pseudo_label_round": 3},
        "selfie": {"history": 2, "warm_up_rounds": 2},
    },
)
"""Options with which all that a method does happens within eight rounds."""
FEDCORR = {"name": "fedcorr", **SMALL["fedcorr"]}
METHODS = [
    *({"name": name, **SMALL[name]} for name in methods()),
    {**FEDCORR, "variant": "paper"},
    {"name": "fedproto", "variant": "faithful"},
    {"name": "dividemix", "variant": "fedrn", **SMALL["dividemix"]},
    *(
        {"parts": [{"name": name, **SMALL[name]} for name in names]}
        for names in (("krum", "coteaching"), ("apfl", "josrc"), ("fedcorr", "feddyn"))
    ),
]
LOSSES = ("active_passive", "bootstrapping", "gce", "label_smoothing", "mae", "mixup", "sce")
"""Methods that are a loss and keep nothing."""
REMEMBERING = [row for row in METHODS if row.get("name") not in LOSSES]
"""Those that a run which goes on from a checkpoint could lose something of."""
CLIENT_SIDES = [row for row in METHODS if "parts" in row or methods()[row["name"]].is_client]
"""Those that train otherwise than FedAvg's clients do."""


def name_of(method):
    names = [part["name"] for part in method.get("parts", [method])]
    return "+".join(names) + (f"-{method['variant']}" if "variant" in method else "")


FIVE = ("fedavg", "fedcorr", "fednoil", "fedrn", "rofl")
"""The methods whose whole runs every change tests."""

VARIED = (*FIVE, "apfl", "dividemix", "fedgr", "fedrg", "krum+coteaching", "scaffold", "selfie")
"""Methods that between them use every hook, for tests that take long with each method."""


def by_name(rows, often=FIVE, sometimes=None):
    """Parameters of a test of whole runs.

    Args:
        rows: the methods.
        often: names of those that every change tests; the others are slow.
        sometimes: names of those that are slow; the others are left out unless asked for. None: all
            others are slow.
    """

    def marks(name):
        if name in often:
            return []
        late = sometimes is not None and name not in sometimes
        return [pytest.mark.storm if late else pytest.mark.slow]

    names = [name_of(row) for row in rows]
    return [
        pytest.param(row, id=name, marks=marks(name)) for row, name in zip(rows, names, strict=True)
    ]
