import copy
import itertools

import pytest
import torch
from torch import nn

from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.schedule import Schedule


def schedule(momentum=0.0, weight_decay=0.0, clip_norm=None, optimizer="sgd"):
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
            "optimizer": optimizer,
        }
    )


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_equals_torch_bit_for_bit(momentum, weight_decay):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    theirs = copy.deepcopy(ours)
    optimizer = Optimizer(dict(ours.named_parameters()), schedule(momentum, weight_decay))
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


@pytest.mark.parametrize("learns", ["", "2."])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
@pytest.mark.parametrize(
    ("name", "torchs"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_adam_and_adamw_are_torchs_also_when_started_anew(name, torchs, weight_decay, learns):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    theirs = copy.deepcopy(ours)
    plan = schedule(weight_decay=weight_decay, optimizer=name)
    weights = dict(ours.named_parameters())
    optimizer = Optimizer(weights, plan)
    for _ in range(2):
        optimizer.reset(plan)
        learning = [v for n, v in theirs.named_parameters() if n.startswith(learns)]
        reference = torchs(learning, lr=0.1, weight_decay=weight_decay)
        for _ in range(5):
            images = torch.randn(4, 6, dtype=torch.float64)
            optimizer.step(ours(images).square().mean(), learns)
            theirs.zero_grad()
            theirs(images).square().mean().backward()
            reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)
    assert set(optimizer.state) == {"first moment", "second moment", "steps"}


def test_a_gradient_may_lie_in_memory_otherwise_than_its_weight():
    """As that of a sum does, whose numbers are one; and images with the channels last."""
    start, ends = torch.randn(3, 4, 2, 2), []
    for layout in (torch.contiguous_format, torch.channels_last):
        weights = {"0": start.clone(memory_format=layout).requires_grad_()}
        optimizer = Optimizer(weights, schedule(optimizer="adam"))
        images = torch.arange(64.0).view(1, 4, 4, 4).to(memory_format=torch.channels_last)
        for _ in range(3):
            optimizer.step(weights["0"].sum())
            optimizer.step(nn.functional.conv2d(images, weights["0"]).square().mean())
        ends.append(weights["0"].detach())
    torch.testing.assert_close(*ends)
    weights = {"0": start.clone().requires_grad_()}
    Optimizer(weights, schedule(optimizer="adam")).step(weights["0"].sum())
    torch.testing.assert_close(weights["0"].detach(), start - 0.1)


def test_another_optimizer_keeps_nothing_of_the_one_before():
    """FedNed's distillation is by SGD, whatever the run's optimizer is."""
    weights = {"0": torch.ones(2, requires_grad=True)}
    optimizer = Optimizer(weights, schedule(optimizer="adam"))
    for other in ("sgd", "adam"):
        optimizer.step(weights["0"].sum())
        optimizer.reset(schedule(optimizer=other))
        before = weights["0"].detach().clone()
        optimizer.step(weights["0"].sum())
        # The first step against a gradient of 1, of either.
        torch.testing.assert_close(weights["0"].detach(), before - 0.1)
        optimizer.reset(schedule(optimizer="adam"))


@pytest.mark.parametrize("options", [{"momentum": 0.5}, {"optimizer": "adam"}])
def test_a_rate_that_lies_in_memory_is_the_schedules(options):
    torch.manual_seed(0)
    start, ends = torch.randn(7, dtype=torch.float64), []
    for rate in (None, torch.zeros((), dtype=torch.float64)):
        weights = {"0": start.clone().requires_grad_()}
        optimizer = Optimizer(weights, schedule(**options), rate)
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
    optimizer = Optimizer(dict(ours.named_parameters()), schedule(clip_norm=norm))
    optimizer.step(ours(images).square().mean())
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
    optimizer = Optimizer(weights, schedule(momentum=0.5))

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
