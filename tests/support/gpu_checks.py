"""What must hold on a GPU, as checks that raise where it does not: on one that is not there, with
recorded graphs, and on a real one where it is.
"""

import math
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from fake_gpu import DEVICE, FakeGpu
from noisyfl.data.augmentation import mild
from noisyfl.models.cnn import Cnn
from noisyfl.runs import selftest
from noisyfl.runs.train import EXECUTORS
from noisyfl.simulation import slot
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.rounds import simulate
from small_executors import close
from small_runs import SETTING, federation_of, spec_of
from streams import Streams

GPUS = ["fake", *(["real"] if torch.cuda.is_available() else [])]

PARTITION = "dirichlet(alpha=5, clients=6, samples=240)"
PLAN = {
    **SETTING["schedule"],
    "rounds": 6,
    "decay_every": 4,
    "evaluate_every": 3,
    "test_batch_size": 90,
}
"""All that is captured is replayed unchecked too, at another learning rate than it was captured at,
and in several whole batches of an evaluation.
"""


MAY_WAIT = {slot: "differing", mild: "_changed"}
"""What may wait within: a replay is compared a few times only; torchvision's rotation sends its
matrix to the GPU.
"""


@contextmanager
def sync_mode(mode):
    """Context manager: within, what makes the host wait for the GPU raises (``error``) or not
    (``default``).
    """
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def in_mode(mode, function):
    def call(*given):
        with sync_mode(mode):
            return function(*given)

    return call


class Hurried(FastExecutor):
    """Its host does not wait in a local update, but to decide an epoch, or in a step that does not
    repeat.
    """

    def _new_slot(self, networks):
        made = super()._new_slot(networks)
        made.start, made.finish = in_mode("error", made.start), in_mode("error", made.finish)
        return made

    def _batches(self, client, epoch, turn, memory):
        torch.cuda.set_sync_debug_mode("error" if epoch.repeatable else "default")
        yield from super()._batches(client, epoch, turn, memory)
        torch.cuda.set_sync_debug_mode("default")


def rounds_of(spec, data, folder, executor, device="cpu", **options):
    """The federation after a run's rounds."""
    federation, server, client = federation_of(spec, data, folder, executor, device, **options)
    simulate(federation, server, client, Checkpoint(folder / "run.pt", {}, math.inf), str)
    return federation


@contextmanager
def a_gpu(kind, monkeypatch):
    """Context manager: a device of :data:`GPUS`, and options of the executor on it. On the fake one
    the executor is :class:`Hurried`.
    """
    if kind == "real":
        yield DEVICE, {"channels_last": True}
        return
    for module, name in MAY_WAIT.items():
        monkeypatch.setattr(module, name, in_mode("default", getattr(module, name)))
    monkeypatch.setitem(EXECUTORS, "fast", Hurried)
    with FakeGpu() as gpu:
        yield DEVICE, {"channels_last": True, "capturing": gpu.graphs}


def check_method(method, data, folder, monkeypatch, kind="fake"):
    """The fast executor on a GPU ends with what the loop on a CPU ends with, in float64; nothing
    mixes devices, waits where it may not, or could not be captured.
    """
    torch.set_default_dtype(torch.float64)
    tolerance = 1e-6 if kind == "real" else 1e-9
    spec = spec_of(method, partition=PARTITION, schedule=PLAN)
    loop = rounds_of(spec, data, folder, "loop")
    with a_gpu(kind, monkeypatch) as (device, options):
        quick = rounds_of(spec, data, folder, "fast", device, slots=2, **options)
        weights = {name: value.cpu() for name, value in quick.weights.items()}
        labels = [client.labels.cpu() for client in quick.clients]
    usage = quick.executor.usage
    assert not usage.fallbacks, usage.fallbacks
    assert usage.captured, "nothing was captured"
    close(loop.weights, weights, tolerance)
    for client, label in zip(loop.clients, labels, strict=True):
        assert torch.equal(client.labels, label), f"labels of client {client.id}"
    for one, other in zip(loop.records.rounds, quick.records.rounds, strict=True):
        same_row(one, other, 100 * tolerance, but="seconds")
    for one, other in zip(loop.records.clients, quick.records.clients, strict=True):
        same_row(one, other, 100 * tolerance)


def same_row(one, other, tolerance, but=""):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if value is None or isinstance(value, str | list):
            assert value == other[name], name
        elif name != but:
            assert np.isclose(value, other[name], rtol=tolerance, atol=1e-9, equal_nan=True), name


def check_normalized(method, data, folder, monkeypatch, kind="fake"):
    """The same of a network with batch normalisation, its running statistics included."""
    build = Cnn.build

    def normalized(self, shape, classes):
        network = build(self, shape, classes)
        network.body.insert(1, nn.BatchNorm2d(16))
        return network

    monkeypatch.setattr(Cnn, "build", normalized)
    check_method(method, data, folder, monkeypatch, kind)


def check_streams(method, data, folder, monkeypatch):
    """No operation on a stream races with one on another, captured steps and all."""
    spec = spec_of(method, partition=PARTITION, schedule=PLAN)
    with FakeGpu() as gpu, Streams(gpu):
        quick = rounds_of(spec, data, folder, "fast", DEVICE, slots=3, capturing=gpu.graphs)
    assert not quick.executor.usage.fallbacks, quick.executor.usage.fallbacks
    assert quick.executor.usage.captured, "nothing was captured"


def check_products(method, data, folder, monkeypatch):
    """A run in float32 does not round the factors of its products."""
    with FakeGpu():
        selftest.check_products(DEVICE)
