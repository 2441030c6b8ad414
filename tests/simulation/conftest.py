"""What the tests of the simulation share."""

from functools import partial

import pytest
import torch

from small_executors import DEVICES, made


@pytest.fixture(autouse=True)
def leave_torch_as_it_was():
    enabled = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = enabled
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=DEVICES)
def make(request):
    """:func:`made` on each device that is there."""
    return partial(made, torch.device(request.param))
