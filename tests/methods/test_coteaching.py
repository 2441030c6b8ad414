"""Co-teaching's ramp, exchange and loss on cases small enough to work out by hand."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from noisy_digits import run_on_digits
from noisyfl.methods.coteaching import smallest
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch
from vectors import method

coteaching = partial(method, "coteaching")


def client_of(number, wrong, samples):
    true = torch.zeros(samples, dtype=torch.int64)
    given = true.clone()
    given[:wrong] = 1
    return Client(number, torch.arange(samples), given, true)


def turn(round, batch_size=10):
    return Turn(1, round, "training", client=0, number=0, batch_size=batch_size, outputs=None)


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [1 / 4, 1 / 4]),  # 10 wrong labels of 40 in all
        ({"noise_level_of": "client"}, [8 / 10, 2 / 30]),
        ({"forget_rate": 0.3}, [0.3, 0.3]),
        ({"forget_rate": 0.0, "noise_level_of": "client"}, [0.0, 0.0]),
    ],
)
def test_forget_rates(options, rates):
    clients = [client_of(0, 8, 10), client_of(1, 2, 30)]
    coteaching(**options).before_round(0, clients, SimpleNamespace(clients=clients))
    assert [client.state["forget_rate"] for client in clients] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("ramp", "length", "shares"),
    [
        ("ratio", 4, [0, 1 / 4, 2 / 4, 3 / 4, 1, 1]),
        ("linspace", 4, [*np.linspace(0, 1, 4), 1, 1]),
        ("linspace", 1, [*np.linspace(0, 1, 1), 1, 1]),
        ("ratio", 1, [0, 1, 1]),
    ],
)
def test_ramps(ramp, length, shares):
    client = client_of(0, 0, 1)
    client.state["forget_rate"] = 0.4
    method = coteaching(ramp_rounds=length, ramp=ramp)
    rates = [method.rate(client, round) for round in range(len(shares))]
    assert rates == pytest.approx([0.4 * share for share in shares])


@pytest.mark.parametrize(
    ("rate", "size", "kept"), [(0.3, 30, 21), (0.25, 10, 7), (0.9, 10, 1), (0.9, 3, 1), (0, 9, 9)]
)
def test_how_many_of_a_batch_are_kept(rate, size, kept):
    client = client_of(0, 0, size)
    client.state["forget_rate"] = rate
    epoch = coteaching().epoch(client, turn(99, batch_size=size))
    assert epoch.extras["kept"] == [kept]
    assert coteaching().epoch(client, turn(0, batch_size=size)).extras["kept"] == [size]


def test_smallest_keeps_the_count_also_among_equals():
    losses = torch.tensor([3.0, 1.0, 2.0, 1.0])
    assert smallest(losses, torch.tensor(2)).tolist() == [False, True, False, True]
    assert smallest(torch.ones(4), torch.tensor(3)).tolist() == [True, True, True, False]


class TwoNetworks:
    def __init__(self, *logits):
        self.logits = logits

    def __call__(self, images, network=0):
        return Outputs(self.logits[network], torch.empty(0))


def a_step(**options):
    """Logits of two networks, a batch, and the loss."""
    rng = torch.Generator().manual_seed(0)
    logits = [torch.randn(7, 3, generator=rng, dtype=torch.float64) for _ in range(2)]
    for one in logits:
        one.requires_grad_()
    batch = Batch(
        views=(torch.zeros(7, 1),),
        positions=torch.tensor([4, 2, 9, 0, 7, 1, 3]),
        target=torch.tensor([0, 1, 2, 0, 1, 2, 0]),
        extras={"kept": torch.tensor(4)},
        memory={"picked": torch.zeros(10, dtype=torch.bool)},
    )
    return logits, batch, coteaching(**options).loss(TwoNetworks(*logits), batch)


def test_each_network_learns_from_the_others_picks_alone():
    logits, batch, loss = a_step()
    losses = [
        [-one[i].log_softmax(0)[label].item() for i, label in enumerate(batch.target.tolist())]
        for one in logits
    ]
    picks = [sorted(range(7), key=lambda i, own=own: own[i])[:4] for own in losses]
    assert set(picks[0]) != set(picks[1])
    expected = sum(losses[0][i] for i in picks[1]) / 4 + sum(losses[1][i] for i in picks[0]) / 4
    assert loss.item() == pytest.approx(expected)
    for gradient, taught_by in zip(
        torch.autograd.grad(loss, logits), (picks[1], picks[0]), strict=True
    ):
        assert set(gradient.abs().sum(1).nonzero()[:, 0].tolist()) == set(taught_by)
    seen = batch.positions[picks[0]].tolist()
    assert set(batch.memory["picked"].nonzero()[:, 0].tolist()) == set(seen)


def test_the_official_code_divides_twice():
    assert a_step(double_division=True)[2].item() == pytest.approx(a_step()[2].item() / 4)


def test_what_is_tested():
    logits = [torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[0.0, 3.0, 1.0]])]
    outputs = [Outputs(one, torch.empty(0)) for one in logits]
    assert torch.equal(coteaching().predict(outputs, None), logits[0])
    assert torch.equal(coteaching(tested="second").predict(outputs, None), logits[1])
    mean = coteaching(tested="mean").predict(outputs, None)
    expected = (functional.softmax(logits[0], 1) + functional.softmax(logits[1], 1)) / 2
    assert torch.allclose(mean.exp(), expected)
    assert math.isclose(float(mean.exp().sum()), 1, rel_tol=1e-6)


@pytest.mark.slow
def test_its_picks_are_cleaner_than_the_base_rate(tmp_path):
    federation, _ = run_on_digits("coteaching(ramp_rounds=4)", tmp_path, rounds=8)
    last = federation.records.rounds[-1]
    # Half of the labels are wrong, and half are left out; picked at random both would be 0.5.
    assert last["label_precision"] > 0.75
    assert last["label_recall"] > 0.7
    networks = [
        {name[1:]: value for name, value in federation.weights.items() if name[0] == number}
        for number in "01"
    ]
    assert networks[0].keys() == networks[1].keys()
    assert not torch.equal(networks[0][".classifier.weight"], networks[1][".classifier.weight"])
