"""FedDiv's filter, its choice of samples and its loss, by hand: the paper's equations."""

import math

import numpy as np
import pytest
import torch
from test_robust_losses import LABELS, LOGITS, Saying, batch_of, client_of
from torch.nn import functional

from fakes import Answering
from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.feddiv import BIAS, CANDIDATES, FILTER, GUESSED, clean_probability
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.outputs import Outputs
from vectors import method, updates_of


def test_the_filter_is_a_mixture_of_two_gaussians():
    """Eqs. 3 and 6, with scipy's arithmetic written out."""
    parameters = torch.tensor([[0.2, 2.0], [0.1, 0.5], [0.7, 0.3]], dtype=torch.float64)
    losses = torch.tensor([0.1, 0.9, 1.4, 5.0], dtype=torch.float64)

    def weighed(part, loss):
        mean, variance, weight = parameters[:, part].tolist()
        return weight * math.exp(-((loss - mean) ** 2) / (2 * variance)) / math.sqrt(variance)

    expected = [weighed(0, x) / (weighed(0, x) + weighed(1, x)) for x in losses.tolist()]
    assert clean_probability(losses, parameters).tolist() == pytest.approx(expected)


class Asking(Answering):
    """A federation that answers each pass with the logits it was given, and notes the rest."""

    def __init__(self, logits, clients=()):
        self.logits, self.clients = logits, list(clients)
        self.weights, self.state, self.selected, self.reports = {}, {}, {}, {}

    def passes(self, requests, round):
        return [Outputs(self.logits, torch.empty(0)) for _ in requests]

    def report_selection(self, client, positions):
        self.selected[client.id] = positions.tolist()

    def report(self, client, **values):
        self.reports[client.id] = values

    def exchange(self, down=0, up=0):
        pass


SPLIT = torch.tensor([[0.2, 2.5], [0.2, 0.5], [0.5, 0.5]], dtype=torch.float64)


def test_samples_are_split_and_labelled_anew():
    """Losses of 0.24, 1, 1.7 and 0.02: the third is noisy, and its prediction is sure (0.82)."""
    client = client_of(4)
    client.given = LABELS
    federation = Asking(LOGITS)
    federation.state[FILTER] = SPLIT
    method("feddiv", warm_up_rounds=2).before_round(1, [client], federation)
    assert client.state == {}
    method("feddiv", warm_up_rounds=2).before_round(2, [client], federation)
    assert federation.selected[0] == [True, True, False, True]
    assert federation.reports[0]["estimated_noise_level"] == 0.25
    assert client.state[CANDIDATES].tolist() == [True] * 4
    assert client.labels.tolist() == [0, 2, 2, 1]
    method("feddiv", warm_up_rounds=2, confidence=0.9).before_round(3, [client], federation)
    assert client.state[CANDIDATES].tolist() == [True, True, False, True]
    assert client.labels.tolist() == LABELS.tolist()
    method("feddiv", warm_up_rounds=2, clean_client=0.3).before_round(4, [client], federation)
    assert CANDIDATES not in client.state


def turn_saying(logits, round=9):
    answer = Outputs(logits, torch.empty(0))
    return Turn(1, round, "training", 0, 0, 10, outputs=lambda purpose, network, view: answer)


def test_both_models_have_to_agree_once_the_local_one_is_debiased():
    """Eqs. 9 and 10: a strong bias for the first class turns its narrow predictions over."""
    side, client = method("feddiv", warm_up_rounds=2), client_of(5)
    logits = torch.tensor([[2.0, 1.9, 0], [2.0, 0.1, 0], [0, 3.0, 0], [0, 0, 3.0], [3.0, 0, 0]])
    client.state = {
        CANDIDATES: torch.tensor([True, True, True, True, False]),
        GUESSED: torch.tensor([0, 0, 1, 1, 0]),
    }

    def chosen():
        return np.sort(np.concatenate(side.epoch(client, turn_saying(logits)).steps)).tolist()

    assert chosen() == [0, 1, 2]
    client.state[BIAS] = torch.tensor([0.8, 0.1, 0.1])
    assert chosen() == [1, 2]
    client.state[GUESSED] = torch.tensor([2, 2, 2, 2, 2])  # one agrees, which is too few
    assert chosen() == [0, 1, 2, 3]
    client.state[CANDIDATES] = torch.zeros(5, dtype=torch.bool)
    assert chosen() == [0, 1, 2, 3, 4]
    assert side.size(client) == 5


def test_the_loss_is_of_mixtures_and_a_uniform_prior():
    index = torch.tensor([2, 3, 1, 0])
    extras = {"share": torch.tensor(0.6), "mixup_index": index, "prior": torch.tensor(0.5)}
    found = method("feddiv").loss(Saying(LOGITS), batch_of(**extras))
    soft = 0.6 * functional.one_hot(LABELS) + 0.4 * functional.one_hot(LABELS[index])
    mean = LOGITS.softmax(1).mean(0)
    prior = (torch.log(1 / 3 / mean) / 3).sum()
    torch.testing.assert_close(found, functional.cross_entropy(LOGITS, soft) + 0.5 * prior)
    plain = method("feddiv", warm_up_rounds=3).epoch(client_of(9), turn_saying(LOGITS, round=2))
    assert set(plain.extras["prior"]) == {0.0}


def test_filters_are_averaged_by_size_and_the_bias_moves():
    clients = [client_of(4), client_of(4), client_of(12)]
    for number, client in enumerate(clients):
        client.id = number
    clients[2].state[FILTER] = SPLIT
    clients[0].given = LABELS
    side, federation = method("feddiv", warm_up_rounds=3), Asking(LOGITS, clients)
    updates = updates_of([{}])
    updates[0].client = clients[0]
    side.after_updates(2, updates, federation)
    assert clients[0].state == {}
    side.after_updates(3, updates, federation)
    mean = LOGITS.softmax(1).mean(0)
    torch.testing.assert_close(clients[0].state[BIAS], 0.2 * torch.full((3,), 1 / 3) + 0.8 * mean)
    own = clients[0].state[FILTER]
    side.after_round(3, updates, federation)
    torch.testing.assert_close(federation.state[FILTER], own / 4 + 3 * SPLIT / 4)


def test_without_finite_losses_nothing_is_filtered():
    clients = [client_of(4)]
    clients[0].given = LABELS
    side, federation = method("feddiv", warm_up_rounds=1), Asking(LOGITS * math.nan, clients)
    updates = updates_of([{}])
    updates[0].client = clients[0]
    side.after_updates(1, updates, federation)
    side.after_round(1, updates, federation)
    side.before_round(2, clients, federation)
    assert CANDIDATES not in clients[0].state
    assert clients[0].labels.tolist() == client_of(4).labels.tolist()


def test_the_withdrawn_codes_losses_are_scaled():
    side = method("feddiv", filter_losses="scaled_double_softmax")
    found = side.losses_to_filter(LOGITS, LABELS)
    twice = functional.cross_entropy(LOGITS.softmax(1), LABELS, reduction="none").double()
    assert (float(found.min()), float(found.max())) == (0, 1)
    assert torch.equal(found.argsort(), twice.argsort())
    same = side.losses_to_filter(torch.zeros(3, 3), torch.tensor([0, 1, 2]))
    assert same.tolist() == [0, 0, 0]


@pytest.mark.slow
def test_it_finds_clean_samples_on_digits(tmp_path):
    """What it takes for clean is cleaner than the labels are."""
    federation, _ = run_on_digits("feddiv(warm_up_rounds=4)", tmp_path, SOME_CLIENTS, rounds=8)
    rows = federation.records.rounds
    right = [client.accuracy_of(client.given) for client in federation.clients]
    assert rows[-1]["label_precision"] > np.mean(right) + 0.1
