"""Jo-SRC's selection, targets, losses and teacher on cases worked out beside it."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from fakes import FakeFederation
from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.josrc import js_divergence, symmetric_divergence
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update
from vectors import method

josrc = partial(method, "josrc")


def distributions(n, seed):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=rng, dtype=torch.float64).mul(2).softmax(1)


def test_divergences_are_scipys_to_base_2():
    one, other = distributions(6, 0), distributions(6, 1)
    expected = [jensenshannon(p, q, base=2) ** 2 for p, q in zip(one, other, strict=True)]
    assert js_divergence(one, other).tolist() == pytest.approx(expected)
    expected = [
        entropy(p, q, base=2) + entropy(q, p, base=2) for p, q in zip(one, other, strict=True)
    ]
    assert symmetric_divergence(one.log(), other.log()).tolist() == pytest.approx(expected)
    corners = torch.eye(2)
    assert js_divergence(corners, corners.flip(0)).tolist() == [1.0, 1.0]


def test_thresholds_rise_to_the_end_of_the_warm_up_and_of_the_run():
    method = josrc()
    found = [method.threshold(round, 200) for round in (0, 5, 10, 105, 200)]
    assert found == pytest.approx([0, 0.375, 0.75, 0.85, 0.95])
    assert josrc(warm_up=0.0).threshold(0, 8) == 0.75
    assert 0.75 > josrc(warm_up=1.0).threshold(7, 8) > 0.6


class Pair:
    """A student and its teacher, linear on images [n, 1, 1, 2], as a loss sees them."""

    def __init__(self):
        rng = torch.Generator().manual_seed(3)
        self.weights = {
            f"{number}.w": torch.randn(2, 4, generator=rng, dtype=torch.float64).mul(2)
            for number in (0, 1)
        }
        for weight in self.weights.values():
            weight.requires_grad_()

    def __call__(self, images, network=0):
        logits = images.flatten(1) @ self.weights[f"{network}.w"]
        return Outputs(logits, logits)

    @torch.no_grad()
    def look(self, images, network=0):
        return self(images, network)


LABELS = torch.arange(12) % 4


def batch_of(threshold, follow=0.0, warm=False):
    rng = torch.Generator().manual_seed(4)
    views = tuple(torch.randn(12, 1, 1, 2, generator=rng, dtype=torch.float64) for _ in range(2))
    extras = {"follow": torch.tensor(follow), "threshold": torch.tensor(threshold)}
    if warm:
        extras["warm-up"] = torch.tensor(True)
    memory = {"clean": torch.zeros(20, dtype=torch.bool)}
    return Batch(views, torch.arange(12) + 5, LABELS, extras, memory)


def by_hand(model, batch, threshold, warm=False, alpha=0.5, epsilon=0.6):
    """The loss, sample by sample, and what each sample is taken for."""
    student, teacher = (model.weights[f"{n}.w"].detach().numpy() for n in (0, 1))

    def softmax(x):
        return np.exp(x) / np.exp(x).sum()

    kept, fits, consistencies, kinds = [], [], [], []
    for i, label in enumerate(LABELS):
        one, two = (view.flatten(1)[i].numpy() for view in batch.views)
        p, q = softmax(one @ student), softmax(two @ student)
        given = np.full(4, epsilon / 3)
        given[label] = 1 - epsilon
        clean = 1 - jensenshannon(p, given, base=2) ** 2 >= threshold
        mean = (softmax(one @ teacher) + softmax(two @ teacher)) / 2
        same = p.argmax() == q.argmax()
        kind = "clean" if clean else "ID" if same else "OOD"
        target = {"clean": given, "ID": mean, "OOD": softmax(mean / 10)}[kind]
        fit = -(target * np.log(p)).sum() - (target * np.log(q)).sum()
        apart = entropy(p, q, base=2) + entropy(q, p, base=2)
        kinds.append(kind)
        fits.append(fit)
        consistencies.append(-apart if kind == "OOD" else apart)
        if clean:
            kept.append(fit)
    loss = np.mean(kept) if warm else (1 - alpha) * np.mean(fits) + alpha * np.mean(consistencies)
    return loss, kinds


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_loss_is_the_papers(alpha):
    model, batch = Pair(), batch_of(0.8)
    expected, kinds = by_hand(model, batch, 0.8, alpha=alpha)
    assert set(kinds) == {"clean", "ID", "OOD"}
    loss = josrc(consistency_weight=alpha).loss(model, batch)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
    gradient, none = torch.autograd.grad(loss, list(model.weights.values()), allow_unused=True)
    assert float(gradient.norm()) > 1e-3
    assert none is None
    clean = [kind == "clean" for kind in kinds]
    assert batch.memory["clean"].tolist() == [False] * 5 + clean + [False] * 3


def test_the_warm_up_learns_the_clean_samples_alone_and_survives_none():
    model, batch = Pair(), batch_of(0.8, warm=True)
    expected, _ = by_hand(model, batch, 0.8, warm=True)
    assert float(josrc().loss(model, batch).detach()) == pytest.approx(expected, rel=1e-6)
    loss = josrc().loss(model, batch_of(1.1, warm=True))
    (gradient,) = torch.autograd.grad(loss, [model.weights["0.w"]])
    assert float(loss.detach()) == 0
    assert not bool(gradient.any())
    batch = batch_of(0.0, warm=True)
    josrc().loss(model, batch)
    assert int(batch.memory["clean"].sum()) == 12


def test_predictions_that_are_certain_and_wrong_leave_numbers():
    model = Pair()
    with torch.no_grad():
        model.weights["0.w"].mul_(1e3)
    loss = josrc().loss(model, batch_of(0.8))
    (gradient,) = torch.autograd.grad(loss, [model.weights["0.w"]])
    assert bool(gradient.isfinite().all())


def test_the_teacher_starts_as_the_student_and_follows():
    client = Client(0, torch.arange(5), torch.zeros(5).long(), torch.zeros(5).long())
    client.state["josrc"] = {"warm_up": True, "threshold": 0.1}
    epochs = [
        josrc(decay=0.9).epoch(client, Turn(1, 0, "training", 0, number, 2, None))
        for number in (0, 1)
    ]
    assert epochs[0].extras["follow"] == [1.0, pytest.approx(0.1)]
    assert epochs[1].extras["follow"] == [pytest.approx(0.1)] * 2
    assert epochs[0].learns == "0."
    assert epochs[0].views == ("weak", "weak")
    assert "warm-up" in epochs[0].extras
    model = Pair()
    student, teacher = (weight.detach().clone() for weight in model.weights.values())
    josrc().loss(model, batch_of(0.8, follow=0.25))
    assert torch.equal(model.weights["0.w"], student)
    expected = 0.75 * teacher + 0.25 * student
    torch.testing.assert_close(model.weights["1.w"].detach(), expected)
    josrc().loss(model, batch_of(0.8, follow=1.0))
    torch.testing.assert_close(model.weights["1.w"].detach(), student)


def federation_of(rounds=20):
    weights = {"0.w": torch.zeros(3), "1.w": torch.ones(3), "1.count": torch.tensor(2)}
    return FakeFederation([[0] * 4] * 2, weights, rounds=rounds)


def test_teachers_are_neither_sent_nor_seen_by_the_server():
    federation = federation_of()
    local = {"0.w": torch.full((3,), 5.0), "1.w": torch.full((3,), 7.0), "1.count": torch.tensor(9)}
    clean = torch.tensor([True, False, True, False])
    updates = [
        Update(client, local, {"clean": clean}, 4, 1, 0.0, 1, 1) for client in federation.clients
    ]
    josrc().after_updates(0, updates, federation)
    for update in updates:
        assert torch.equal(update.weights["0.w"], local["0.w"])
        assert torch.equal(update.weights["1.w"], federation.weights["1.w"])
        assert int(update.weights["1.count"]) == 2
    size = 3 * 4 + 8
    assert federation.bytes == (-2 * size, -2 * size)
    assert [one.tolist() for _, one in federation.selections] == [[True, False, True, False]] * 2
    assert federation.reports[1] == {"estimated_noise_level": 0.5}


def test_the_participants_learn_how_far_the_run_is():
    federation = federation_of(rounds=20)
    method = josrc(warm_up=0.5)
    for round, warm in ((0, True), (9, True), (10, False), (19, False)):
        method.before_round(round, federation.clients, federation)
        known = federation.clients[1].state["josrc"]
        assert known == {"warm_up": warm, "threshold": method.threshold(round, 20)}
    assert math.isclose(known["threshold"], 0.75 + 0.2 * 9 / 10)


@pytest.mark.storm
def test_what_it_calls_clean_on_digits_is_cleaner_than_the_base_rate(tmp_path):
    """In the last rounds: at its smoothing a model that is not yet sure takes all for clean."""
    federation, _ = run_on_digits(
        {"name": "josrc", "warm_up": 0.2},
        tmp_path,
        SOME_CLIENTS,
        rounds=15,
        participation=0.5,
        local_epochs=3,
        batch_size=10,
        learning_rate=0.15,
    )
    last = federation.records.rounds[-3:]
    base = np.mean([1 - row["participants_noise_level"] for row in last])
    assert np.mean([row["label_precision"] for row in last]) > base + 0.1
    assert np.mean([row["label_recall"] for row in last]) > 0.6
