"""FedNed's rounds: who is called noisy, and what becomes of it; vectors are in conformance."""

import math

import pytest
import torch
from torch.nn import functional

from fakes import FakeFederation
from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.fedned import (
    EXTREME,
    PUBLIC,
    NegativeDistillation,
    bad_targets,
    public_client,
    uncertainty,
)
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update
from vectors import method

CLASSES = 4


def weights_of(scale):
    """A classifier of features, which says the more surely what it says the larger its weights."""
    return {
        "0.classifier.weight": scale * torch.eye(CLASSES),
        "0.classifier.bias": torch.zeros(CLASSES),
    }


class Federation(FakeFederation):
    """Images that are features, and clients whose models are as sure as their scale."""

    def __init__(self, clients):
        super().__init__([[0, 1, 2, 3]] * clients, weights=weights_of(1.0))
        self.trained = []

    def answer(self, request):
        features = functional.one_hot(request.client.rows, CLASSES).float()
        return Outputs(features @ request.weights["0.classifier.weight"].T, features)

    def train(self, tasks, side, round, purpose):
        self.trained.append((purpose, [task.client.id for task in tasks]))
        return [Update(task.client, task.weights, {}, 4, 1, 0.0, 1, 1) for task in tasks]


def updates_of(federation, scales):
    return [
        Update(client, weights_of(scale), {}, 4, 1, 0.0, 1, 1)
        for client, scale in zip(federation.clients, scales, strict=True)
    ]


def aggregate(side, federation, scales, round=10):
    federation.round = round
    side.begin(federation)
    federation.state[PUBLIC] = torch.arange(CLASSES)
    return side.aggregate(updates_of(federation, scales), federation)


def test_a_model_that_says_one_thing_is_certain_and_one_that_says_all_is_not():
    features = torch.eye(CLASSES)
    kept = torch.ones(3, CLASSES, CLASSES, dtype=torch.bool)
    sure, torn = (
        uncertainty(features, weights_of(scale), kept, 0.3).item() for scale in (100.0, 0.0)
    )
    assert sure == pytest.approx(0, abs=1e-6)
    assert torn == pytest.approx(CLASSES * math.log(CLASSES))


def test_during_the_warm_up_nobody_is_judged():
    federation = Federation(3)
    found = aggregate(method("fedned"), federation, [1.0, 2.0, 6.0], round=9)
    assert found["0.classifier.weight"][0, 0] == pytest.approx(3)
    assert federation.requests == []


def test_uncertain_models_are_left_out_and_teach_what_is_wrong():
    federation = Federation(3)
    side = method("fedned", most_uncertain=1.5)
    found = aggregate(side, federation, [9.0, 11.0, 0.0])
    assert found["0.classifier.weight"][0, 0] == pytest.approx(10)
    assert [EXTREME in client.state for client in federation.clients] == [False, False, True]
    assert federation.trained[-1][0] == "negative distillation"
    assert [federation.reports[k]["aggregation_weight"] for k in range(3)] == [0.5, 0.5, 0]
    assert [federation.reports[k]["called_noisy"] for k in range(3)] == [0, 0, 1]


def test_a_client_once_called_noisy_trains_a_bad_teacher_and_may_count_again():
    federation = Federation(3)
    side = method("fedned", most_uncertain=1.5)
    federation.clients[2].state[EXTREME] = True
    found = aggregate(side, federation, [9.0, 9.0, 12.0])
    assert federation.trained[0] == ("bad teachers", [2])
    assert found["0.classifier.weight"][0, 0] == pytest.approx(10)
    assert federation.reports[2]["aggregation_weight"] == pytest.approx(1 / 3)
    assert federation.bytes[1] > 0


def test_a_model_that_is_no_number_is_noisy_and_the_others_are_judged_without_it():
    federation = Federation(3)
    found = aggregate(method("fedned", most_uncertain=1.5), federation, [9.0, 9.0, math.nan])
    assert federation.clients[2].state[EXTREME]
    assert torch.isfinite(found["0.classifier.weight"]).all()


@pytest.mark.parametrize("unconfident", ["left_out", "learnt"])
def test_only_confident_pseudo_labels_are_learnt(unconfident):
    side = method("fedned", unconfident=unconfident, labelled_by="local")
    logits = torch.tensor([[9.0, 0, 0, 0], [1.0, 0, 0, 0]])
    batch = Batch((logits,), torch.arange(2), torch.tensor([1, 1]), {"confidence": 0.95}, {})
    found = side.loss(lambda images: Outputs(images, images), batch)
    losses = functional.cross_entropy(logits, torch.tensor([0, 0]), reduction="none")
    wanted = losses[0] / 2 if unconfident == "left_out" else losses.mean() / 2
    assert found.item() == pytest.approx(wanted.item())


def test_pseudo_labels_are_the_received_models():
    batch = Batch(
        (torch.zeros(1, CLASSES),), torch.arange(1), torch.tensor([1]), {"confidence": 0.5}, {}
    )

    class Model:
        def __call__(self, images):
            return Outputs(torch.tensor([[9.0, 0, 0, 0]]), images)

        def received(self, images):
            return Outputs(torch.tensor([[0, 0, 9.0, 0]]), images)

    found = method("fedned").loss(Model(), batch)
    wanted = functional.cross_entropy(torch.tensor([[9.0, 0, 0, 0]]), torch.tensor([2]))
    assert found.item() == pytest.approx(wanted.item())


def test_negative_distillation_leads_away_from_what_bad_teachers_say():
    """A bad teacher's largest logits have the smallest reciprocals."""
    targets = bad_targets([torch.tensor([[8.0, 0.5, 0.5, 0.5]])], temperature=2.0)
    assert targets["target"].argmin() == 0
    logits = torch.zeros(1, CLASSES, requires_grad=True)
    side = NegativeDistillation(steps=1, learning_rate=1.0, temperature=2.0)
    batch = Batch((logits,), torch.arange(1), torch.zeros(1, dtype=torch.long), {}, targets)
    loss = side.loss(lambda images: Outputs(images, images), batch)
    (gradient,) = torch.autograd.grad(loss, [logits])
    assert (logits - gradient).argmin() == 0


def test_public_images_have_no_labels():
    federation = Federation(2)
    method("fedned", public_samples=5).begin(federation)
    public = public_client(federation)
    assert len(public) == 5
    assert not public.truth_known


@pytest.mark.slow
def test_it_finds_noisy_clients_of_digits(tmp_path):
    federation, accuracies = run_on_digits(
        "fedned(warm_up_rounds=3)", tmp_path, SOME_CLIENTS, rounds=7
    )
    for client in federation.clients:
        assert (EXTREME in client.state) == (client.noise_level > 0)
    assert accuracies[-1] > 0.75
