"""What must hold on a GPU that is not there, beside what :mod:`noisyfl.checks` holds methods to."""

import torch
from torch import nn

from noisyfl.checks import selftest
from noisyfl.checks.fake_gpu import DEVICE, FakeGpu
from noisyfl.checks.fast import PARTITION, SCHEDULE, compare_with_loop, rounds_of
from noisyfl.data.augmentation import augment
from noisyfl.methods.estimators import mixture
from noisyfl.models.cnn import Cnn
from small_runs import spec_of
from streams import Streams

GPUS = ["fake", *(["real"] if torch.cuda.is_available() else [])]


def fit_briefly(monkeypatch, most):
    """A GPU fits a mixture in all of its up to 100 iterations, which are the same operations."""
    monkeypatch.setattr(mixture, "range", lambda given: range(min(given, most)), raising=False)


def check_method(method, data, folder, monkeypatch):
    """See :func:`compare_with_loop`."""
    compare_with_loop(method, data, folder)


def check_normalized(method, data, folder, monkeypatch):
    """The same of a network with batch normalisation, its running statistics included."""
    build = Cnn.build

    def normalized(self, shape, classes):
        network = build(self, shape, classes)
        network.body.insert(1, nn.BatchNorm2d(16))
        return network

    monkeypatch.setattr(Cnn, "build", normalized)
    compare_with_loop(method, data, folder)


def check_streams(method, data, folder, monkeypatch):
    """No operation on a stream races with one on another, captured steps and all."""
    fit_briefly(monkeypatch, 4)
    spec = spec_of(method, partition=PARTITION, schedule={**SCHEDULE, "rounds": 4})
    with FakeGpu() as gpu, Streams(gpu):
        quick = rounds_of(spec, data, folder, "fast", DEVICE, slots=3, capturing=gpu.graphs)
    assert not quick.executor.usage.fallbacks, quick.executor.usage.fallbacks
    assert quick.executor.usage.captured, "nothing was captured"


def check_pixels(method, data, folder, monkeypatch):
    """Every grey level is the same number as on a CPU."""
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    mean, std = torch.tensor([[[0.1]]]), torch.tensor([[[0.3]]])
    with FakeGpu():
        there = [tensor.to(DEVICE) for tensor in (levels, mean, std)]
        found = augment.normalize(*there).cpu()
    assert torch.equal(found, augment.normalize(levels, mean, std)), "grey levels are others"


def check_products(method, data, folder, monkeypatch):
    """A run in float32 does not round the factors of its products."""
    with FakeGpu():
        selftest.check_products(DEVICE)
