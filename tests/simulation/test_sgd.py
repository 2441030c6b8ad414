import copy

import pytest
import torch
from torch import nn

from noisyfl.simulation.sgd import SGD


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_equals_torch_bit_for_bit(momentum, weight_decay):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    theirs = copy.deepcopy(ours)
    optimizer = SGD(list(ours.parameters()), 0.1, momentum, weight_decay)
    reference = torch.optim.SGD(
        theirs.parameters(), lr=0.1, momentum=momentum, weight_decay=weight_decay
    )
    for _ in range(8):
        images = torch.randn(4, 6)
        optimizer.step(ours(images).square().mean())
        reference.zero_grad()
        theirs(images).square().mean().backward()
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
