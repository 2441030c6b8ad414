"""Executors over a few random images."""

import numpy as np
import torch

from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets.dataset import Dataset
from noisyfl.models import build_model
from noisyfl.simulation.clients import Client
from noisyfl.simulation.model import Networks
from noisyfl.simulation.outputs import Images
from noisyfl.simulation.schedule import Schedule

SEED = 5
SIZES = (21, 12, 7, 16, 13)
"""Of the clients: none a multiple of another, one below a batch, one with a last single sample."""


def schedule(**changes):
    return Schedule(
        **{
            "rounds": 2,
            "participation": 1.0,
            "local_epochs": 2,
            "batch_size": 6,
            "learning_rate": 0.05,
            "momentum": 0.5,
            "weight_decay": 1e-3,
            "pass_batch_size": 10,
            "test_batch_size": 8,
            **changes,
        }
    )


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def made(
    device,
    executor,
    model="cnn",
    side=20,
    channels=3,
    networks=1,
    plan=None,
    sizes=SIZES,
    **options,
):
    """An executor over random images, its clients, and the model that they start from."""
    rng = np.random.default_rng(0)
    shape = (side, side, channels)
    train, test = (
        Images(rng.integers(0, 256, (n, *shape), dtype=np.uint8), rng.integers(0, 4, n), device)
        for n in (sum(SIZES), 20)
    )
    facts = Dataset("random", shape, tuple("abcd"), sum(SIZES), 20, (0.5,), (0.25,), None)
    nets = Networks(build_model(model, shape, 4, SEED, number) for number in range(networks))
    nets.to(device)
    rows = torch.from_numpy(rng.permutation(sum(SIZES))).to(device).split(SIZES)
    clients = [
        Client(number, part, train.labels[part], train.labels[part])
        for number, part in enumerate(rows)
    ]
    start = {name: value.clone() for name, value in nets.state_dict().items()}
    view = View(facts, "crop_flip", "dataset", device)
    runner = executor(nets, train, test, view, plan or schedule(), SEED, device, **options)
    return runner, clients, start


def close(one, other, tolerance):
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=tolerance, atol=tolerance)


def counts(update):
    return update.client.id, update.size, update.steps, update.forward, update.backward
