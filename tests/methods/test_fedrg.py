"""FedRG's two stages and what they keep; conformance has the official code's numbers."""

import math

import pytest
import torch
from test_robust_losses import turn

from fakes import FakeFederation
from noisy_digits import run_on_digits
from noisyfl.methods.estimators.directions import PARTS
from noisyfl.methods.fedrg import (
    ABSORPTION,
    BODY,
    CLEAN,
    MIXTURE,
    PROJECTOR,
    contrast,
    descend,
    leaf_copies,
    project,
)
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Update
from vectors import method

CLASSES, WIDTH = 3, 4
WEIGHTS = {
    "0.body.weight": torch.zeros(WIDTH, 2),
    "1.body.weight": torch.zeros(WIDTH, 2),  # of a server side that adds a network (apfl)
    "0.classifier.weight": torch.zeros(CLASSES, WIDTH),
}
NAMES = [
    f"{PROJECTOR}.{name}"
    for name in (
        "hidden.weight",
        "hidden.bias",
        "output.weight",
        "output.bias",
        "norm.weight",
        "norm.bias",
    )
]


class Seeing(FakeFederation):
    """Two clients, whose samples have one-hot features of the class that they really have."""

    def __init__(self, **schedule):
        super().__init__([[0, 1, 2, 0, 1, 1], [0, 1]], WEIGHTS, **schedule)
        self.features = [torch.eye(WIDTH)[[0, 1, 2, 0, 1, 2]], torch.eye(WIDTH)[[0, 1]]]

    def answer(self, request):
        features = self.features[request.client.id]
        return Outputs(torch.zeros(len(features), CLASSES), features)


def test_the_contrast_of_two_images_by_hand():
    projected = torch.tensor([[2.0, 0], [0, 3], [1, 1], [0, 5]])
    half = math.sqrt(0.5)
    similar = [[1, 0, half, 0], [0, 1, half, 1], [half, half, 1, half], [0, 1, half, 1]]
    losses = []
    for row, other in enumerate((2, 3, 0, 1)):
        parts = {place: math.exp(similar[row][place] / 0.5) for place in range(4) if place != row}
        losses.append(-math.log(parts[other] / sum(parts.values())))
    assert float(contrast(projected, 0.5)) == pytest.approx(sum(losses) / 4)
    assert float(contrast(torch.ones(2, 3), 0.07)) == 0


def test_the_pretraining_trains_all_but_the_classifier_and_the_projector():
    federation = Seeing(weight_decay=0.25)
    side = method("fedrg", pretraining_rounds=2)
    client = federation.clients[0]
    side.before_round(0, [client], federation)
    assert client.state[BODY] == ["0.body.weight"]
    epoch = side.epoch(client, turn(0))
    assert (epoch.learns, epoch.views) == (("0.body.weight",), ("weak", "strong3"))
    memory = side.memory(client, federation)
    assert [name for name in memory if name.startswith(PROJECTOR)] == NAMES
    assert memory["projector.hidden.weight"].shape == (8 * WIDTH, WIDTH)
    assert memory["projector.output.weight"].shape == (4 * WIDTH, 8 * WIDTH)
    bound = 1 / math.sqrt(WIDTH)
    assert 0.9 * bound < float(memory["projector.hidden.weight"].abs().max()) <= bound
    assert memory["sgd"].tolist() == pytest.approx([0.1, 0, 0.25])
    narrow = method("fedrg", projector_hidden=5, projector_output=2)
    assert narrow.memory(client, federation)["projector.output.weight"].shape == (2, 5)
    federation.round = 2
    assert side.epoch(client, turn(2)).learns == ""
    assert set(side.memory(client, federation)) == {
        *PARTS,
        ABSORPTION,
        f"velocity of {ABSORPTION}",
        CLEAN,
        "sgd",
    }
    assert side.memory(client, federation)["sgd"][2] == 0


def test_the_projector_is_averaged_and_dropped_after_the_pretraining():
    federation = Seeing()
    side = method("fedrg", pretraining_rounds=1)
    updates = []
    for client, value in zip(federation.clients, (1.0, 5.0), strict=True):
        side.before_round(0, [client], federation)
        memory = side.memory(client, federation)
        told = {name: torch.full_like(memory[name], value) for name in NAMES}
        updates.append(Update(client, WEIGHTS, {**memory, **told}, len(client), 1, 0.0, 1, 1))
    side.after_updates(0, updates, federation)
    mean = (6 * 1 + 2 * 5) / 8
    assert all(bool((value == mean).all()) for value in federation.state[PROJECTOR].values())
    numbers = sum(value.numel() for value in federation.state[PROJECTOR].values())
    assert federation.bytes == (2 * 4 * numbers, 2 * 4 * numbers)
    assert BODY not in federation.clients[0].state
    federation.round = 1
    memory = side.memory(federation.clients[0], federation)
    update = Update(federation.clients[0], WEIGHTS, memory, 6, 1, 0.0, 1, 1)
    side.after_updates(1, [update], federation)
    assert PROJECTOR not in federation.state


def test_weights_in_the_memory_descend_as_the_model_does():
    rates = {"learning_rate": 0.3, "momentum": 0.9, "weight_decay": 0.2}
    schedule = Schedule(rounds=1, participation=1, local_epochs=1, batch_size=1, **rates)
    start = torch.tensor([1.0, -2.0])
    memory = {
        "w": start.clone(),
        "velocity of w": torch.zeros(2),
        "sgd": torch.tensor([0.3, 0.9, 0.2]),
    }
    weight = start.clone().requires_grad_()
    optimizer = Optimizer({"w": weight}, schedule)
    for _ in range(3):
        trained = leaf_copies(memory, ["w"])
        descend((trained["w"] ** 3).sum(), trained, memory)
        optimizer.step((weight**3).sum())
    torch.testing.assert_close(memory["w"], weight.detach())


def test_the_projector_normalises_by_the_batch():
    weights = {name: torch.ones(2) for name in NAMES}
    weights |= {"projector.hidden.weight": torch.eye(2), "projector.output.weight": torch.eye(2)}
    weights |= {"projector.hidden.bias": torch.zeros(2), "projector.norm.bias": torch.zeros(2)}
    found = project(torch.tensor([[0.0, 4.0], [2.0, 0.0]]), weights)
    torch.testing.assert_close(found, torch.tensor([[1.0, 2.0], [2.0, 1.0]]), atol=1e-4, rtol=0)


class Fixed:
    """A model that says given logits and features, and remembers the images that it looked at."""

    def __init__(self, logits, features):
        self.answer = Outputs(logits, features)

    def __call__(self, images):
        return self.answer

    def look(self, images):
        self.looked = images
        return self.answer


def step_of(side, federation, logits, clean=None):
    """The loss of a batch of the first client's samples, and the memory after it."""
    client = federation.clients[0]
    client.state[MIXTURE] = {
        "directions": torch.eye(WIDTH)[:CLASSES].clone(),
        "concentrations": torch.full((CLASSES,), 20.0),
        "shares": torch.full((CLASSES,), 1 / CLASSES),
        "background": torch.tensor(0.05),
        "evidence": torch.eye(CLASSES),
        "median": torch.tensor(0.0),
    }
    if clean is not None:
        client.state[CLEAN] = clean
    memory = {name: value.clone() for name, value in side.memory(client, federation).items()}
    views = torch.zeros(6, 1), torch.ones(6, 1)
    batch = Batch(views, torch.arange(6), client.labels, {}, memory)
    model = Fixed(logits, federation.features[0])
    loss = side.loss(model, batch)
    assert model.looked is views[1]
    return float(loss.detach()), memory


LOGITS = torch.linspace(-1, 2, 18).reshape(6, 3).sin() * 2


def test_a_sample_is_noisy_if_it_lies_where_its_label_does_not():
    federation = Seeing(momentum=0.5, weight_decay=0.5)
    side = method("fedrg", pretraining_rounds=0)
    logits = LOGITS.clone().requires_grad_()
    loss, memory = step_of(side, federation, logits)
    assert memory[CLEAN].tolist() == [True] * 5 + [False]
    labels = federation.clients[0].labels
    probability = LOGITS.softmax(1)
    own = side.losses(LOGITS, labels).mean()
    absorbed = -probability[5, labels[5]].log()  # the matrix is the identity
    assert loss == pytest.approx(float(0.4 * own + absorbed), rel=1e-5)
    # The gradient of -log (p A)_1 at the identity is -p_c / p_1, in column 1.
    matrix = torch.eye(3)
    matrix[:, 1] += 0.1 * probability[5] / probability[5, 1]
    matrix = matrix.clamp(min=1e-6)
    torch.testing.assert_close(memory[ABSORPTION], matrix / matrix.sum(1, keepdim=True))
    assert float(memory["median"]) > 0
    assert not torch.equal(memory["evidence"], torch.eye(CLASSES))


def test_the_split_of_a_round_is_kept_during_it():
    federation = Seeing()
    side = method("fedrg", pretraining_rounds=0, split="round")
    client = federation.clients[0]
    said = torch.tensor([False, True, True, True, True, True])
    _, memory = step_of(side, federation, LOGITS.clone().requires_grad_(), said)
    assert torch.equal(memory[CLEAN], said)
    side.before_round(0, [client], federation)
    assert client.state[CLEAN].tolist() == [True] * 5 + [False]
    assert [request.view for request in federation.requests] == ["weak", "strong3"]
    side.after_updates(0, [Update(client, WEIGHTS, memory, 6, 1, 0.0, 1, 1)], federation)
    assert CLEAN not in client.state
    assert federation.reports[0]["estimated_noise_level"] == pytest.approx(1 / 6)
    assert set(client.state[MIXTURE]) == set(PARTS)


@pytest.mark.parametrize("whose", ["personal", "shared"])
def test_whose_noise_absorption_matrix_it_is(whose):
    federation = Seeing()
    side = method("fedrg", pretraining_rounds=0, absorption=whose)
    updates = []
    for client, value in zip(federation.clients, (1.0, 5.0), strict=True):
        memory = {**side.memory(client, federation), ABSORPTION: torch.full((3, 3), value)}
        updates.append(Update(client, WEIGHTS, memory, len(client), 1, 0.0, 1, 1))
    side.after_updates(0, updates, federation)
    told = [float(side.matrix(client, federation)[0, 0]) for client in federation.clients]
    assert told == ([1, 5] if whose == "personal" else [2, 2])
    assert federation.bytes == ((0, 0) if whose == "personal" else (2 * 36, 2 * 36))


@pytest.mark.storm
def test_it_keeps_more_than_fedavg_and_finds_clean_samples_on_digits(tmp_path):
    run, accuracies = run_on_digits(
        "fedrg(pretraining_rounds=0, strong_view='strong')", tmp_path, rounds=12
    )
    _, plain = run_on_digits("fedavg", tmp_path, rounds=12)
    assert max(accuracies) > max(plain)
    # Half of the labels are right.
    assert run.records.rounds[-1]["label_precision"] > 0.85
