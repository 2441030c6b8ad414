"""APFL's two losses, its share, and what of a model is whose, alone and around two networks."""

import copy
import weakref
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from fakes import FakeFederation, alike
from noisy_digits import run_on_digits
from noisyfl.core.options import BadInput
from noisyfl.methods.apfl import Wrapped, halves, private_copy
from noisyfl.models import build_model
from noisyfl.simulation import rounds
from noisyfl.simulation.client_side import ClientSide, Turn
from noisyfl.simulation.losses import cross_entropy, squared_distance
from noisyfl.simulation.model import LocalModel, Networks
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Epoch, Update
from noisyfl.specs.catalogue import canonical_method
from vectors import method

SHAPE, CLASSES, COUNT = (8, 8, 1), 4, 6

apfl = partial(method, "apfl")


class Pair(ClientSide):
    """Two networks: the second learns the label, the first what the second says; both are held
    near to the received model. Keeps what it saw.
    """

    name = "pair"
    networks = 2

    def received(self, client, weights, federation):
        return {**weights, "0.classifier.bias": weights["0.classifier.bias"] + 1}

    def memory(self, client, federation):
        return {"seen": torch.zeros(COUNT)}

    def epoch(self, client, turn):
        epoch = super().epoch(client, turn)
        return Epoch(epoch.steps, epoch.targets, {"pull": [0.3] * len(epoch.steps)}, learns="0.")

    def loss(self, model, batch):
        batch.memory["seen"][batch.positions] += 1
        guess = model.look(batch.images, network=1).logits.softmax(1)
        first = functional.cross_entropy(model(batch.images).logits, guess)
        second = cross_entropy(model(batch.images, network=1).logits, batch.target).mean()
        pull = squared_distance(model.weights, model.received)
        return first + 2 * second + batch["pull"] * pull

    def after_updates(self, round, updates, federation):
        for update in updates:
            update.client.state["seen"] = update.memory["seen"]
            update.weights = {**update.weights, "1.classifier.bias": torch.full((CLASSES,), 5.0)}

    def predict(self, outputs, client):
        return outputs[0].logits + outputs[1].logits


def networks(count):
    return Networks(build_model({"name": "cnn"}, SHAPE, CLASSES, 1, i) for i in range(count))


def model_of(count):
    """A model that has moved a little since it was received."""
    nets = networks(count).double()
    received = {name: value.detach() + 0.01 for name, value in nets.state_dict().items()}
    return LocalModel(nets, received, "float32"), nets


def batch_of(memory, **extras):
    rng = torch.Generator().manual_seed(3)
    images = torch.randn(COUNT, 1, 8, 8, generator=rng, dtype=torch.float64)
    target = torch.randint(0, CLASSES, (COUNT,), generator=rng)
    extras = {name: torch.tensor(value).double() for name, value in extras.items()}
    return Batch((images,), torch.arange(COUNT), target, extras, memory)


def memory_of(alpha, **more):
    return {"apfl_alpha": torch.tensor(alpha, dtype=torch.float64), **more}


def gradients(loss, model):
    names = list(model.weights)
    found = torch.autograd.grad(loss, [model.weights[name] for name in names], allow_unused=True)
    return dict(zip(names, found, strict=True))


def test_alone_w_learns_by_itself_and_v_within_the_mixture():
    model, nets = model_of(2)
    batch = batch_of(memory_of(0.3), apfl_rate=0.0)
    loss = apfl().loss(model, batch)
    assert (model.forward, model.backward) == (3 * COUNT, 2 * COUNT)
    found = gradients(loss, model)

    w, v = copy.deepcopy(nets)
    own = functional.cross_entropy(w(batch.images), batch.target)
    mixed = 0.3 * v(batch.images) + 0.7 * w(batch.images).detach()
    other = functional.cross_entropy(mixed, batch.target)
    torch.testing.assert_close(loss, own + other)
    for number, (module, part) in enumerate(((w, own), (v, other))):
        names = [name for name, _ in module.named_parameters()]
        for name, expected in zip(
            names, torch.autograd.grad(part, list(module.parameters())), strict=True
        ):
            torch.testing.assert_close(found[f"{number}.{name}"], expected)
            assert bool(expected.any())
    assert float(batch.memory["apfl_alpha"]) == 0.3


def test_around_two_networks_each_loss_sees_two():
    """Against the partner's own loss on models of two networks each, mixed by hand."""
    model, nets = model_of(4)
    side = Wrapped(side=Pair(), alpha=0.5, adaptive=True, shrinkage=0.0)
    assert side.networks == 4
    memory = memory_of(
        0.4, **{f"{kind} seen": torch.zeros(COUNT) for kind in ("shared", "private")}
    )
    batch = batch_of(memory, pull=0.3, apfl_rate=0.0)
    found = gradients(side.loss(model, batch), model)
    assert memory["shared seen"].tolist() == memory["private seen"].tolist() == [1.0] * COUNT

    w, v = copy.deepcopy(nets)[:2], copy.deepcopy(nets)[2:]
    received = [value for name, value in model.received.items()]

    def by_hand(parts, fixed, alpha):
        def logits(number):
            plain = parts[number](batch.images)
            if fixed is None:
                return plain
            return alpha * plain + (1 - alpha) * fixed[number](batch.images).detach()

        first = functional.cross_entropy(logits(0), logits(1).softmax(1).detach())
        second = functional.cross_entropy(logits(1), batch.target)
        pull = sum((p - p.detach() - 0.0 + d).square().sum() for p, d in pulls[id(parts)])
        return first + 2 * second + 0.3 * pull

    half = len(received) // 2
    pulls = {}
    for parts, goals in ((w, received[:half]), (v, received[half:])):
        weights = list(parts.parameters())
        pulls[id(parts)] = [
            (p, (p - goal).detach()) for p, goal in zip(weights, goals, strict=True)
        ]
    for first, parts, fixed in ((0, w, None), (2, v, w)):
        weights = [(name, p) for name, p in parts.named_parameters()]
        expected = torch.autograd.grad(by_hand(parts, fixed, 0.4), [p for _, p in weights])
        for (name, _), value in zip(weights, expected, strict=True):
            number, _, rest = name.partition(".")
            torch.testing.assert_close(found[f"{int(number) + first}.{rest}"], value)


@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
def test_the_share_descends_on_the_mixtures_loss(shrinkage):
    """Against a difference quotient; only in a step with a rate, and never out of [0, 1]."""
    model, nets = model_of(2)
    side = apfl(shrinkage=shrinkage)

    def mixed(alpha):
        w, v = nets
        with torch.no_grad():
            logits = alpha * v(batch.images) + (1 - alpha) * w(batch.images)
            return float(functional.cross_entropy(logits, batch.target))

    for rate in (0.5, 1e6, -0.0):
        batch = batch_of(memory_of(0.3), apfl_rate=rate)
        side.loss(model, batch)
        slope = (mixed(0.3 + 1e-5) - mixed(0.3 - 1e-5)) / 2e-5 + shrinkage * 0.3
        assert abs(slope) > 1e-4
        expected = min(max(0.3 - rate * slope, 0.0), 1.0)
        assert float(batch.memory["apfl_alpha"]) == pytest.approx(expected, abs=1e-8)
    batch = batch_of(memory_of(0.3), apfl_rate=0.5)
    apfl(adaptive=False).loss(model, batch)
    assert float(batch.memory["apfl_alpha"]) == 0.3


def turn(number):
    return Turn(1, 3, "training", client=0, number=number, batch_size=2, outputs=None)


def test_an_epoch_is_the_partners_for_both_halves():
    federation = FakeFederation(alike(1, 6))
    client = federation.clients[0]
    side = apfl().with_partner(Pair())[1]
    side.before_round(0, [client], federation)
    first, second = (side.epoch(client, turn(number)) for number in (0, 1))
    assert first.extras == {"pull": [0.3] * 3, "apfl_rate": [0.1, 0.0, 0.0]}
    assert second.extras["apfl_rate"] == [0.0] * 3
    assert [name for name in ("0.a", "1.a", "2.a", "3.a") if name.startswith(first.learns)] == [
        "0.a",
        "2.a",
    ]
    alone = apfl()
    assert alone.epoch(client, turn(0)).learns == ""
    assert alone.size(client) == 6


def update_of(client, weights, memory):
    return Update(client, weights, memory, len(client), 1, 0.0, 0, 0)


def test_v_and_its_share_stay_with_the_client():
    federation = FakeFederation(alike(2))
    client, other = federation.clients
    server, side = apfl(alpha=0.25).with_partner(Pair())
    federation.weights = {n: v.clone() for n, v in networks(4).state_dict().items()}
    start = side.received(client, federation.weights, federation)
    w, v = halves(start)
    assert {n.partition(".")[0] for n in w} == {"0", "1"}
    assert {n.partition(".")[0] for n in v} == {"2", "3"}
    # At first v is w, as the partner made it ready.
    assert torch.equal(v["2.classifier.bias"], federation.weights["0.classifier.bias"] + 1)
    memory = side.memory(client, federation)
    assert set(memory) == {"apfl_alpha", "shared seen", "private seen"}
    assert float(memory["apfl_alpha"]) == 0.25

    ended = {name: value + 3 for name, value in start.items()}
    memory = {**memory, "apfl_alpha": torch.tensor(0.6), "shared seen": torch.ones(COUNT)}
    updates = [update_of(client, ended, memory)]
    side.after_updates(0, updates, federation)
    assert client.state["seen"].tolist() == [1.0] * COUNT
    assert federation.reports[0] == {"mixing_share": pytest.approx(0.6)}
    # What the partner changes of a local model reaches the server.
    assert updates[0].weights["1.classifier.bias"].tolist() == [5.0] * CLASSES

    before = federation.weights
    federation.weights = server.aggregate(updates, federation)
    for name, value in federation.weights.items():
        expected = before if name[0] in "23" else updates[0].weights
        torch.testing.assert_close(value, expected[name])
    again = side.received(client, federation.weights, federation)
    torch.testing.assert_close(again["3.classifier.bias"], ended["3.classifier.bias"])
    assert float(side.memory(client, federation)["apfl_alpha"]) == pytest.approx(0.6)

    tested = server.predictors(federation)
    assert [one.client for one in tested] == [client, other]
    for one, private in zip(tested, (ended, private_copy(federation.weights)), strict=True):
        assert set(one.weights) == set(federation.weights)
        for name, value in one.weights.items():
            expected = private if name[0] in "23" else federation.weights
            torch.testing.assert_close(value, expected[name])


def test_what_the_server_averages_and_sends_is_w():
    federation = FakeFederation(alike(3))
    server = apfl()
    federation.weights = {"0.w": torch.zeros(4), "1.w": torch.full((4,), 9.0)}
    updates = [
        update_of(client, {"0.w": torch.full((4,), float(n)), "1.w": torch.full((4,), np.nan)}, {})
        for n, client in enumerate(federation.clients)
    ]
    mean = server.aggregate(updates, federation)
    assert mean["0.w"].tolist() == [1.0] * 4
    assert mean["1.w"].tolist() == [9.0] * 4
    assert server.exchange(updates, federation) == (3 * 16, 3 * 16)


def test_predictions_mix_by_the_clients_share():
    client = FakeFederation(alike(1)).clients[0]
    rng = torch.Generator().manual_seed(0)
    outputs = [
        Outputs(torch.randn(5, CLASSES, generator=rng), torch.randn(5, 2, generator=rng))
        for _ in range(4)
    ]
    logits = [one.logits for one in outputs]
    side = apfl().with_partner(Pair())[1]
    torch.testing.assert_close(side.predict(outputs, None), logits[0] + logits[1])
    client.state["apfl_alpha"] = 0.25
    expected = 0.25 * (logits[2] + logits[3]) + 0.75 * (logits[0] + logits[1])
    torch.testing.assert_close(side.predict(outputs, client), expected)
    alone = apfl().predict(outputs[:2], client)
    torch.testing.assert_close(alone, 0.25 * logits[1] + 0.75 * logits[0])


@pytest.mark.storm
def test_on_digits(tmp_path):
    """v sees one client's samples and half of its labels are wrong: the mixture is not expected to
    be better than FedAvg on all classes, but above networks that never meet.
    """
    federation, mixed = run_on_digits("apfl", tmp_path, rounds=8)
    _, alone = run_on_digits("distributed", tmp_path, rounds=8)
    assert np.mean(mixed[-3:]) > np.mean(alone[-3:])
    shares = [row["mixing_share"] for row in federation.records.clients]
    assert all(0 <= share <= 1 for share in shares)
    assert len(set(shares)) > 5
    model = sum(v.numel() * 4 for n, v in federation.weights.items() if n.startswith("0."))
    assert federation.records.rounds[-1]["bytes_up"] == 5 * model
    # The server's w is FedAvg's: nothing of v reaches it.
    fedavg, _ = run_on_digits("fedavg", tmp_path, rounds=8)
    for name, value in fedavg.weights.items():
        torch.testing.assert_close(federation.weights[name], value, rtol=1e-3, atol=1e-4)


def test_a_partner_with_models_of_its_own_is_refused():
    with pytest.raises(BadInput, match=r"apfl\+fedrn: fedrn keeps models of its own"):
        canonical_method("apfl+fedrn", "test")


def test_what_all_models_share_is_tested_once():
    """Of every client's model the half that is the server's. What was tested before is not."""

    class Runner:
        test = SimpleNamespace(labels=torch.arange(3))
        asked: ClassVar[list] = []

        def test_outputs(self, weights, network):
            self.asked.append((network, float(weights[f"{network}.w"])))
            return Outputs(weights[f"{network}.w"] * torch.eye(3), torch.zeros(3, 1))

    federation = FakeFederation(alike(3))
    server = apfl(alpha=1.0)
    federation.weights = {"0.w": torch.tensor(-1.0), "1.w": torch.tensor(0.0)}
    federation.clients[1].state["apfl_private"] = {"1.w": torch.tensor(5.0)}
    answers = {}
    found = rounds.evaluate_models(server.predictors(federation), server, Runner(), answers)
    # The two clients that never trained have one v, which is w.
    assert sorted(Runner.asked) == [(0, -1.0), (1, -1.0), (1, 5.0)]
    assert found["test_accuracy"] == pytest.approx(1 / 3)

    Runner.asked.clear()
    again = rounds.evaluate_models(server.predictors(federation), server, Runner(), answers)
    assert Runner.asked == []
    assert again["confusion"] == found["confusion"]
    federation.clients[2].state["apfl_private"] = {"1.w": torch.tensor(6.0)}
    found = rounds.evaluate_models(server.predictors(federation), server, Runner(), answers)
    assert Runner.asked == [(1, 6.0)]
    assert found["test_accuracy"] == pytest.approx(2 / 3)
    # A network that is no more is forgotten, and was not kept alive.
    Runner.asked.clear()
    gone = weakref.ref(federation.clients[2].state["apfl_private"]["1.w"])
    federation.clients[2].state["apfl_private"] = {"1.w": torch.tensor(7.0)}
    assert gone() is None
    rounds.evaluate_models(server.predictors(federation), server, Runner(), answers)
    assert Runner.asked == [(1, 7.0)]
    assert len(answers) == 4
