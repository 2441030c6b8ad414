"""Each method's loss on tensors of a GPU that is not there: all on one device, nothing read."""

import copy
import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from noisyfl.runs.train import EXECUTORS
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.graphs import signature
from noisyfl.simulation.model import Model
from noisyfl.simulation.rounds import simulate
from noisyfl.simulation.updates import Batch, Task
from small_runs import CLIENT_SIDES, by_name, federation_of, spec_of

OFTEN = ("coteaching", "fedcorr", "rofl")


class OnAFakeGpu(FastExecutor):
    """Asks for the loss of each kind of step there too, once; ``asked`` has the kinds."""

    def _new_slot(self, networks):
        slot, self.asked = super()._new_slot(networks), set()
        plain = slot.step

        def step(side, batch, epoch, number):
            key = (epoch.learns, signature(batch.extras), signature(batch.memory), len(batch.views))
            if epoch.repeatable and key not in self.asked:
                self.asked.add(key)
                loss = loss_of(slot, side, batch)
                assert (loss.device.type, loss.ndim) == ("cuda", 0)
            plain(side, batch, epoch, number)

        slot.step = step
        return slot


def loss_of(slot, side, batch):
    mode = FakeTensorMode(allow_non_fake_inputs=False)

    def fake(tensor):
        with mode:
            return torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda"
            )

    def all_fake(tensors):
        return {name: fake(value) for name, value in tensors.items()}

    def faked():
        networks = copy.deepcopy(slot.networks)
        for module in networks.modules():
            for name, value in module._parameters.items():
                if value is not None:
                    module._parameters[name] = nn.Parameter(fake(value.detach()))
            module._buffers.update(all_fake(module._buffers))
        return networks

    model = Model(faked(), all_fake(slot.model._start), "float32")
    # Made when it is first asked, which fake tensors cannot be copied for.
    model._start_networks = faked().requires_grad_(False).eval()
    there = Batch(
        tuple(map(fake, batch.views)),
        fake(batch.positions),
        fake(batch.target),
        all_fake(batch.extras),
        all_fake(batch.memory),
    )
    with mode:
        return side.loss(model, there)


@pytest.mark.parametrize("method", by_name(CLIENT_SIDES, OFTEN))
def test_a_loss_stays_on_the_gpu(method, digits, tmp_path, monkeypatch):
    # A gradient of a loss within a loss needs a graph of real tensors.
    monkeypatch.setattr(
        torch.autograd,
        "grad",
        lambda of, inputs, plain=torch.autograd.grad, **options: (
            tuple(map(torch.zeros_like, inputs))
            if of.device.type == "cuda"
            else plain(of, inputs, **options)
        ),
    )
    monkeypatch.setitem(EXECUTORS, "fast", OnAFakeGpu)
    federation, server, client = federation_of(spec_of(method), digits, tmp_path, "fast")
    simulate(federation, server, client, Checkpoint(tmp_path / "run.pt", {}, math.inf), str)
    assert federation.executor.asked


class Reads(ClientSide):
    name = "reads"

    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + batch.images.mean().item())


class MixesDevices(ClientSide):
    name = "mixes_devices"

    def loss(self, model, batch):
        return (super().loss(model, batch) * torch.ones(6, device="cpu")).mean()


@pytest.mark.parametrize(("side", "message"), [(Reads, "scalar"), (MixesDevices, "device")])
def test_what_would_not_run_on_a_gpu_is_found(make, side, message):
    if torch.cuda.is_available():
        pytest.skip("a real GPU tells by itself")
    runner, clients, start = make(OnAFakeGpu, "cnn", 8, 1)
    with pytest.raises(Exception, match=f"(?i){message}"):
        runner.local_updates([Task(clients[0], start)], side(), 0, "training")
