"""FedCorr's first two stages, and another method in the third."""

import math
from contextlib import suppress

import numpy as np
import pytest
import torch
from test_fedcorr import batch_of, turn

from fakes import FakeFederation, FakeModel, alike
from noisy_digits import run_on_digits
from noisyfl.core.options import BadInput
from noisyfl.methods import METHODS
from noisyfl.methods.fedcorr_continued import MixedUp
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.outputs import Predictor
from noisyfl.simulation.server_side import ServerSide
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import canonical_method

GIVEN = {"preprocessing_iterations": 1, "finetuning_rounds": 2}


class Server(ServerSide):
    """Writes down what it is asked."""

    name = "server"

    def select(self, round, federation):
        return np.array([3])

    def start(self, client, federation):
        return {"second": torch.ones(1)}

    def aggregate(self, updates, federation):
        return {"second": torch.zeros(1)}

    def exchange(self, updates, federation):
        return 1, 2

    def predictors(self, federation):
        return []

    def after_round(self, round, updates, federation):
        federation.state["after"] = round


class Both(Server, ClientSide):
    """With a client side."""

    def local_schedule(self, round, schedule):
        return "its own"

    def memory(self, client, federation):
        return {"kept": torch.zeros(1)}

    def received(self, client, weights, federation):
        return {**weights, "received": torch.ones(1)}

    def positions(self, client):
        return np.array([1, 2])

    def loss(self, model, batch):
        return 10 * super().loss(model, batch)

    def after_updates(self, round, updates, federation):
        federation.state["updated"] = round


def combined(partner, **options):
    method = METHODS.build({"name": "fedcorr", **GIVEN, **options}, "test")
    server, client = method.with_partner(partner)
    federation = FakeFederation(alike(4), rounds=10, participation=0.5)
    federation.state = {}
    for one in federation.clients:
        one.state["noise_level"] = torch.tensor(0.0)
    server.begin(federation)
    return server, client, federation


def enter(server, client, federation, round):
    """The sides of a round, and the first of its participants before it trains."""
    server, client = server.sides(round, client, federation)
    chosen = [federation.clients[number] for number in server.select(round, federation)]
    client.before_round(round, chosen, federation)
    return server, client, chosen[0]


@pytest.mark.parametrize("partner", [Server(), Both()], ids=["server", "both"])
def test_whose_round_it_is(partner):
    whole, last, federation = combined(partner)
    plain = METHODS.build({"name": "fedcorr", **GIVEN}, "test")
    assert whole.rounds(federation) == plain.rounds(federation) == 12
    for round in range(12):
        assert whole.stage(round, federation) == plain.stage(round, federation)
        assert whole.counted_updates(round, federation) == plain.counted_updates(round, federation)
        server, client, one = enter(whole, last, federation, round)
        third = whole.stage(round, federation) == "usual training"
        if not third:
            assert server is client is whole.first
            assert one.id in plain.select(round, federation)
            assert server.start(one, federation) is federation.weights
            assert isinstance(server.predictors(federation)[0], Predictor)
        else:
            assert server is partner
            assert one.id == 3
            assert server.exchange([], federation) == (1, 2)
            server.after_round(round, [], federation)
            assert federation.state["after"] == round
        own = third and isinstance(partner, ClientSide)
        schedule = client.local_schedule(round, federation.schedule)
        assert (schedule == "its own") == own
        assert ("kept" in client.memory(one, federation)) == own
        assert ("received" in client.received(one, {}, federation)) == own
        assert list(client.positions(one)) == ([1, 2] if own else [0, 1, 2, 3])
        assert client.size(one) == (2 if own else 4)
        client.after_updates(round, [], federation)
        assert (federation.state.get("updated") == round) == own


@pytest.mark.parametrize("partner", [Server(), Both()], ids=["server", "both"])
@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ({}, (True, True, True)),
        ({"mixup_stages": "first_two"}, (True, True, False)),
        ({"mixup_stages": "preprocessing"}, (True, False, False)),
        ({"mixup": False}, (False, False, False)),
    ],
)
def test_whose_loss_it_is_and_which_stages_have_mixup(partner, options, stages):
    """One rule for methods with a client side and those without."""
    whole, last, federation = combined(partner, local_proximal=False, **options)
    model = FakeModel(torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]]))
    images = torch.tensor([[4.0], [8.0]])
    own, other = [math.log(4 / 3), math.log(2)], [math.log(4), math.log(2)]

    def loss(round):
        server, client, one = enter(whole, last, federation, round)
        epoch = client.epoch(one, turn(server.stage(round, federation)))
        extras = {name: values[0] for name, values in epoch.extras.items()}
        if "share" in extras:
            extras = {"share": 0.75, "mixup_index": [1, 0]}
        value = float(client.loss(model, batch_of(images, [0, 1], **extras)))
        return "share" in extras, value, model.images.tolist()

    plain = np.mean(own)
    mixed = 0.75 * plain + 0.25 * np.mean(other)
    for round, mixup in zip((0, 5, 7), stages, strict=True):
        factor = 10 if round == 7 and isinstance(partner, ClientSide) else 1
        expected = factor * (mixed if mixup else plain)
        shown = [[5.0], [7.0]] if mixup else [[4.0], [8.0]]
        assert loss(round) == (mixup, pytest.approx(expected), shown)


def test_feddyns_regulariser_is_not_mixed():
    feddyn = METHODS.build({"name": "feddyn"}, "test")
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    model = FakeModel(torch.zeros(2, 2), {"w": weight})
    batch = batch_of(torch.ones(2, 1), [0, 1], share=0.75, mixup_index=[1, 0])
    batch.memory.update(drift=torch.tensor([1.0, 0.0]), alpha=torch.tensor(0.1))
    loss = MixedUp(side=feddyn, alpha=1.0).loss(model, batch)
    assert float(loss.detach()) == pytest.approx(math.log(2) + 0.1 * (3 + 25 / 2))


@pytest.mark.parametrize(
    ("partner", "why"),
    [
        ("fednoil", "fednoil decides its own batches, by what it learns from its first round on"),
        ("fednoro", "fednoro decides its own batches"),
        ("centralized", "centralized pools all samples before the first round"),
    ],
)
@pytest.mark.parametrize("options", ["", "(mixup=false)", "(variant='paper')"])
def test_what_begins_with_its_first_round_cannot_stand_behind(partner, why, options):
    with pytest.raises(BadInput, match=f"fedcorr\\+{partner}: {why}"):
        canonical_method(f"fedcorr{options}+{partner}", "test")


def partners():
    """The methods that may stand behind FedCorr."""
    for name in METHODS.classes:
        with suppress(BadInput):
            canonical_method(f"fedcorr+{name}", "test")
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("partner", [*partners(), "fedproto(variant='faithful')"])
def test_every_partner_trains_in_the_third_stage(partner, tmp_path):
    first = "fedcorr(preprocessing_iterations=1, finetuning_rounds=1)"
    run_on_digits(f"{first}+{partner}", tmp_path, rounds=5)


def test_only_a_server_side_can_stand_behind():
    with pytest.raises(BadInput, match="fedcorr\\+fedprox: a method added to fedcorr needs a serv"):
        canonical_method("fedcorr+fedprox", "test")
    assert canonical_method("fedcorr+fedavg", "test") != canonical_method("fedcorr", "test")
    # Behind a server side alone, FedAvg is what trains the clients anyway.
    assert canonical_method("krum+fedavg", "test") == canonical_method("krum", "test")
    server, client = build_method("fedcorr+fedavg", "test")
    assert isinstance(hash((server, client)), int)


@pytest.mark.slow
@pytest.mark.parametrize("stages", ["all", "preprocessing"])
def test_with_fedavg_behind_it_the_run_is_fedcorrs_own(tmp_path, stages):
    """FedAvg's server side is what FedCorr has in its third stage, and its own loss is FedCorr's
    there, with mixup or without: the two runs are one.
    """
    options = f"preprocessing_iterations=1, finetuning_rounds=2, mixup_stages={stages!r}"
    ends = [
        run_on_digits(name, tmp_path, rounds=6)
        for name in (f"fedcorr({options})", f"fedcorr({options})+fedavg")
    ]
    for name, value in ends[0][0].weights.items():
        # With mixup the two labels' losses are added up in another order.
        close = {"rtol": 0, "atol": 1e-3 if stages == "all" else 0}
        torch.testing.assert_close(value, ends[1][0].weights[name], **close)
    if stages == "preprocessing":
        assert ends[0][1] == ends[1][1]
