"""The GPU that is not there answers as a real one does."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from noisyfl.checks.fake_gpu import DEVICE, FakeGpu

CPU = torch.device("cpu")


@pytest.fixture
def gpu():
    with FakeGpu() as gpu:
        yield gpu


MADE = {
    "a factory": lambda: torch.zeros(2, device="cuda"),
    "numbers": lambda: torch.tensor([1.0], device=DEVICE),
    "an array": lambda: torch.as_tensor(np.ones(2), device=DEVICE),
    "a copy": lambda: torch.ones(2).to(DEVICE, torch.float64),
    "a copy to where another one is": lambda: torch.ones(2).to(torch.ones(1, device=DEVICE)),
    "a pinned copy": lambda: torch.ones(2).pin_memory().to(DEVICE, non_blocking=True),
    "the like": lambda: torch.zeros_like(torch.ones(2, device=DEVICE)),
    "new numbers": lambda: torch.ones(2, device=DEVICE).new_tensor([1, 2]),
    "a view": lambda: torch.ones(2, device=DEVICE)[1:],
    "a sum with a scalar": lambda: torch.ones(2, device=DEVICE) + torch.tensor(1.0),
    "what torch fills": lambda: nn.utils.rnn.pad_sequence([torch.ones(2, device=DEVICE)]),
    "classes": lambda: functional.one_hot(torch.tensor([1, 0], device=DEVICE), 2),
    "a module": lambda: nn.Linear(2, 2).to(DEVICE).weight,
    "a copy of a module": lambda: copy.deepcopy(nn.BatchNorm2d(2).to(DEVICE)).running_mean,
}


@pytest.mark.parametrize("way", MADE)
def test_a_tensor_is_on_the_gpu(gpu, way):
    tensor = MADE[way]()
    assert (tensor.device, tensor.is_cuda) == (DEVICE, True)
    assert tensor.cpu().device == torch.zeros_like(tensor, device="cpu").device == CPU


def test_gradients_are_where_the_weights_are(gpu):
    weights = torch.ones(2, 2, device=DEVICE, requires_grad=True)
    (gradient,) = torch.autograd.grad((weights @ torch.ones(2, device=DEVICE)).sum(), weights)
    assert gradient.device == DEVICE
    assert gradient.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("by", [255, torch.tensor(255.0)])
def test_floats_over_what_the_host_knows_are_multiplied(gpu, by):
    levels = torch.arange(256.0)
    there = levels.to(DEVICE)
    known, held = (there / by).cpu(), (there / there.new_full((), 255)).cpu()
    assert torch.equal(held, levels / 255)
    assert torch.equal(known, levels * (1 / torch.tensor(255.0)))
    assert (known != held).sum() == 126


MIXED = {
    "a sum": lambda there: there + torch.ones(2),
    "a sum in place": lambda there: torch.ones(()).add_(there[0]),
    "a product": lambda there: torch.ones(2, 2) @ there,
    "a row of scalars": lambda there: torch.stack([there[0], torch.tensor(1.0)]),
    "places of the other device": lambda there: torch.ones(3)[there.long()],
    "numbers for places": lambda there: there.index_put_((there.long(),), torch.ones(2)),
    "an array of it": lambda there: np.asarray(there),
}


@pytest.mark.parametrize("way", MIXED)
def test_devices_do_not_mix(gpu, way):
    with pytest.raises((RuntimeError, TypeError), match=r"same device|to numpy"):
        MIXED[way](torch.ones(2, device=DEVICE))


WAITS = {
    "a number": lambda there: float(there[0]),
    "a branch": lambda there: bool(there[0] > 0),
    "a list": lambda there: there.tolist(),
    "a copy": lambda there: there.cpu(),
    "a copy from the host": lambda there: torch.ones(2).to(DEVICE),
    "a copy in place": lambda there: there.copy_(torch.ones(2)),
    "numbers from Python": lambda there: there.new_tensor([1.0]),
    "a mask": lambda there: there[there > 0],
    "places on the host": lambda there: there[torch.tensor([0])],
    "places that are not zero": lambda there: there.nonzero(),
}


@pytest.mark.parametrize("way", WAITS)
def test_the_host_waits(gpu, way):
    there = torch.ones(2, device=DEVICE)
    WAITS[way](there)
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        WAITS[way](there)


def test_arguments_are_checked_by_torch(gpu):
    with pytest.raises(ValueError, match="specified index"):
        torch.cuda.get_per_process_memory_fraction(torch.device("cuda"))
    with pytest.raises(AssertionError, match="Invalid device"):
        torch.cuda.get_device_properties(1)
    with pytest.raises(RuntimeError, match="invalid value"):
        torch.cuda.set_sync_debug_mode("loud")


def test_it_is_gone_in_the_end():
    with FakeGpu():
        assert torch.ones(2, device="cuda").is_cuda
    assert torch.ones(2).device == CPU
    assert torch.ones(2).is_cuda is False
