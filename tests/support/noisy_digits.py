"""A small federation on digits under heavy symmetric noise, for what a client side is for."""

import atexit
import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from noisyfl.checks.small_run import federation_of, prepare_digits
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.rounds import simulate
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


def finished(spec, data, folder, *given, change=lambda federation: None):
    """The federation after a run, and the sides of its method.

    Args:
        given: to :func:`federation_of`.
        change: what is done to the federation before the run.
    """
    federation, server, client = federation_of(spec, data, folder, *given)
    change(federation)
    checkpoint = Checkpoint(folder / "unused.pt", {}, every=math.inf)
    assert simulate(federation, server, client, checkpoint, lambda line: None) == "finished"
    return federation, server, client


@cache
def digits():
    """Results that hold the digits, as long as this process runs."""
    folder = TemporaryDirectory(prefix="digits-")
    atexit.register(folder.cleanup)
    return prepare_digits(Path(folder.name))


def run_on_digits(method, folder, setting=SETTING, **schedule):
    """The federation after the run of a method, and the test accuracy of each round."""
    schedule = {**setting["schedule"], **schedule}
    spec = canonical_run({**setting, "schedule": schedule, "method": method}, "test")
    federation, *_ = finished(spec, digits(), folder)
    return federation, [row["test_accuracy"] for row in federation.records.rounds]


def right(labels, client):
    """The share of a client's ``labels`` that are true."""
    return float((labels == client.true).to(torch.float64).mean())
