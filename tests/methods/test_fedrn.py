"""FedRN's equations on small cases, and its clean sets on noisy digits."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from fakes import FakeFederation
from noisy_digits import run_on_digits
from noisyfl.methods.fedrn import FINE_TUNING, clean_probabilities
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Task, Update
from vectors import method

fedrn = partial(method, "fedrn")


class NumberedModels(FakeFederation):
    """Clients with models that are named by a number, which says how they see each sample."""

    def __init__(self, clients=4, samples=60):
        rng = np.random.default_rng(3)
        labels = rng.integers(0, 3, samples)
        super().__init__([labels] * clients, {"model": torch.tensor(float(clients))})
        easy = rng.random((clients + 1, samples)) < 0.6
        noise = rng.normal(size=(clients + 1, samples))
        margin = torch.from_numpy(np.where(easy, 4.0, -2.0) + 0.5 * noise)
        self.logits = margin[..., None] * torch.nn.functional.one_hot(torch.from_numpy(labels), 3)
        self.trained = []
        self.executor.test.shape = (1, 4, 4)
        self.executor.outputs_of = self.of_image

    def visit(self, *numbers):
        for number in numbers:
            self.clients[number].state |= {
                "weights": {"model": torch.tensor(float(number))},
                "expertise": 0.3 + 0.1 * number,
                "answer": torch.tensor([1.0, number, -0.5 * number]),
            }

    def answer(self, request):
        return Outputs(self.logits[int(request.weights["model"])], torch.empty(0))

    def of_image(self, images, weights, network):
        self.image = images
        return Outputs(torch.full((1, 3), float(weights["model"])), torch.empty(0))

    def train(self, tasks, side, round, stage):
        assert side is FINE_TUNING
        self.trained += [(t.client.id, t.client.state["auxiliary"].clone()) for t in tasks]
        return tasks


def scaled(values):
    return (np.array(values) - min(values)) / (max(values) - min(values))


@pytest.mark.parametrize("similarity", ["logits", "softmax"])
def test_reliability_is_equation_3(similarity):
    federation = NumberedModels()
    federation.visit(0, 1, 2, 3)
    others = [federation.clients[number] for number in (0, 1, 3)]
    found = fedrn(alpha=0.6, similarity=similarity).reliability(federation.clients[2], others)
    order = (2, 0, 1, 3)
    answers = [np.array([1.0, n, -0.5 * n]) for n in order]
    if similarity == "softmax":
        answers = [np.exp(a) / np.exp(a).sum() for a in answers]
    cosine = [a @ answers[0] / np.linalg.norm(a) / np.linalg.norm(answers[0]) for a in answers]
    expected = 0.6 * scaled([0.3 + 0.1 * n for n in order]) + 0.4 * scaled(cosine)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert found[0] == pytest.approx(0.6 * 2 / 3 + 0.4)


def test_neighbours_are_the_most_reliable_of_those_seen():
    federation = NumberedModels()
    federation.visit(0, 1, 2)
    chosen, weights = fedrn(alpha=1, neighbours=1).team(federation.clients[1], 0, federation)
    assert [client.id for client in chosen] == [2]
    assert weights == pytest.approx([0.5 / 1.5, 1 / 1.5])
    # There are only two others, and the fourth client is not among them.
    chosen, _ = fedrn(neighbours=5).team(federation.clients[1], 0, federation)
    assert sorted(client.id for client in chosen) == [0, 2]
    assert fedrn().team(federation.clients[3], 0, federation) == ([], [1.0])
    chosen, weights = fedrn(variant="random_neighbours").team(federation.clients[1], 0, federation)
    assert sorted(client.id for client in chosen) == [0, 2]
    assert weights == pytest.approx([1 / 3] * 3)


def test_equal_scores_are_no_division_by_zero():
    federation = NumberedModels()
    federation.visit(1)
    for client in federation.clients[:3]:
        client.state |= federation.clients[1].state
    chosen, weights = fedrn().team(federation.clients[0], 0, federation)
    assert [client.id for client in chosen] == [1, 2]
    assert weights == pytest.approx([1 / 3] * 3)
    # With expertise alone the least expert pair has no weight at all: then all have the same.
    federation.clients[2].state = {**federation.clients[2].state, "expertise": 0.1}
    federation.clients[3].state = {**federation.clients[2].state, "expertise": 0.1}
    for client in federation.clients[:2]:
        client.state = {}
    _, weights = fedrn(alpha=1).team(federation.clients[2], 0, federation)
    assert weights == pytest.approx([0.5, 0.5])


def test_clean_probabilities_are_those_of_a_mixture():
    federation = NumberedModels()
    tasks = [Task(client, {"model": torch.tensor(2.0)}) for client in federation.clients[:2]]
    # Of another length, so that one is padded.
    client = tasks[1].client
    client.given = client.labels = client.labels[:40]
    federation.passes = lambda requests, round: [
        Outputs(federation.logits[2][: len(r.client.labels)], torch.empty(0)) for r in requests
    ]
    for task, found in zip(tasks, clean_probabilities(tasks, federation), strict=True):
        labels = task.client.labels
        loss = torch.nn.functional.cross_entropy(
            federation.logits[2][: len(labels)], labels, reduction="none"
        ).numpy()
        loss = scaled(loss)[:, None]
        mixture = GaussianMixture(2, tol=1e-2, reg_covar=5e-4, random_state=0).fit(loss)
        expected = mixture.predict_proba(loss)[:, mixture.means_.argmin()]
        assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert clean_probabilities([], federation) == []


def test_equal_losses_are_all_clean():
    federation = NumberedModels()
    federation.logits = torch.zeros_like(federation.logits)
    (found,) = clean_probabilities([Task(federation.clients[0], federation.weights)], federation)
    assert found.tolist() == pytest.approx([1.0] * 60)
    assert bool(
        fedrn().probably_clean(torch.tensor([0.5, 0.1, 0.6])).all()
    )  # one is too few for a batch
    assert fedrn().probably_clean(torch.tensor([0.5, 0.7, 0.6])).tolist() == [False, True, True]


@pytest.mark.parametrize("target_model", ["stale", "received"])
def test_the_clean_set_is_equation_7(target_model):
    federation = NumberedModels()
    federation.visit(0, 1, 2, 3)
    method = fedrn(warm_up_rounds=4, target_model=target_model)
    client = federation.clients[1]
    method.before_round(3, [client], federation)
    assert "clean" not in client.state
    assert method.positions(client).tolist() == list(range(60))

    method.before_round(4, [client], federation)
    neighbours, weights = method.team(client, 4, federation)
    own = {"stale": 1.0, "received": 4.0}[target_model]
    models = [own, *(float(neighbour.id) for neighbour in neighbours)]
    parts = clean_probabilities(
        [Task(client, {"model": torch.tensor(model)}) for model in models], federation
    )
    clean = sum(v * p for v, p in zip(weights, parts, strict=True)) > 0.5
    assert len(models) == 3
    assert not torch.equal(clean, parts[0] > 0.5)
    assert torch.equal(client.state["clean"], clean)
    assert method.positions(client).tolist() == clean.nonzero()[:, 0].tolist()
    assert method.size(client) == 60
    assert [number for number, _ in federation.trained] == [1, 1]
    assert torch.equal(federation.trained[0][1], parts[0] > 0.5)
    assert "auxiliary" not in client.state
    assert federation.bytes == (2 * 4, 0)  # two models of one float, down
    assert torch.equal(dict(federation.selections)[1], clean)

    trained = len(federation.trained)
    fedrn(warm_up_rounds=0, finetune=False).before_round(4, [client], federation)
    assert len(federation.trained) == trained


def test_fine_tuning_is_one_epoch_of_the_classifier_on_the_auxiliary_set():
    schedule = Schedule(
        rounds=1, participation=1.0, local_epochs=5, batch_size=4, learning_rate=0.1
    )
    assert FINE_TUNING.local_schedule(0, schedule).local_epochs == 1
    client = NumberedModels().clients[0]
    client.state["auxiliary"] = torch.arange(60) % 6 == 0
    epoch = FINE_TUNING.epoch(client, Turn(1, 0, "", 0, 0, 4, None))
    assert epoch.learns == "0.classifier"
    assert sorted(np.concatenate(epoch.steps)) == list(range(0, 60, 6))


def test_what_the_server_keeps():
    federation = NumberedModels()
    client = federation.clients[0]
    weights = {"model": torch.tensor(2.0)}
    fedrn().after_updates(0, [Update(client, weights, {}, 60, 1, 0.0, 60, 60)], federation)
    right = federation.logits[2].argmax(1) == client.labels
    assert client.state["expertise"] == pytest.approx(float(right.double().mean()))
    assert 0.3 < client.state["expertise"] < 1
    assert client.state["answer"].tolist() == [2.0] * 3
    assert client.state["weights"] is weights
    first = federation.image
    fedrn().after_updates(7, [Update(client, weights, {}, 60, 1, 0.0, 60, 60)], federation)
    assert first.shape == (1, 1, 4, 4)
    assert torch.equal(first, federation.image)  # one image for the whole run


@pytest.mark.slow
def test_on_noisy_digits(tmp_path):
    """Clean sets are far cleaner than the labels, and outputs on given images are counted."""
    method = {"name": "fedrn", "warm_up_rounds": 8}
    federation, accuracy = run_on_digits(method, tmp_path, rounds=12)
    rounds = federation.records.rounds
    assert rounds[7]["label_precision"] != rounds[7]["label_precision"]  # null in the warm-up
    assert rounds[-1]["label_precision"] > 0.5 + 0.2
    assert rounds[-1]["label_recall"] > 0.7
    assert rounds[-1]["bytes_down"] > 2.9 * rounds[-1]["bytes_up"]
    assert accuracy[-1] > 0.6

    executor = federation.executor
    images = executor._show("plain", executor.test.pixels[:3], None)
    before = federation.records.forward
    found = federation.outputs_of(images, federation.weights).logits
    expected = executor.test_outputs(federation.weights, 0).logits[:3]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert federation.records.forward == before + 3


@pytest.mark.parametrize("neighbours", [1, 2])
@pytest.mark.slow
def test_its_cost_is_that_of_table_10(tmp_path, neighbours):
    """Where every sample is taken for clean, a local update is E + 2k + 1 passes forward and E + k
    backward; the paper leaves out the pass that measures the training accuracy, and one image.
    """
    method = {"name": "fedrn", "warm_up_rounds": 1, "neighbours": neighbours, "threshold": 0.0}
    federation, _ = run_on_digits(method, tmp_path, rounds=2, local_epochs=3)
    samples, clients = sum(map(len, federation.clients)), len(federation.clients)
    last = federation.records.rounds[-1]
    assert last["samples_forward"] == (3 + 2 * neighbours + 1) * samples + samples + clients
    assert last["samples_backward"] == (3 + neighbours) * samples
    size = sum(4 * weight.numel() for weight in federation.weights.values())
    assert last["bytes_down"] == clients * (neighbours + 1) * size
    assert last["bytes_up"] == clients * (size + 4 * (1 + 10))  # an accuracy and ten logits
