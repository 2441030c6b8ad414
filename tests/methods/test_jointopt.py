"""Joint Optimization's loss, rings and labels on cases small enough to work out by hand."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fakes import FakeModel
from noisy_digits import right, run_on_digits
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Update
from vectors import method

jointopt = partial(method, "jointopt")


FEDERATION = SimpleNamespace(
    weights={"0.classifier.weight": torch.zeros(3, 5, dtype=torch.float64)},
    report=lambda client, **estimates: client.state.update(reported=estimates),
)


def client_of(labels=(0, 1, 2, 1)):
    labels = torch.tensor(labels)
    return Client(0, torch.arange(len(labels)), labels, labels)


def batch_of(memory, positions, target, *, renewed, terms=1.0):
    return Batch(
        views=(torch.zeros(len(target), 1),),
        positions=torch.tensor(positions),
        target=torch.tensor(target),
        extras={"renewed": torch.tensor(renewed), "terms": torch.tensor(terms)},
        memory=memory,
    )


def logits_of(rows, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 3, generator=rng, dtype=torch.float64).requires_grad_()


def terms_by_loop(logits, target):
    """L_c, L_p and L_e, one number after the other."""
    s = [[math.exp(x) / sum(map(math.exp, row)) for x in row] for row in logits.tolist()]
    rows, classes = len(s), len(s[0])
    mean = [sum(row[c] for row in s) / rows for c in range(classes)]
    classification = -sum(y * math.log(p) for t, r in zip(target, s, strict=True)
                          for y, p in zip(t, r, strict=True)) / rows  # fmt: skip
    prior = sum(1 / classes * math.log(1 / classes / p) for p in mean)
    entropy = -sum(p * math.log(p) for row in s for p in row) / rows
    return classification, prior, entropy


def test_the_loss_is_the_sum_of_its_three_terms():
    logits = logits_of(2)
    memory = jointopt().memory(client_of(), FEDERATION)
    batch = batch_of(memory, [1, 3], [1, 1], renewed=False)
    loss = jointopt(alpha=1.5, beta=0.7).loss(FakeModel(logits), batch)
    classification, prior, entropy = terms_by_loop(logits, [[0, 1, 0], [0, 1, 0]])
    assert loss.item() == pytest.approx(classification + 1.5 * prior + 0.7 * entropy)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_every_term_acts(weights):
    alpha, beta = weights
    found = []
    for terms in (0.0, 1.0):
        logits = logits_of(2)
        memory = jointopt().memory(client_of(), FEDERATION)
        batch = batch_of(memory, [0, 1], [0, 1], renewed=False, terms=terms)
        loss = jointopt(alpha=alpha, beta=beta).loss(FakeModel(logits), batch)
        found.append(torch.autograd.grad(loss, logits)[0])
    assert float(found[0].abs().min()) > 0
    assert float((found[1] - found[0]).abs().min()) > 1e-4


@pytest.mark.parametrize("underfilled", ["written", "history"])
def test_a_renewed_label_is_the_mean_of_the_last_outputs_before_this_one(underfilled):
    """Five steps on the same two samples with a ring of three, against plain lists."""
    method = jointopt(history=3, alpha=0, beta=0, underfilled=underfilled)
    memory = method.memory(client_of(), FEDERATION)
    said = []
    for step in range(5):
        logits = logits_of(2, seed=step)
        batch = batch_of(memory, [3, 0], [1, 0], renewed=True)
        loss = method.loss(FakeModel(logits), batch)
        last = said[-3:]
        divisor = 3 if underfilled == "history" else len(last)
        target = np.sum(last, axis=0) / divisor if last else np.eye(3)[[1, 0]]
        assert loss.item() == pytest.approx(terms_by_loop(logits, target.tolist())[0])
        # The labels stand still while the weights learn.
        (gradient,) = torch.autograd.grad(loss, logits)
        s = logits.detach().softmax(1).numpy()
        np.testing.assert_allclose(gradient, (target.sum(1)[:, None] * s - target) / 2, atol=1e-9)
        said.append(s)
    assert memory["written"].tolist() == [5, 0, 0, 5]
    assert float(memory["outputs"][1:3].abs().sum()) == 0


def test_a_loss_of_outputs_that_are_sure_beyond_precision_is_finite():
    logits = (torch.eye(3) * 1e4)[[0, 0]].requires_grad_()
    memory = jointopt().memory(client_of(), FEDERATION)
    memory["outputs"] = memory["outputs"].float()
    loss = jointopt().loss(FakeModel(logits), batch_of(memory, [0, 1], [0, 1], renewed=False))
    assert math.isfinite(loss.item())
    assert bool(torch.autograd.grad(loss, logits)[0].isfinite().all())


def turn(round, number):
    return Turn(1, round, "training", client=0, number=number, batch_size=2, outputs=None)


def test_when_labels_are_renewed():
    """The first epoch of the start round still has the given labels; what follows has not."""
    method, client = jointopt(start_round=5), client_of()
    assert method.epoch(client, turn(4, 1)).extras == {"renewed": [False] * 2, "terms": [1.0] * 2}
    assert method.epoch(client, turn(5, 0)).extras["renewed"] == [False] * 2
    assert method.epoch(client, turn(5, 1)).extras["renewed"] == [True] * 2
    client.state["renewed"] = True
    assert method.epoch(client, turn(9, 0)).extras["renewed"] == [True] * 2
    plain = jointopt(start_round=5, warm_up_loss="cross_entropy")
    assert plain.epoch(client, turn(4, 1)).extras["terms"] == [0.0] * 2
    assert plain.epoch(client, turn(5, 0)).extras["terms"] == [1.0] * 2


def test_rings_and_hard_labels_are_kept_from_round_to_round():
    method, client = jointopt(start_round=5, history=2), client_of()
    memory = method.memory(client, FEDERATION)
    assert memory["outputs"].shape == (4, 2, 3)
    memory["outputs"][0] = torch.tensor([[0.1, 0.2, 0.7], [0.0, 0.6, 0.4]])
    memory["outputs"][1, 0] = torch.tensor([0.8, 0.1, 0.1])
    memory["written"][:2] = torch.tensor([2, 1])
    update = Update(client, {}, memory, 4, 2, 0.0, 4, 4)
    method.after_updates(4, [update], FEDERATION)
    assert client.labels.tolist() == [0, 1, 2, 1]
    assert "renewed" not in client.state
    method.after_updates(5, [update], FEDERATION)
    # The samples that were never seen keep their labels.
    assert client.labels.tolist() == [2, 0, 2, 1]
    assert client.state["renewed"] is True
    assert client.state["reported"] == {"label_accuracy": 0.5}
    assert torch.equal(method.memory(client, FEDERATION)["outputs"], memory["outputs"])


def test_local_epochs_after_the_warm_up():
    plan = Schedule(
        **{
            "rounds": 50,
            "participation": 0.1,
            "local_epochs": 5,
            "batch_size": 10,
            "learning_rate": 0.03,
        }
    )
    fedcorr = jointopt(variant="fedcorr")
    assert [fedcorr.local_schedule(r, plan).local_epochs for r in (0, 19, 20, 49)] == [5, 5, 20, 20]
    assert jointopt().local_schedule(200, plan).local_epochs == 5


@pytest.mark.slow
def test_it_corrects_more_labels_than_it_spoils(tmp_path):
    federation, _ = run_on_digits("jointopt(start_round=6)", tmp_path, rounds=10)
    for client in federation.clients:
        assert right(client.given, client) < 0.55
        assert right(client.labels, client) > 0.75
