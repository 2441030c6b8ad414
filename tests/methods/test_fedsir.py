"""FedSIR's rounds, its split of clients and its new labels; conformance has the code's numbers."""

import math

import numpy as np
import pytest
import torch
from test_robust_losses import Saying, batch_of, turn

from fakes import FakeFederation
from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.estimators.subspaces import Subspace, best_classes, spectrum
from noisyfl.methods.fednoro import NOISY
from noisyfl.methods.fedsir import CLEAN_MODEL, DISTILLED, clean_rows
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Update
from vectors import method

AXES = torch.eye(4)


def test_a_spectrum_by_hand():
    """Singular values 12, 0.8 and 0.5: the first is more than ten times the others' sum of 1.3, and
    not more than 9.3 times, so it takes two to dominate by rho = 10.
    """
    features = torch.diag(torch.tensor([0.8, 12.0, 0.5, 0.0]))
    found = spectrum(features, 9)
    assert found.samples == 4
    assert found.gap == pytest.approx(11.2 / 12)
    assert found.share == pytest.approx(12 / 13.3)
    assert found.dominant.abs().tolist() == [0, 1, 0, 0]
    assert found.residual.abs()[:2].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert spectrum(features, 10).residual.abs()[0].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("features", [torch.zeros(3, 4), torch.full((2, 4), math.nan)])
def test_features_that_say_nothing_have_no_spectrum(features):
    assert spectrum(features, 10) is None


def test_a_sample_gets_the_class_that_both_scores_are_for():
    subspaces = [Subspace(AXES[0], AXES[[1]]), Subspace(AXES[1], AXES[[3]]), None]
    subspaces = [
        one and Subspace(one.dominant.double(), one.residual.double()) for one in subspaces
    ]
    features = torch.tensor([[3.0, 0, 0, 1], [1, 3, 0, 0], [3, 1, 0, 0], [0, 0, 0, 0]])
    guess, agree = best_classes(features, subspaces)
    assert guess.tolist()[:3] == [0, 1, 0]
    # Residuals 0 and 1; 3 and 0; 1 and 0; a sample of zeros says nothing.
    assert agree.tolist() == [True, True, False, False]


def test_clean_clients_are_those_whose_classes_differ():
    means = np.array([0.5, 0.52, 0.9, 0.48, 0.92])
    rows = np.stack([means, means**2], 1)
    assert clean_rows(rows, 1).tolist() == [True, True, False, True, False]
    assert clean_rows(rows, 2**40 + 1).tolist() == clean_rows(rows, 1).tolist()
    assert clean_rows(rows[:1].repeat(3, 0), 1).tolist() == [True] * 3


class Seeing(FakeFederation):
    """A federation whose clients all have features of their own, which every model says."""

    def __init__(self, labels, features, **more):
        super().__init__(labels, {"0.classifier.weight": torch.zeros(3, 4)}, **more)
        self.features = features

    def answer(self, request):
        features = self.features[request.client.id]
        return Outputs(torch.zeros(len(features), 3), features)

    def updates(self):
        return [
            Update(client, {"0.w": torch.full((2,), 1.0 * client.id)}, {}, len(client), 1, 0, 1, 1)
            for client in self.clients
        ]


LABELS = [0, 1, 2] * 4
WRONG = [1, 2, 0] * 4
SIGNS = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]).repeat_interleave(3, 0)


def apart():
    """Features [12, 4] of ``LABELS``: each class has an axis of its own, and little along the axes
    of the other two.
    """
    label = torch.tensor(LABELS)
    first, second = AXES[(label + 1) % 3], AXES[(label + 2) % 3]
    return AXES[label] + 0.04 * (SIGNS[:, :1] * first + SIGNS[:, 1:] * second)


SMALL = {"identification_samples": 2, "consensus_samples": 2}


def identified():
    """Two clean clients, two whose features are alike whatever the class, and one of one class."""
    alike = torch.ones(12, 4) + 0.01 * apart()
    labels = [LABELS, LABELS, LABELS, LABELS, [1] * 12]
    federation = Seeing(labels, [apart()] * 2 + [alike, alike + 0.01, apart()])
    side = method("fedsir", **SMALL)
    updates = federation.updates()
    side.after_updates(0, updates, federation)
    return side, federation, updates


def test_the_identification_splits_the_clients():
    side, federation, updates = identified()
    noisy = [client.state[NOISY] for client in federation.clients]
    assert noisy == [False, False, True, True, True]
    reports = [federation.reports[number] for number in range(5)]
    assert [report["called_noisy"] for report in reports] == [0, 0, 1, 1, 1]
    assert "class_similarity" not in reports[4]  # it has one class
    assert reports[0]["class_similarity"] < 0.5 < reports[2]["class_similarity"]
    assert federation.bytes == (0, 4 * 2 * 4)
    mean = side.aggregate(updates, federation)
    assert mean["0.w"].tolist() == [0.5, 0.5]
    assert federation.state[CLEAN_MODEL] is mean


def test_all_clients_are_clean_where_none_can_be_told_from_another():
    federation = Seeing([[0] * 3, [1] * 3], [torch.ones(3, 4)] * 2)
    method("fedsir").after_updates(0, federation.updates(), federation)
    assert [client.state[NOISY] for client in federation.clients] == [False, False]


def test_noisy_clients_are_labelled_anew_every_few_rounds():
    side, federation, updates = identified()
    side.aggregate(updates, federation)
    relabelling = side.model_copy(update={"relabel_every": 3})
    noisy = federation.clients[2]
    federation.features[2] = torch.cat([apart()[:11], torch.tensor([[math.nan] * 4])])
    noisy.given = torch.tensor(WRONG)
    for round in (1, 2, 3, 5):
        relabelling.before_round(round, [], federation)
    assert DISTILLED not in noisy.state
    relabelling.before_round(4, [], federation)
    assert noisy.labels.tolist() == [*LABELS[:11], WRONG[11]]
    assert noisy.state[DISTILLED].tolist() == [False] * 11 + [True]
    assert noisy.given.tolist() == WRONG
    assert federation.reports[2]["label_accuracy"] == pytest.approx(11 / 12)
    assert {request.view for request in federation.requests[-5:]} == {"plain"}
    # The labels that a client trains on depend on those it was given, not on earlier new ones.
    before = noisy.labels
    relabelling.before_round(7, [], federation)
    assert torch.equal(noisy.labels, before)
    assert federation.clients[0].labels.tolist() == LABELS
    everything = side.model_copy(update={"relabel_every": 3, "distilled": "all"})
    everything.before_round(4, [], federation)
    assert noisy.state[DISTILLED].all()


def test_only_a_noisy_client_is_distilled_and_only_in_the_training():
    side, federation, _ = identified()
    clean, noisy = federation.clients[0], federation.clients[2]
    federation.round = 0
    assert side.memory(noisy, federation) == {}
    assert side.epoch(noisy, turn(0)).extras == {}
    federation.round = 1
    assert set(side.memory(clean, federation)) == {"log_prior"}
    assert side.epoch(clean, turn(90)).extras == {}
    assert set(side.memory(noisy, federation)) == {"log_prior", DISTILLED}
    assert side.epoch(noisy, turn(90)).extras["distillation"][0] == 0.2
    assert side.epoch(noisy, turn(1)).extras["distillation"][0] == pytest.approx(0.2 * math.exp(-5))


def test_a_class_without_samples_counts_as_one_sample():
    side, federation, _ = identified()
    federation.round = 1
    prior = side.memory(federation.clients[4], federation)["log_prior"]
    assert prior.exp().tolist() == pytest.approx([1 / 14, 12 / 14, 1 / 14])
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    loss = side.loss(Saying(logits), batch_of(torch.tensor([2]), {"log_prior": prior}))
    shares = [math.exp(2), 12 * math.exp(-1), math.exp(0.5)]
    assert float(loss) == pytest.approx(-math.log(shares[2] / sum(shares)))


@pytest.mark.parametrize(("participation", "rounds"), [(1.0, 1000), (0.5, 998), (0.3, 996)])
def test_the_identification_takes_the_place_of_as_many_local_updates(participation, rounds):
    federation = Seeing([[0]] * 5, [], participation=participation)
    side = method("fedsir")
    assert side.rounds(federation) == rounds
    updates = sum(side.counted_updates(round, federation) for round in range(rounds))
    assert 0 <= 1000 * federation.participants - updates < federation.participants
    assert side.select(0, federation).tolist() == [0, 1, 2, 3, 4]
    assert len(side.select(1, federation)) == federation.participants
    assert side.local_schedule(0, federation.schedule).local_epochs == 5
    assert side.local_schedule(1, federation.schedule).local_epochs == 1


@pytest.mark.slow
def test_it_finds_noisy_clients_and_their_labels_on_digits(tmp_path):
    options = "consensus_samples=10, identification_samples=5"
    federation, accuracies = run_on_digits(f"fedsir({options})", tmp_path, SOME_CLIENTS, rounds=7)
    for client in federation.clients:
        assert client.state[NOISY] == (client.noise_level > 0)
        if client.state[NOISY]:
            assert client.accuracy_of(client.labels) > 1.3 * (1 - client.noise_level)
    assert accuracies[-1] > 0.85
