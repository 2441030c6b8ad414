"""FedProto's prototypes, their distance, their bytes, and what decides in a test."""

from functools import partial

import numpy as np
import pytest
import torch

from fakes import FakeFederation, FakeModel, alike
from noisy_digits import run_on_digits
from noisyfl.simulation.outputs import Outputs, Predictor
from noisyfl.simulation.updates import Batch, Update
from vectors import method

RNG = torch.Generator().manual_seed(0)
CLASSES, WIDTH = 3, 5

fedproto = partial(method, "fedproto")


class Federation(FakeFederation):
    """Four clients; the first has classes 0 and 1, the second 1 alone, the others nothing new."""

    def __init__(self):
        super().__init__(alike(4))
        self.exchanged = []
        for client, labels in zip(self.clients, ([0, 0, 1], [1]), strict=False):
            client.given = client.labels = torch.tensor(labels)
        self.outputs = {
            client.id: Outputs(
                torch.zeros(len(client.labels), CLASSES),
                torch.randn(len(client.labels), WIDTH, generator=RNG),
            )
            for client in self.clients
        }

    def answer(self, request):
        assert request.view == "plain"
        return self.outputs[request.client.id]

    def exchange(self, down=0, up=0):
        self.exchanged.append((down, up))

    def run_round(self, method, ids):
        weights = {"0.w": torch.ones(1)}
        updates = [Update(self.clients[i], weights, {}, 4, 1, 0.0, 0, 0) for i in ids]
        method.after_updates(0, updates, self)
        return updates


@pytest.mark.parametrize("kind", ["clients", "samples"])
def test_global_prototypes_and_their_bytes(kind):
    method, federation = fedproto(prototype_mean=kind), Federation()
    client = federation.clients[0]
    assert method.memory(client, federation) == {}
    federation.run_round(method, [0, 1])
    one, two = (federation.outputs[i].features for i in (0, 1))
    # Both have one sample of class 1; the weights of the two rules differ below.
    torch.testing.assert_close(federation.state["prototypes"][0], one[:2].mean(0))
    torch.testing.assert_close(federation.state["prototypes"][1], (one[2] + two[0]) / 2)
    assert federation.state["known"].tolist() == [1, 1, 0]
    size = WIDTH * 4
    assert federation.exchanged == [(0, 3 * size)]

    before = federation.state["prototypes"]
    federation.clients[0].given = federation.clients[0].labels = torch.tensor([1, 1, 1])
    federation.run_round(method, [0, 1])
    share = 0.5 if kind == "clients" else 0.75
    expected = share * one.mean(0) + (1 - share) * two[0]
    torch.testing.assert_close(federation.state["prototypes"][1], expected)
    # A class that nobody has keeps what is known of it.
    assert torch.equal(federation.state["prototypes"][0], before[0])
    assert federation.exchanged[1] == (2 * 2 * size, 2 * size)
    assert set(method.memory(client, federation)) == {"prototypes", "known"}


def batch_of(target, memory):
    images = torch.zeros(len(target), 1)
    return Batch((images,), torch.arange(len(target)), torch.tensor(target), {}, memory)


def test_the_loss_pulls_features_to_known_prototypes_alone():
    logits = torch.randn(3, CLASSES, generator=RNG, requires_grad=True)
    features = torch.randn(3, WIDTH, generator=RNG, requires_grad=True)
    model = FakeModel(logits)
    model.__class__ = type(
        "Featured", (FakeModel,), {"__call__": lambda self, images: Outputs(logits, features)}
    )
    memory = {"prototypes": torch.randn(CLASSES, WIDTH), "known": torch.tensor([1.0, 1.0, 0.0])}
    target = [0, 1, 2]
    plain = fedproto().loss(model, batch_of(target, {}))
    entropy = torch.nn.functional.cross_entropy(logits, torch.tensor(target))
    torch.testing.assert_close(plain, entropy)
    loss = fedproto(weight=0.7).loss(model, batch_of(target, memory))
    gaps = [((features[i] - memory["prototypes"][i]) ** 2).sum() / WIDTH for i in (0, 1)]
    torch.testing.assert_close(loss, entropy + 0.7 * sum(gaps) / 3)
    (gradient,) = torch.autograd.grad(loss, [features])
    expected = 0.7 * 2 / (3 * WIDTH) * (features - memory["prototypes"]) * memory["known"][:, None]
    torch.testing.assert_close(gradient, expected.detach())


def test_faithful_keeps_networks_apart_and_takes_the_nearest_prototype():
    method, federation = fedproto(variant="faithful"), Federation()
    updates = federation.run_round(method, [0, 1])
    assert method.aggregate(updates, federation) is federation.weights
    assert method.exchange(updates, federation) == (0, 0)
    tested = method.predictors(federation)
    assert [one.weights is federation.weights for one in tested] == [False, False, True, True]
    assert [one.client.id for one in tested] == [0, 1, 2, 3]
    # A client that never took part knows the prototypes too.
    prototypes = federation.state["prototypes"]
    features = torch.randn(40, WIDTH, generator=RNG)
    logits = method.predict([Outputs(torch.zeros(40, CLASSES), features)], federation.clients[3])
    distance = np.linalg.norm(features[:, None].numpy() - prototypes[None, :2].numpy(), axis=2)
    assert logits.argmax(1).tolist() == distance.argmin(1).tolist()
    assert bool(logits.isfinite().all())


def test_aggregated_tests_the_global_model_by_its_head_or_by_prototypes():
    federation = Federation()
    method = fedproto()
    federation.run_round(method, [0, 1])
    assert method.predictors(federation) == [Predictor(federation.weights)]
    assert method.exchange([None] * 3, federation) == (12, 12)
    outputs = [Outputs(torch.randn(2, CLASSES), torch.randn(2, WIDTH))]
    assert method.predict(outputs, None) is outputs[0].logits
    near = fedproto(inference="prototype")
    (tested,) = near.predictors(federation)
    assert near.predict(outputs, tested.client) is not outputs[0].logits


def test_no_participants_no_prototypes():
    federation = Federation()
    federation.run_round(fedproto(), [])
    assert federation.state == {}


@pytest.mark.storm
def test_on_digits_features_gather_and_networks_alone_do_not_reach_the_federation(tmp_path):
    """Nothing in the pull is against wrong labels, so accuracy is only expected to be about
    FedAvg's, and that of networks which share prototypes alone to be below.
    """
    spread, last = {}, {}
    for weight, more in ((0, ""), (1, ""), (10, ""), (1, ', variant="faithful"')):
        name = f"fedproto(weight={weight}{more})"
        federation, accuracy = run_on_digits(name, tmp_path, rounds=8)
        last[name] = np.mean(accuracy[-3:])
        prototypes = federation.state["prototypes"]
        test = federation.executor.test_outputs(federation.weights, 0)
        gap = (test.features - prototypes[federation.executor.test.labels]).square().mean()
        spread[name] = float(gap / test.features.square().mean())
    free, pulled, strongly, alone = last
    assert spread[strongly] < spread[pulled] < spread[free]
    assert spread[strongly] < 0.8 * spread[free]
    assert last[pulled] > last[free] - 0.05
    assert last[alone] < last[pulled] - 0.1
