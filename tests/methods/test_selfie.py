"""SELFIE's histories, refurbished labels and loss on cases small enough to work out by hand."""

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from fakes import Answering
from noisy_digits import run_on_digits
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update
from vectors import method

selfie = partial(method, "selfie")


class LookingModel:
    """Answers with given logits, of a batch whose images are 0, 1, ...; ``look`` with others where
    there are some.
    """

    def __init__(self, logits, seen=None):
        self.logits = logits
        self.seen = logits.detach() if seen is None else seen
        self.calls = []

    def __call__(self, images):
        self.calls.append("call")
        self.learnt_from = images[:, 0].long().tolist()
        return Outputs(self.logits[self.learnt_from], torch.empty(0))

    def look(self, images):
        self.calls.append("look")
        return Outputs(self.seen, torch.empty(0))


def client_of(samples=6, classes=3):
    labels = torch.arange(samples) % classes
    return Client(0, torch.arange(samples), labels, labels)


def batch_of(memory, positions, target, kept=None):
    return Batch(
        views=(torch.arange(len(target))[:, None],),
        positions=torch.tensor(positions),
        target=torch.tensor(target),
        extras={} if kept is None else {"kept": torch.tensor(kept)},
        memory=memory,
    )


def sure(*classes):
    """Logits that say these classes, the first the surest."""
    logits = torch.nn.functional.one_hot(torch.tensor(classes), 3).double() * 4
    return (logits * torch.linspace(1, 0.5, len(classes))[:, None]).requires_grad_()


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.4, 1.0])
def test_refurbishing_against_scipy(classes, threshold):
    predictions = np.random.default_rng(0).integers(0, classes, (200, 6))
    predictions[:60, :5] = predictions[:60, :1]
    predictions[:30] = predictions[:30, :1]
    label, steady = selfie(history=6, uncertainty=threshold).refurbish(
        torch.from_numpy(predictions), classes
    )
    for row, one, certain in zip(predictions, label.tolist(), steady.tolist(), strict=True):
        counts = Counter(row.tolist())
        assert counts[one] == max(counts.values())
        uncertainty = entropy(list(counts.values())) / math.log(classes)
        assert certain == (uncertainty <= threshold)
    assert 0 < int(steady.sum()) < 200 or threshold == 1.0


@pytest.mark.parametrize(("classes", "one_dissent"), [(10, 0.106), (50, 0.063), (100, 0.053)])
def test_by_default_one_dissenting_prediction_of_fifteen_is_too_many(classes, one_dissent):
    assert entropy([14, 1]) / math.log(classes) == pytest.approx(one_dissent, abs=1e-3)
    predictions = torch.full((2, 15), 2)
    predictions[1, 7] = 1
    _, steady = selfie().refurbish(predictions, classes)
    assert steady.tolist() == [True, False]


def test_a_history_that_is_not_full_waits_or_is_filled_with_class_0():
    client = client_of()
    for option, expected in (("wait", [False, False]), ("class_zero", [True, False])):
        method = selfie(history=3, empty_entries=option)
        predictions = method.memory(client, None)["predictions"][:2].clone()
        predictions[0, 0], predictions[1, 0] = 0, 2
        assert method.refurbish(predictions, 3)[1].tolist() == expected


def test_the_warm_up_learns_from_all_and_remembers():
    method = selfie(history=2)
    memory = method.memory(client_of(), None)
    for said in ([0, 1], [2, 1], [2, 2]):
        model = LookingModel(sure(*said))
        loss = method.loss(model, batch_of(memory, [4, 1], [1, 1]))
        expected = torch.nn.functional.cross_entropy(model.logits, torch.tensor([1, 1]))
        assert loss.item() == pytest.approx(expected.item())
        assert model.calls == ["call"]
    # The third prediction stands where the first one stood.
    assert memory["predictions"][[4, 1]].tolist() == [[2, 2], [2, 1]]
    assert memory["written"].tolist() == [0, 3, 0, 0, 3, 0]
    assert memory["refurbished"].tolist() == [-1] * 6
    assert memory["picked"].nonzero()[:, 0].tolist() == [1, 4]


def test_a_step_learns_from_small_losses_and_refurbished_samples():
    """Four samples: one of small loss, one steady, one refurbished before, and one of neither."""
    method = selfie(history=2)
    memory = method.memory(client_of(), None)
    memory["predictions"][:4] = torch.tensor([[0, 1], [2, 2], [0, 1], [0, 1]])
    memory["written"][:4] = 2
    memory["refurbished"][2] = 0
    model = LookingModel(sure(0, 1, 1, 1))
    loss = method.loss(model, batch_of(memory, [0, 1, 2, 3], [0, 0, 2, 2], kept=1))
    log_softmax = model.logits.log_softmax(1)
    # Sample 0 learns its given label, 1 its steady prediction, 2 the label it was given then.
    expected = -(log_softmax[0, 0] + log_softmax[1, 2] + log_softmax[2, 0]) / 3
    assert loss.item() == pytest.approx(expected.item())
    # The one that is left out is not in the pass: batch normalisation does not see it.
    assert model.learnt_from == [0, 1, 2]
    (gradient,) = torch.autograd.grad(loss, model.logits)
    assert (gradient.abs().sum(1) > 0).tolist() == [True, True, True, False]
    assert memory["refurbished"].tolist() == [-1, 2, 0, -1, -1, -1]
    assert memory["picked"].tolist() == [True, False, False, False, False, False]
    assert memory["predictions"][:4].tolist() == [[0, 1], [1, 2], [1, 1], [1, 1]]
    # Steady in something else, a sample is refurbished anew; unsteady, it keeps its label.
    memory["predictions"][:2] = torch.tensor([[1, 1], [0, 1]])
    method.loss(model, batch_of(memory, [0, 1, 2, 3], [0, 0, 2, 2], kept=1))
    assert memory["refurbished"].tolist() == [1, 2, 1, 1, -1, -1]


def test_whether_a_prediction_is_among_those_it_is_judged_by():
    for option, label in (("after", -1), ("before", 1)):
        method = selfie(history=2, current_prediction=option)
        memory = method.memory(client_of(), None)
        memory["predictions"][0] = torch.tensor([2, 1])
        memory["written"][0] = 2
        method.loss(LookingModel(sure(1)), batch_of(memory, [0], [0], kept=1))
        assert memory["predictions"][0].tolist() == [1, 1]
        assert int(memory["refurbished"][0]) == label


def test_which_forward_pass_decides():
    for own, kept in ((True, 1), (False, 0)):
        method = selfie(history=2, own_forward=own)
        memory = method.memory(client_of(), None)
        model = LookingModel(sure(0, 1), seen=sure(1, 0).detach())
        method.loss(model, batch_of(memory, [0, 1], [0, 0], kept=1))
        assert model.calls == (["look", "call"] if own else ["call"])
        assert memory["picked"].nonzero()[:, 0].tolist() == [kept]
        assert memory["predictions"][:2, 0].tolist() == ([1, 0] if own else [0, 1])


@pytest.mark.parametrize(
    ("rate", "size", "kept"), [(0.45, 20, 11), (0.2, 7, 6), (0.9, 2, 2), (0.99, 1, 1)]
)
def test_how_many_losses_are_small(rate, size, kept):
    client = client_of(samples=size)
    client.state["forget_rate"] = rate
    turns = [Turn(1, r, "training", 0, 0, batch_size=size, outputs=None) for r in (2, 3)]
    method = selfie(warm_up_rounds=3)
    assert not method.epoch(client, turns[0]).extras
    assert method.epoch(client, turns[1]).extras == {"kept": [kept]}
    # What a second pass has depends on losses: a step of one batch cannot stand for another's.
    assert not method.epoch(client, turns[1]).repeatable
    assert selfie(warm_up_rounds=3, own_forward=False).epoch(client, turns[1]).repeatable


def test_what_is_kept_and_reported():
    client, noted = client_of(), []
    federation = Answering(
        report=lambda client, **estimates: noted.append(estimates),
        report_selection=lambda client, positions: noted.append(positions.tolist()),
    )
    method = selfie(warm_up_rounds=3)
    memory = method.memory(client, federation)
    memory["picked"][2] = True
    update = Update(client, {}, memory, 6, 1, 0.0, 6, 6)
    method.after_updates(2, [update], federation)
    method.after_updates(3, [update], federation)
    # Labels 0 1 2 0 1 2 are true; of three new ones two are.
    memory["refurbished"][[0, 1, 3]] = torch.tensor([0, 1, 2])
    method.after_updates(4, [update], federation)
    picked = [False, False, True, False, False, False]
    assert noted == [
        picked,
        picked,
        {"refurbished": 0.0},
        picked,
        {"refurbished": 0.5, "refurbished_accuracy": pytest.approx(2 / 3)},
    ]
    again = method.memory(client, federation)
    assert torch.equal(again["refurbished"], memory["refurbished"])
    assert not bool(again["picked"].any())


@pytest.mark.slow
def test_small_losses_and_refurbished_labels_are_cleaner_than_the_base_rate(tmp_path):
    federation, _ = run_on_digits("selfie(warm_up_rounds=6, history=8)", tmp_path, rounds=10)
    assert federation.records.rounds[-1]["label_precision"] > 0.7
    # Once there is something to pick, what is picked goes forward twice (FedRN, Table 10: 2EF + EB,
    # were all picked).
    samples = sum(map(len, federation.clients))
    rows = federation.records.rounds
    backward = [row["samples_backward"] / samples for row in rows]
    assert backward[:6] == [2] * 6
    assert all(1 < share < 2 for share in backward[6:])
    forward = [row["samples_forward"] / samples for row in rows]
    assert forward == pytest.approx([2] * 6 + [2 + share for share in backward[6:]])
    noted = [row for row in federation.records.clients if row["round"] == 10]
    assert len(noted) == 5
    for row in noted:
        assert row["refurbished"] > 0.1
        assert row["refurbished_accuracy"] > 0.8
