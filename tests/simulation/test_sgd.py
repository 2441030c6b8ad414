import copy
import itertools

import pytest
import torch
from torch import nn

from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.sgd import SGD


def schedule(momentum=0.0, weight_decay=0.0, clip_norm=None):
    return Schedule(
        **{
            "rounds": 1,
            "participation": 1.0,
            "local_epochs": 1,
            "batch_size": 4,
            "learning_rate": 0.1,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "clip_norm": clip_norm,
        }
    )


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_equals_torch_bit_for_bit(momentum, weight_decay):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    theirs = copy.deepcopy(ours)
    optimizer = SGD(dict(ours.named_parameters()), schedule(momentum, weight_decay))
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


def test_a_rate_that_lies_in_memory_is_the_schedules():
    torch.manual_seed(0)
    start, ends = torch.randn(7, dtype=torch.float64), []
    for rate in (None, torch.zeros((), dtype=torch.float64)):
        weights = {"0": start.clone().requires_grad_()}
        optimizer = SGD(weights, schedule(momentum=0.5), rate)
        for _ in range(4):
            optimizer.step(weights["0"].sin().sum())
        ends.append(weights["0"])
    assert not torch.equal(ends[0], start)
    torch.testing.assert_close(*ends)


@pytest.mark.parametrize("norm", [0.1, 100.0])
def test_gradients_are_clipped_as_torch_does_it(norm):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    theirs, images = copy.deepcopy(ours), torch.randn(4, 6)
    SGD(dict(ours.named_parameters()), schedule(clip_norm=norm)).step(ours(images).square().mean())
    theirs(images).square().mean().backward()
    whole = nn.utils.clip_grad_norm_(theirs.parameters(), norm)
    assert 0.1 < whole < 100
    torch.optim.SGD(theirs.parameters(), lr=0.1).step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_only_what_learns_moves_momentum_included():
    weights = {
        name: torch.ones(2, requires_grad=True) for name in ("0.body", "0.classifier", "1.body")
    }
    optimizer = SGD(weights, schedule(momentum=0.5))

    def step(learns):
        loss = sum(value.sum() for value in weights.values())
        optimizer.step(loss, learns)
        return [round(1 - value[0].item(), 6) for value in weights.values()]

    # A step against a gradient of 1 moves by 0.1, the next one by 0.15.
    assert step("0.") == [0.1, 0.1, 0.0]
    assert step("1.") == [0.1, 0.1, 0.1]
    assert step("0.classifier") == [0.1, 0.25, 0.1]
    assert step("") == [0.25, 0.425, 0.25]
    optimizer.reset(schedule(momentum=0.5))
    before = [value[0].item() for value in weights.values()]
    step("")
    for value, start in itertools.zip_longest(weights.values(), before):
        assert value[0].item() == pytest.approx(start - 0.1)
