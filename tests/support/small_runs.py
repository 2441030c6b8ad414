"""Runs that are small enough to be repeated often: every method on a few digits."""

from collections import defaultdict

import pytest
import torch

from noisyfl.core.artifacts import Results
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.runs.train import Inputs, TrainingOptions, build_federation, train_run
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import methods
from noisyfl.specs.spec import canonical_run, identity

SETTING = {
    "dataset": "digits",
    "partition": "dirichlet(alpha=5, clients=6, samples=600)",
    "label_noise": "symmetric",
    "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
    "model": "cnn",
    "augmentation": "crop",
    "normalization": "dataset",
    "schedule": {
        "rounds": 8,
        "participation": 0.5,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.05,
        "momentum": 0.5,
        "weight_decay": 0.0001,
    },
    "seed": 3,
}
SMALL = defaultdict(
    dict,
    {
        "centralized": {"epochs": 8},
        "cfl": {"eps1": 5.0, "eps2": 0.1, "relative": True, "warm_up_rounds": 2},
        "coteaching": {"ramp_rounds": 2},
        "coteaching_plus": {"ramp_rounds": 2, "warm_up_rounds": 2},
        "dividemix": {"ramp_rounds": 2, "warm_up_rounds": 3},
        "fedcni": {"aggregation_round": 3, "pseudo_label_round": 3},
        "fedcorr": {"finetuning_rounds": 2, "preprocessing_iterations": 2},
        "feddiv": {"warm_up_rounds": 3},
        "fedelc": {"warm_up_rounds": 3},
        "fedfixer": {"selection_round": 2},
        "fedlsr": {"ramp_rounds": 3},
        "fednoil": {
            "clean_share": 0.55,
            "confidence": 0.3,
            "least_epochs": 2,
            "least_from": 4,
            "most_epochs": 4,
        },
        "fednoro": {"ramp_end": 6, "warm_up_rounds": 3},
        "fedrn": {"warm_up_rounds": 3},
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
LOSSES = ("bootstrapping", "gce", "label_smoothing", "mae", "mixup", "sce")
"""Methods that are a loss and keep nothing."""
REMEMBERING = [row for row in METHODS if row.get("name") not in LOSSES]
"""Those that a run which goes on from a checkpoint could lose something of."""
CLIENT_SIDES = [row for row in METHODS if "parts" in row or methods()[row["name"]].is_client]
"""Those that train otherwise than FedAvg's clients do."""


def name_of(method):
    names = [part["name"] for part in method.get("parts", [method])]
    return "+".join(names) + (f"-{method['variant']}" if "variant" in method else "")


def by_name(rows, often):
    """Parameters of a test of whole runs: slow, but for those of these names."""
    names = [name_of(row) for row in rows]
    assert set(often) <= set(names)
    return [
        pytest.param(row, id=name, marks=[] if name in often else pytest.mark.slow)
        for row, name in zip(rows, names, strict=True)
    ]


def spec_of(method, **changes):
    return canonical_run({**SETTING, "method": method, **changes}, "test")


def federation_of(spec, data, folder, executor="fast", device="cpu", **options):
    """The federation of a run before its first round, and the method's two sides.

    Args:
        spec: canonical.
        data: a folder with the digits' ``train.parquet`` and ``test.parquet``.
        folder: where the partition goes.
        executor: its name.
        device: where.
        options: of the executor.
    """
    train, test = read_part(data / "train.parquet"), read_part(data / "test.parquet")
    path = folder / "partition.parquet"
    noisy_partition.write(path, spec["noisy_partition"], train.labels)
    partition = noisy_partition.read(path)
    server, client = build_method(spec["method"], "test")
    federation = build_federation(
        spec, client.networks, train, test, partition, torch.device(device), executor, **options
    )
    return federation, server, client


def inputs(spec, data):
    """The files that a run is made from: of results that hold the digits."""
    partition = data.partition(identity(spec["noisy_partition"]))
    if not partition.exists():
        labels = read_part(data.data("digits", "train")).labels
        noisy_partition.write(partition, spec["noisy_partition"], labels)
    return data.data("digits", "train"), data.data("digits", "test"), partition


def train(spec, data, root, log=None, **options):
    """The files of a run, once it is trained on a CPU."""
    files = Results(root).run(identity(spec))
    lines = [] if log is None else log
    train_run(
        spec,
        Inputs(*inputs(spec, data)),
        files,
        root / "run.pt",
        TrainingOptions(device="cpu", **options),
        log=lines.append,
    )
    return files
