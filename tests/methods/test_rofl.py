"""RoFL's equations on small cases, against loops over samples, and on noisy digits."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from fakes import Answering
from noisy_digits import run_on_digits
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update
from vectors import method

CLASSES, WIDTH = 4, 3

rofl = partial(method, "rofl")


class Linear:
    """A model whose features and classifier are weights to take gradients of."""

    def __init__(self, samples):
        rng = torch.Generator().manual_seed(5)
        self.body = torch.randn(5, WIDTH, generator=rng, dtype=torch.float64, requires_grad=True)
        self.head = torch.randn(WIDTH, CLASSES, generator=rng, dtype=torch.float64)
        self.images = torch.randn(samples, 5, generator=rng, dtype=torch.float64)
        self.centroids = torch.randn(CLASSES, WIDTH, generator=rng, dtype=torch.float64)
        self.start = torch.randn(5, CLASSES, generator=rng, dtype=torch.float64)

    def received(self, images):
        return Outputs(images @ self.start, torch.empty(0))

    def __call__(self, images):
        features = images @ self.body
        return Outputs(features @ self.head, features)


GIVEN = [0, 1, 2, 0, 1, 2, 0, 1]
PSEUDO = np.random.default_rng(3).dirichlet(np.ones(CLASSES), size=len(GIVEN))
"""What the global model says of each sample: shares of classes."""
NONE = np.zeros_like(PSEUDO)


def step(options, weight=0.7, kept=5, pseudo=PSEUDO, unknown=None, **more):
    """The loss of a step, its model and its memory; the loss guesses if ``pseudo`` is None."""
    model = Linear(len(GIVEN))
    if unknown is not None:
        model.centroids[unknown] = 0
    memory = {
        "centroids": model.centroids.clone(),
        "confident": torch.zeros(10, dtype=torch.int64),
        "pseudo_label": torch.full((10,), -1),
    }
    extras = {"kept": torch.tensor(kept), "centroid_weight": torch.tensor(weight), **more}
    target = torch.tensor(GIVEN, dtype=torch.float64)[:, None]
    if pseudo is not None:
        target = torch.cat([target, torch.from_numpy(pseudo)], dim=1)
    batch = Batch((model.images,), torch.arange(1, 9), target, extras, memory)
    return rofl(**options).loss(model, batch), model, memory


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def expected(model, weight=0.7, kept=5, mask=True, pseudo=PSEUDO, shared=True, unknown=()):
    """Eqs. 1 to 9 and 13, a sample at a time."""
    features = (model.images @ model.body).detach().numpy()
    logits = features @ model.head.numpy()
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    centroids = model.centroids.numpy()
    total, confident = 0.0, []
    for f, log, y, guess in zip(features, logs, GIVEN, pseudo, strict=True):
        near = [-9 if c in unknown else cosine(centroids[c], f) for c in range(CLASSES)]
        sure = int(np.argmax(near)) == y
        confident.append(sure)
        if mask:
            total += -log[y] if sure else -guess @ log
        else:
            total += -guess @ log if guess.any() else -log[y]
        if (sure or not mask) and y not in unknown:
            total += weight * np.mean((f - centroids[y]) ** 2)
        total += 0.8 * -np.sum(np.exp(log) * log)
    losses = [-log[y] for log, y in zip(logs, GIVEN, strict=True)]
    small = np.argsort(losses)[:kept]
    moved = centroids.copy()
    for c in range(CLASSES):
        members = [features[i] for i in small if GIVEN[i] == c]
        if members:
            mean = np.mean(members, axis=0)
            s = cosine(centroids[c], mean) if shared and c not in unknown else 1.0
            moved[c] = (1 - s**2) * centroids[c] + s**2 * mean
    return total, confident, moved


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"variant": "without_mask"}, {"mask": False}),
        ({"variant": "without_global_centroids"}, {"shared": False}),
        ({"variant": "without_pseudo_label"}, {"pseudo": NONE}),
        ({"variant": "without_mask_and_pseudo_label"}, {"mask": False, "pseudo": NONE}),
    ],
)
def test_a_step_is_equations_1_to_9(options, changes):
    loss, model, memory = step(options, pseudo=changes.get("pseudo", PSEUDO))
    total, confident, moved = expected(model, **changes)
    assert loss.item() == pytest.approx(total / 8)
    assert 0 < sum(confident) < 8
    assert memory["confident"].tolist() == [0, *confident, 0]
    pseudo = changes.get("pseudo", PSEUDO)
    labels = pseudo.argmax(1) if pseudo.any() else np.full(8, -1)
    assert memory["pseudo_label"].tolist() == [-1, *labels, -1]
    np.testing.assert_allclose(memory["centroids"].numpy(), moved, rtol=1e-9)
    assert not np.allclose(moved, model.centroids.numpy())
    summed, _, _ = step({**options, "reduction": "sum"}, pseudo=changes.get("pseudo", PSEUDO))
    assert summed.item() == pytest.approx(total)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("form", ["soft", "hard"])
def test_the_received_model_guesses_on_the_images_that_a_step_learns_from(mask, form):
    model = Linear(len(GIVEN))
    said = model.received(model.images).logits.softmax(1)
    pseudo = said.numpy() if form == "soft" else np.eye(CLASSES)[said.argmax(1)]
    options = {"mask": mask, "pseudo_label_form": form}
    loss, model, memory = step(options, pseudo=None)
    total, confident, _ = expected(model, mask=mask, pseudo=pseudo)
    assert loss.item() == pytest.approx(total / 8)
    assert 0 < sum(confident) < 8
    assert memory["pseudo_label"].tolist() == [-1, *said.argmax(1).tolist(), -1]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_fedrns_port_learns_from_small_losses_alone(reduction):
    options = {"variant": "fedrn", "reduction": reduction}
    given, guessed = torch.tensor(GIVEN), torch.tensor([1, 1, 0, 3, 1, 2, 2, 3])
    loss, model, memory = step(options, weight=0.0, pseudo=np.eye(CLASSES)[guessed])
    logits = (model.images @ model.body @ model.head).detach()
    small = torch.nn.functional.cross_entropy(logits, given, reduction="none").argsort()[:5]
    labels = torch.where(memory["confident"][1:9].bool(), given, guessed)
    assert int((labels != given)[small].sum()) > 0
    entropy = torch.distributions.Categorical(logits=logits[small]).entropy()
    each = torch.nn.functional.cross_entropy(logits[small], labels[small], reduction="none")
    each = each + 0.8 * entropy
    assert loss.item() == pytest.approx(float(each.mean() if reduction == "mean" else each.sum()))


def test_fedrns_port_rounds_down():
    """Of four samples, 2.4 small losses."""
    for options, kept in (({}, 3), ({"learns_from": "small_losses"}, 2)):
        assert planned(3, **options)[0].extras["kept"] == [3, kept]


def test_a_class_without_a_centroid_is_nobodys_and_takes_the_batchs_mean():
    loss, model, memory = step({}, unknown=1)
    total, confident, moved = expected(model, unknown=(1,))
    assert loss.item() == pytest.approx(total / 8)
    assert not any(c for c, y in zip(confident, GIVEN, strict=True) if y == 1)
    np.testing.assert_allclose(memory["centroids"].numpy(), moved, rtol=1e-9)
    assert memory["centroids"][1].any()
    # Class 3 has no sample in the batch.
    assert torch.equal(memory["centroids"][3], model.centroids[3])


def test_every_term_has_a_gradient():
    gradients = {}
    for name, options, weight in (
        ("none", {"entropy_weight": 0.0}, 0.0),
        ("centroids", {"entropy_weight": 0.0}, 0.7),
        ("squared", {"entropy_weight": 0.0, "centroid_distance": "squared"}, 0.7),
        ("entropy", {}, 0.0),
    ):
        loss, model, _ = step(options, weight=weight)
        (gradients[name],) = torch.autograd.grad(loss, [model.body])
    for name in ("centroids", "entropy"):
        assert float((gradients[name] - gradients["none"]).norm()) > 0.1
    # Eq. 5 by hand: 2 / b sum of m x (F - f).
    model = Linear(8)
    confident = torch.tensor(expected(model)[1], dtype=torch.float64)
    apart = (model.images @ model.body).detach() - model.centroids[torch.tensor(GIVEN)]
    by_hand = 0.7 * 2 / 8 * model.images.T @ (confident[:, None] * apart)
    torch.testing.assert_close(gradients["squared"] - gradients["none"], by_hand)
    torch.testing.assert_close(gradients["centroids"] - gradients["none"], by_hand / WIDTH)


GLOBAL = torch.tensor([[0.0, 1.0, 3.0, 0.0]])
OWN = torch.tensor([[0.0, 0.0, 2.0, 2.5]])
"""Logits of the global and of the local model, the same for each sample."""


class Passes(Answering):
    """A federation as ``before_round`` sees it, and the views that it is asked for."""

    def __init__(self, labels, centroids=True):
        self.clients = [Client(0, torch.arange(9), labels, labels.clone())]
        self.weights, self.views = {}, []
        self.state = {"centroids": torch.ones(CLASSES, WIDTH)} if centroids else {}

    def passes(self, requests, round):
        self.views += [request.view for request in requests]
        return [Outputs(GLOBAL.expand(9, -1), torch.ones(9, WIDTH)) for _ in requests]


def planned(round, number=0, own=None, centroids=True, **options):
    """An epoch that a client of nine samples plans, and the views of the images that its passes
    before the round, and before the epoch, show.
    """
    federation = Passes(torch.arange(9) % 3, centroids)
    method = rofl(pseudo_label_round=4, forget_rate=0.4, forget_ramp_rounds=1, **options)
    method.before_round(round, federation.clients, federation)
    own = own or Outputs(OWN.expand(9, -1), torch.ones(9, WIDTH))
    views = []

    def outputs(purpose, network, view):
        views.append(view)
        return own

    turn = Turn(1, round, "training", 0, number, 5, outputs)
    return method.epoch(federation.clients[0], turn), federation.views, views


def test_what_an_epoch_plans():
    (early, *_), (late, *_) = planned(2), planned(3)
    labels = torch.arange(9) % 3
    given = torch.nn.functional.one_hot(labels, CLASSES).float()
    for epoch in (early, late):
        assert epoch.targets[:, 0].tolist() == labels.tolist()
    assert torch.equal(early.targets[:, 1:], given)
    assert early.extras["kept"] == [3, math.ceil(0.6 * 4)]  # of 5 samples, 3; of 4, 3
    weights = [
        planned(r, centroid_weight=2.0)[0].extras["centroid_weight"][0] for r in (0, 1, 3, 9)
    ]
    assert weights == pytest.approx([0.0, 0.5, 1.5, 2.0])
    ramp = planned(1, centroid_ramp_rounds=2)[0].extras["centroid_weight"][0]
    assert ramp == pytest.approx(0.5)


@pytest.mark.parametrize("view", ["batch", "weak", "plain"])
def test_labels_are_guessed_on_the_view_that_the_option_names(view):
    shown = "plain" if view == "plain" else "weak"
    epoch, before_round, before_epoch = planned(3, pseudo_label_view=view)
    assert epoch.targets.shape[1] == (1 if view == "batch" else 1 + CLASSES)
    assert (before_round, before_epoch) == ([] if view == "batch" else [shown], [])
    # What comes before any step has no view that a step learns from.
    epoch, before_round, before_epoch = planned(3, pseudo_label_view=view, pseudo_labels="naive")
    assert epoch.targets.shape[1] == 1 + CLASSES
    assert (before_round, before_epoch) == ([], [shown])
    assert planned(0, pseudo_label_view=view)[1:] == ([], [])
    assert planned(0, pseudo_label_view=view, centroids=False)[1:] == ([shown], [])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pseudo_label_view": "weak"}, GLOBAL.softmax(1)),  # Eq. 8
        ({"pseudo_label_view": "plain", "pseudo_label_form": "hard"}, torch.eye(CLASSES)[[2]]),
        ({"pseudo_labels": "naive"}, OWN.softmax(1)),
        ({"pseudo_labels": "naive", "pseudo_label_form": "hard"}, torch.eye(CLASSES)[[3]]),
        ({"pseudo_labels": "none"}, torch.zeros(1, CLASSES)),
    ],
)
def test_pseudo_labels_are_softmax_outputs_or_their_largest(options, expected):
    pseudo = planned(3, **options)[0].targets[:, 1:]
    torch.testing.assert_close(pseudo, expected.expand(9, -1))


class Reports(Answering):
    """A federation as ``after_updates`` sees it, and what it is told."""

    def __init__(self):
        self.state, self.told = {}, {}

    def report_selection(self, client, positions):
        pass

    def report(self, client, **estimates):
        self.told.update(estimates)

    def exchange(self, down, up):
        pass


def told(round, **options):
    """What is reported of a client of six samples after a round; two of them are confident."""
    true = torch.tensor([0, 1, 2, 3, 0, 1])
    client = Client(0, torch.arange(6), torch.tensor([0, 0, 2, 3, 1, 0]), true)
    memory = {
        "confident": torch.tensor([1, 0, 1, 0, 0, 0]),
        "centroids": torch.ones(4, 2),
        "pseudo_label": torch.tensor([0, 3, 2, 0, 0, -1]),  # right of samples 0, 2 and 4
    }
    update = Update(client, {}, memory, 6.0, 1, 0.0, 6, 6)
    federation = Reports()
    rofl(pseudo_label_round=4, **options).after_updates(round, [update], federation)
    return federation.told


def test_pseudo_labels_are_judged_where_they_are_learnt():
    assert "pseudo_label_accuracy" not in told(2)
    assert told(3)["pseudo_label_accuracy"] == pytest.approx(1 / 3)  # of samples 1, 3 and 4
    assert told(3, mask=False)["pseudo_label_accuracy"] == pytest.approx(3 / 5)
    assert "pseudo_label_accuracy" not in told(3, pseudo_labels="none")


@pytest.mark.slow
def test_on_noisy_digits(tmp_path):
    """Confident samples are far cleaner than the labels, and so are pseudo-labels."""
    method = {"name": "rofl", "pseudo_label_round": 8}
    federation, accuracy = run_on_digits(method, tmp_path, rounds=12)
    rounds = federation.records.rounds
    assert rounds[-1]["label_precision"] > 0.5 + 0.4
    assert rounds[-1]["label_recall"] > 0.8
    assert accuracy[-1] > 0.85
    model = sum(value.numel() * 4 for value in federation.weights.values())
    # Five clients, ten classes of 64 features; in the first round none go down.
    assert rounds[0]["bytes_down"] == 5 * model
    assert rounds[0]["bytes_up"] == rounds[1]["bytes_down"] == 5 * (model + 10 * 64 * 4)
    last = [row for row in federation.records.clients if row["round"] == 12]
    assert np.mean([row["noise_detection_recall"] for row in last]) > 0.6
    assert np.mean([row["pseudo_label_accuracy"] for row in last]) > 0.6
    assert all("pseudo_label_accuracy" not in row for row in federation.records.clients[: 5 * 7])
    # tau is the mean noise level, reached after ten rounds.
    assert federation.clients[0].state["kept"] == pytest.approx(0.5, abs=0.01)
