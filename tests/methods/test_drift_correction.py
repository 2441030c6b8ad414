"""SCAFFOLD and FedDyn on losses whose minimum is known, and their equations by hand."""

import math

import numpy as np
import pytest
import torch

from fakes import FakeFederation, FakeModel
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.updates import Batch, Update
from vectors import method

CURVATURE = torch.tensor([[1.0, 4.0], [3.0, 0.5], [0.2, 2.0], [2.0, 1.0]], dtype=torch.float64)
CENTRE = torch.tensor([[0.0, 1.0], [2.0, -3.0], [-4.0, 0.5], [1.0, 5.0]], dtype=torch.float64)
MINIMUM = (CURVATURE * CENTRE).sum(0) / CURVATURE.sum(0)
"""Of the mean over the clients of sum(curvature / 2 (w - centre)^2)."""


def model_of(weights):
    """A model that was received as some weights, two of them trainable."""
    received = {name: value for name, value in weights.items() if "running" not in name}
    own = {name: value.clone().requires_grad_() for name, value in received.items()}
    return FakeModel(torch.zeros(1, 2), own, received)


class Quadratic(FakeFederation):
    """Clients with a quadratic loss each, and full gradients in the place of batches."""

    def __init__(self, sizes=(3, 3, 3, 3), momentum=0.0, steps=6, rate=0.05):
        zero = torch.zeros(1, dtype=torch.float64)
        weights = {
            "0.a.weight": zero,
            "0.norm.running_mean": zero,
            "0.b.weight": zero.reshape(1, 1),
        }
        labels = [[0] * size for size in sizes]
        super().__init__(
            labels, weights, local_epochs=steps, learning_rate=rate, momentum=momentum, rounds=1
        )
        self.steps = steps

    def local_update(self, side, client, round):
        model = model_of(self.weights)
        schedule = side.local_schedule(round, self.schedule)
        optimizer = Optimizer(model.weights, schedule)
        memory = {name: value.clone() for name, value in side.memory(client, self).items()}
        steps = self.steps if len(client) else 0
        for _ in range(steps):
            number = torch.tensor([client.id])
            batch = Batch((torch.empty(1),), number, number, {}, memory)
            optimizer.step(side.loss(model, batch))
        weights = {**self.weights, **{k: v.detach().clone() for k, v in model.weights.items()}}
        weights["0.norm.running_mean"] = torch.tensor([float(client.id)], dtype=torch.float64)
        return Update(client, weights, memory, float(len(client)), steps, 0.0, 0, 0)

    def run_round(self, side, round=0, participants=None):
        chosen = self.clients if participants is None else [self.clients[i] for i in participants]
        updates = [self.local_update(side, client, round) for client in chosen]
        side.after_updates(round, updates, self)
        self.weights = side.aggregate(updates, self)
        return updates


def vector(weights):
    return torch.cat([weights["0.a.weight"], weights["0.b.weight"].reshape(-1)]).detach()


@pytest.fixture
def quadratic(monkeypatch):
    """What a client side descends on besides its own term."""

    def loss(self, model, batch):
        number = int(batch.target)
        return (CURVATURE[number] / 2 * (vector_of(model) - CENTRE[number]).square()).sum()

    def vector_of(model):
        return torch.cat([model.weights["0.a.weight"], model.weights["0.b.weight"].reshape(-1)])

    monkeypatch.setattr(ClientSide, "loss", loss)


def distance_after(side, federation, rounds, share=1.0):
    rng = np.random.default_rng(0)
    for round in range(rounds):
        count = int(share * len(federation.clients))
        federation.run_round(side, round, rng.permutation(len(federation.clients))[:count])
    (tested,) = side.predictors(federation)
    return float((vector(tested.weights) - MINIMUM).norm())


# ---------------------------------------------------------------- where they lead


def test_fedavg_stops_beside_the_minimum(quadratic):
    assert distance_after(method("fedavg"), Quadratic(steps=8, rate=0.1), 60) > 0.1


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(
    ("name", "options", "momentum"),
    [
        ("scaffold", {}, 0.0),
        ("scaffold", {}, 0.5),
        ("scaffold", {"momentum": "off"}, 0.5),
        ("scaffold", {"server_learning_rate": 0.7}, 0.0),
        ("feddyn", {"alpha": 1.0}, 0.5),
        ("feddyn", {"alpha": 1.0, "tested_model": "server"}, 0.0),
        ("feddyn", {"alpha": 1.0, "momentum": True}, 0.5),
    ],
)
@pytest.mark.slow
def test_drift_correction_reaches_the_minimum(name, options, momentum, share, quadratic):
    """With the clients of each round drawn anew, and many local steps."""
    federation = Quadratic(steps=8, momentum=momentum, rate=0.1)
    assert distance_after(method(name, **options), federation, 60, share) < 1e-3


@pytest.mark.slow
def test_with_a_clients_own_alpha_feddyn_reaches_another_minimum(quadratic):
    """That of the losses weighted by size: alpha is divided by it."""
    sizes = (1, 2, 4, 5)
    federation = Quadratic(sizes=sizes, steps=15, rate=0.2)
    side = method("feddyn", alpha=1.0, alpha_by_size=True)
    distance_after(side, federation, 30)
    weight = torch.tensor(sizes, dtype=torch.float64)[:, None] * CURVATURE
    expected = (weight * CENTRE).sum(0) / weight.sum(0)
    (tested,) = side.predictors(federation)
    assert vector(tested.weights).tolist() == pytest.approx(expected.tolist(), abs=1e-3)


# ---------------------------------------------------------------- scaffold


def test_control_variates_are_mean_gradients(quadratic):
    """In the first round nothing is corrected, and c_i is the mean of the gradients on the way."""
    federation = Quadratic(steps=3, rate=0.1)
    side = method("scaffold")
    federation.run_round(side, participants=[1, 2])
    for number in (1, 2):
        w, gradients = torch.zeros(2, dtype=torch.float64), []
        for _ in range(3):
            gradients.append(CURVATURE[number] * (w - CENTRE[number]))
            w = w - 0.1 * gradients[-1]
        found = federation.clients[number].state["control"]
        assert found.tolist() == pytest.approx(torch.stack(gradients).mean(0).tolist())
    total = sum(federation.clients[number].state["control"] for number in (1, 2))
    # Over all four clients, two of which are still at 0.
    assert federation.state["control"].tolist() == pytest.approx((total / 4).tolist())
    assert "control" not in federation.clients[0].state


@pytest.mark.parametrize("momentum", ["corrected", "off"])
def test_momentum_leaves_constant_gradients_what_they_are(momentum, monkeypatch):
    """A loss of constant gradient: whatever the momentum, c_i is that gradient."""
    slope = torch.tensor([2.0, -3.0], dtype=torch.float64)
    monkeypatch.setattr(
        ClientSide,
        "loss",
        lambda self, model, batch: (
            (model.weights["0.a.weight"] * slope[0]).sum()
            + (model.weights["0.b.weight"] * slope[1]).sum()
        ),
    )
    federation = Quadratic(steps=5, momentum=0.7)
    federation.run_round(method("scaffold", momentum=momentum))
    for client in federation.clients:
        assert client.state["control"].tolist() == pytest.approx(slope.tolist())
    # As written, the momentum's part comes on top: v_k = (1 - 0.7^k) / 0.3 in step k.
    federation = Quadratic(steps=5, momentum=0.7)
    federation.run_round(method("scaffold", momentum="as_written"))
    factor = np.mean([(1 - 0.7**step) / 0.3 for step in range(1, 6)])
    expected = (factor * slope).tolist()
    assert federation.state["control"].tolist() == pytest.approx(expected)


def test_the_servers_control_is_the_mean_of_all_clients(quadratic):
    federation = Quadratic(momentum=0.5)
    for round, participants in enumerate([[0, 1], [1, 3], [2, 0], [3, 1]]):
        federation.run_round(method("scaffold"), round, participants)
    controls = [client.state["control"] for client in federation.clients]
    mean = torch.stack(controls).mean(0)
    assert federation.state["control"].tolist() == pytest.approx(mean.tolist())


def test_the_correction_is_the_gradient_of_its_term():
    federation = Quadratic()
    client = federation.clients[0]
    federation.state["control"] = torch.tensor([5.0, 1.0], dtype=torch.float64)
    client.state["control"] = torch.tensor([2.0, 4.0], dtype=torch.float64)
    side = method("scaffold")
    memory = side.memory(client, federation)
    model = model_of(federation.weights)
    batch = Batch((torch.empty(1),), torch.tensor([0]), torch.tensor([1]), {}, memory)
    loss = side.loss(model, batch)
    assert float(loss.detach()) == pytest.approx(math.log(2))  # the model has not moved
    gradients = torch.autograd.grad(loss, list(model.weights.values()))
    assert [float(gradient) for gradient in gradients] == [3.0, -3.0]


def test_scaffold_server_step(quadratic):
    """x + eta_g times the plain mean of the changes; buffers are plain means."""
    federation = Quadratic(sizes=(1, 9, 1, 1))
    updates = federation.run_round(
        method("scaffold", server_learning_rate=0.5), participants=[0, 1]
    )
    mean = torch.stack([vector(update.weights) for update in updates]).mean(0)
    assert vector(federation.weights).tolist() == pytest.approx((0.5 * mean).tolist())
    assert float(federation.weights["0.norm.running_mean"]) == 0.5


def test_scaffold_exchanges_control_variates_too(quadratic):
    federation = Quadratic()
    updates = federation.run_round(method("scaffold"), participants=[0, 1, 2])
    # Three participants, a model of three numbers with a buffer, and two parameters' controls.
    assert method("scaffold").exchange(updates, federation) == (3 * 5 * 8,) * 2


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_a_client_without_samples_changes_nothing(name, quadratic):
    federation = Quadratic(sizes=(0, 4, 4, 4))
    federation.run_round(method(name), participants=[0, 2])
    assert not federation.clients[0].state
    alone = Quadratic(sizes=(0, 4, 4, 4))
    alone.run_round(method(name), participants=[2])
    assert torch.equal(vector(federation.weights), vector(alone.weights))


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_what_is_kept_is_replaced_and_not_written(name, quadratic):
    """A run that ends in the middle of a round goes back to what was kept before it."""
    federation = Quadratic()
    side = method(name)
    federation.run_round(side)
    held = [dict(federation.state), *(dict(client.state) for client in federation.clients)]
    copies = [
        {key: value.clone() for key, value in state.items() if torch.is_tensor(value)}
        for state in held
    ]
    federation.run_round(side, 1)
    for state, copy in zip(held, copies, strict=True):
        for key, value in copy.items():
            assert torch.equal(state[key], value), key


# ---------------------------------------------------------------- feddyn


def paper_feddyn(alpha, steps, rate, rounds):
    """Algorithm 1 as the paper writes it, with gradients g_k and the server's h."""
    clients = len(CENTRE)
    gradient = [torch.zeros(2, dtype=torch.float64) for _ in range(clients)]
    h = x = torch.zeros(2, dtype=torch.float64)
    for participants in rounds:
        local = []
        for k in participants:
            w = x
            for _ in range(steps):
                slope = CURVATURE[k] * (w - CENTRE[k]) - gradient[k] + alpha * (w - x)
                w = w - rate * slope
            gradient[k] = gradient[k] - alpha * (w - x)
            local.append(w)
        h = h - alpha / clients * sum(w - x for w in local)
        mean = sum(local) / len(local)
        x = mean - h / alpha
    return gradient, mean, x


def test_feddyn_is_the_papers_algorithm_in_other_words(quadratic):
    rounds = [[0, 1], [1, 3], [2, 0], [3, 1]]
    federation = Quadratic(steps=4, rate=0.05, momentum=0.9)
    side = method("feddyn", alpha=0.3)
    for round, participants in enumerate(rounds):
        federation.run_round(side, round, participants)
    gradient, mean, x = paper_feddyn(0.3, 4, 0.05, rounds)
    for client, expected in zip(federation.clients, gradient, strict=True):
        assert (-0.3 * client.state["drift"]).tolist() == pytest.approx(expected.tolist())
    assert vector(federation.weights).tolist() == pytest.approx(x.tolist())
    (tested,) = side.predictors(federation)
    assert vector(tested.weights).tolist() == pytest.approx(mean.tolist())
    (server,) = method("feddyn", tested_model="server").predictors(Quadratic())
    assert float(vector(server.weights).norm()) == 0


def test_feddyns_schedule():
    schedule = Quadratic(momentum=0.5).schedule
    plain = method("feddyn").local_schedule(0, schedule)
    assert (plain.momentum, plain.clip_norm) == (0.0, 10.0)
    kept = method("feddyn", momentum=True, clip_norm=None).local_schedule(0, schedule)
    assert (kept.momentum, kept.clip_norm) == (0.5, None)
    assert method("scaffold").local_schedule(0, schedule) == schedule
    assert method("scaffold", variant="without_momentum").local_schedule(0, schedule).momentum == 0


def test_feddyns_terms_pull_as_the_equation_says():
    """alpha (d + theta_k - theta), with alpha 0.5."""
    federation = Quadratic(sizes=(3, 9, 3, 3))
    client = federation.clients[1]
    client.state["drift"] = torch.tensor([2.0, 4.0], dtype=torch.float64)
    side = method("feddyn", alpha=0.5)
    batch = Batch(
        (torch.empty(1),),
        torch.tensor([0]),
        torch.tensor([1]),
        {},
        side.memory(client, federation),
    )
    model = model_of(federation.weights)
    with torch.no_grad():
        model.weights["0.a.weight"] += 6.0
    gradients = torch.autograd.grad(side.loss(model, batch), list(model.weights.values()))
    assert [float(gradient) for gradient in gradients] == [0.5 * (2 + 6), 0.5 * 4]
    by_size = method("feddyn", alpha=0.5, alpha_by_size=True).memory(client, federation)
    assert float(by_size["alpha"]) == pytest.approx(0.5 / 2)  # nine samples; the mean is 4.5
