"""A small federation on digits under heavy symmetric noise, for what a client side is for."""

import torch

from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import prepare, read_part
from noisyfl.runs.train import build_federation, choose_device
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.rounds import simulate
from noisyfl.specs.build import build_method
from noisyfl.specs.spec import canonical_run

SETTING = {
    "dataset": "digits",
    "partition": "iid(clients=5)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.5)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 20,
        "participation": 1.0,
        "local_epochs": 2,
        "batch_size": 20,
        "learning_rate": 0.1,
        "momentum": 0.5,
    },
    "seed": 3,
}


SOME_CLIENTS = {
    **SETTING,
    "partition": "iid(clients=10)",
    "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
    "seed": 1,
}
"""Six of ten clients are noisy, with half of their labels wrong at least."""


def run_on_digits(method, folder, setting=SETTING, **schedule):
    """The federation after the run of a method, and the test accuracy of each round."""
    schedule = {**setting["schedule"], **schedule}
    spec = canonical_run({**setting, "schedule": schedule, "method": method}, "test")
    if not (folder / "train.parquet").exists():
        prepare("digits", folder, False, folder / "train.parquet", folder / "test.parquet")
    train, test = read_part(folder / "train.parquet"), read_part(folder / "test.parquet")
    path = folder / "partition.parquet"
    noisy_partition.write(path, spec["noisy_partition"], train.labels)
    server, client = build_method(spec["method"], "test")
    federation = build_federation(
        spec,
        client.networks,
        train,
        test,
        noisy_partition.read(path),
        choose_device("cpu"),
    )
    checkpoint = Checkpoint(folder / "unused.pt", {}, every=1e9)
    assert simulate(federation, server, client, checkpoint, lambda line: None) == "finished"
    return federation, [row["test_accuracy"] for row in federation.records.rounds]


def right(labels, client):
    """The share of a client's ``labels`` that are true."""
    return float((labels == client.true).to(torch.float64).mean())
