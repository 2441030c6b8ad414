"""FedCNI's equations on small cases, and its splits on noisy digits."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from fakes import Answering
from noisy_digits import run_on_digits
from noisyfl.methods.fedcni import mixup_index, split_by_similarity
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.estimates import mean_by_class
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch
from vectors import method, updates_of

fedcni = partial(method, "fedcni")


def draw(samples=90, classes=4, width=6):
    """Features around a centre of each class but the last, which has none; 21 labels are wrong."""
    rng = np.random.default_rng(5)
    centres = 3 * np.eye(classes, width) + 0.3
    true = np.arange(samples) % (classes - 1)
    given = true.copy()
    given[:21] = (true[:21] + 1) % (classes - 1)
    features = np.abs(centres[true] + 0.2 * rng.normal(size=(samples, width)))
    return torch.from_numpy(features), torch.from_numpy(true), torch.from_numpy(given)


@pytest.mark.parametrize("kind", ["mean", "unit"])
def test_prototypes_and_similarities_are_equations_5_and_6(kind):
    features, _, given = draw()
    outputs = Outputs(torch.zeros(90, 4, dtype=torch.float64), features)
    prototypes, similarity = fedcni(prototype=kind).compared(outputs, given)
    rows = features.numpy()
    if kind == "unit":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for c in range(3):
        mean = rows[given.numpy() == c].mean(0)
        np.testing.assert_allclose(prototypes[c].numpy(), mean)
        cosines = rows @ mean / np.linalg.norm(rows, axis=1) / np.linalg.norm(mean)
        np.testing.assert_allclose(similarity[:, c].numpy(), cosines)
    assert bool((similarity[:, 3] == -math.inf).all())


@pytest.mark.parametrize("scaled", [True, False])
def test_a_split_is_that_of_a_mixture_a_class(scaled):
    features, true, given = draw()
    outputs = Outputs(torch.zeros(90, 4, dtype=torch.float64), features)
    _, similarity = fedcni().compared(outputs, given)
    clean = split_by_similarity(similarity, given, scaled)
    for c in range(3):
        own = similarity[given == c, c].numpy()[:, None]
        if scaled:
            own = (own - own.min()) / (own.max() - own.min())
        mixture = GaussianMixture(2, reg_covar=1e-4 if scaled else 1e-6, random_state=0).fit(own)
        likely = mixture.predict_proba(own)[:, mixture.means_.argmax()] > 0.5
        assert clean[given == c].tolist() == likely.tolist()
    assert float((clean == (given == true)).double().mean()) > 0.9
    # The order of the samples does not matter.
    order = torch.from_numpy(np.random.default_rng(0).permutation(90))
    assert torch.equal(split_by_similarity(similarity[order], given[order], scaled), clean[order])


def test_few_or_equal_samples_are_clean():
    similarity = torch.tensor([[0.1, 0.0], [0.9, 0], [0.2, 0]] + [[0.0, 0.5]] * 5)
    labels = torch.tensor([0] * 3 + [1] * 5)
    assert bool(split_by_similarity(similarity, labels, True).all())
    assert bool(split_by_similarity(torch.full_like(similarity, math.nan), labels, True).all())
    # A fourth sample, and the class is split.
    similarity = torch.cat([similarity, torch.tensor([[0.91, 0.0]])])
    labels = torch.cat([labels, torch.tensor([0])])
    assert (
        split_by_similarity(similarity, labels, True).tolist() == [False, True, False] + [True] * 6
    )


def test_thresholds_are_equations_7_and_8():
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    client = Client(0, torch.arange(7), labels, labels.clone())
    confidence = torch.tensor([0.9, 0.9, 0.4, 0.9, 0.9, 0.45, 0.9], dtype=torch.float64)
    predicted = torch.tensor([0, 0, 0, 1, 1, 1, 3])
    softmax = ((1 - confidence) / 3)[:, None].repeat(1, 4)
    softmax[torch.arange(7), predicted] = confidence
    outputs = Outputs(softmax.log(), torch.empty(0))
    clean = torch.tensor([True, False, True, True, True, True, True])
    method = fedcni(threshold=0.5)
    # Class 0: one of four is clean, sure and right; class 1: one of two; classes 2, 3: none.
    first = method.thresholds(outputs, client, clean)
    assert first.tolist() == pytest.approx([0.25, 0.5, 0.0, 0.0])
    client.state["thresholds"] = first
    # Class 0 now asks for 0.25 alone: two of four; class 1 still one of two.
    assert method.thresholds(outputs, client, clean).tolist() == pytest.approx([0.5, 0.5, 0, 0])
    assert torch.equal(method.thresholds(outputs, client, clean & False), first)


def test_a_pseudo_label_is_as_sure_as_its_own_class_asks_for():
    """Equations 9 and 10, of labels 1, 1, 0 and 0, of which the last is taken for clean."""
    labels = torch.tensor([1, 1, 0, 0])
    client = Client(0, torch.arange(4), labels, labels.clone())
    client.state["thresholds"] = torch.tensor([0.7, 0.5])
    similarity = torch.tensor([[0.6, 0.1], [0.8, 0.1], [0.1, 0.6], [0.1, 0.9]])
    clean = torch.tensor([False, False, False, True])
    assert fedcni().guesses(similarity, client, clean).tolist() == [-1, 0, 1, -1]


def test_what_samples_are_mixed_with():
    labels = np.array([0] * 10 + [1] * 10 + [2] * 5)
    clean = np.array(([True] * 5 + [False] * 5) * 2 + [False] * 5)
    step = np.tile(np.arange(25), 40)
    chosen = mixup_index(step, labels, clean, np.random.default_rng(0))
    # Of clean samples any, of noisy ones clean ones of the class, or any of it where none is clean.
    assert set(chosen[clean[step]]) == set(range(25))
    for label, pool in ((0, range(5)), (1, range(10, 15)), (2, range(20, 25))):
        assert set(chosen[~clean[step] & (labels[step] == label)]) == set(pool)


def turn(round, outputs):
    return Turn(1, round, "training", 0, 0, 8, lambda *_: outputs)


def planned(round, **options):
    features, true, given = draw()
    client = Client(0, torch.arange(90), given, true)
    logits = 3 * torch.nn.functional.one_hot(true, 4).double()
    epoch = fedcni(**options).epoch(client, turn(round, Outputs(logits, features)))
    return client, epoch


def test_what_an_epoch_plans():
    client, epoch = planned(13)
    clean = client.state["clean"]
    assert torch.equal(epoch.targets[:, 0], client.given)
    assert torch.equal(epoch.targets[:, 1].bool(), ~clean)
    assert [len(step) for step in epoch.steps] == [16] * 11 + [4]
    assert "thresholds" not in client.state
    assert fedcni().size(client) == 90

    client, epoch = planned(14)
    assert torch.equal(client.state["clean"], clean)
    target = epoch.targets[:, 0]
    # Pseudo-labels are for noisy samples alone, and mostly right here.
    assert torch.equal(target[clean], client.given[clean])
    assert float((target[~clean] == client.true[~clean]).double().mean()) > 0.9
    assert torch.equal(client.labels, client.given)
    assert fedcni().size(client) == int(clean.sum())
    assert "thresholds" in client.state
    # Partners of noisy samples learn what they learn.
    for step in epoch.steps:
        own, other = np.split(step, 2)
        noisy = epoch.targets[own, 1].bool()
        assert torch.equal(target[own][noisy], target[other][noisy])

    assert "thresholds" not in planned(14, variant="without_dynamic_confidence")[0].state
    plain = planned(14, variant="without_mixup")[1]
    assert "share" not in plain.extras
    assert all(
        (one[: len(one) // 2] == two).all()
        for one, two in zip(epoch.steps, plain.steps, strict=True)
    )
    # Nothing is near enough to a prototype: the given labels stay.
    client, epoch = planned(14, threshold=0.99999, dynamic_confidence=False)
    assert torch.equal(epoch.targets[:, 0], client.given)


def test_pseudo_labels_stay_with_write_back_alone():
    """An epoch guesses labels; in the next, no similarity suffices for any."""

    def second(**options):
        features, true, given = draw()
        logits = 3 * torch.nn.functional.one_hot(true, 4).double()
        client = Client(0, torch.arange(90), given, true)
        method = fedcni(**options)
        first = method.epoch(client, turn(14, Outputs(logits, features))).targets[:, 0]
        assert not torch.equal(first, given)
        assert torch.equal(client.given, given)
        client.state["thresholds"] = torch.full((4,), 2.0, dtype=torch.float64)
        again = method.epoch(client, turn(14, Outputs(-logits, features))).targets[:, 0]
        return first, again, given

    # Logits that are right for no label leave the thresholds as they are (Eq. 7).
    _, again, given = second()
    assert torch.equal(again, given)
    first, again, _ = second(variant="write_back")
    assert torch.equal(again, first)


def test_a_split_is_reported_by_the_labels_that_it_was_made_with():
    features, true, given = draw()
    client = Client(0, torch.arange(90), given, true)
    method = fedcni(variant="write_back")
    logits = 3 * torch.nn.functional.one_hot(true, 4).double()
    written = method.epoch(client, turn(14, Outputs(logits, features))).targets[:, 0]
    seen = []

    class Listening(Answering):
        def report_selection(self, client, clean):
            seen.append(client.labels)

        def report(self, client, **estimates):
            assert estimates["pseudo_label_accuracy"] > 0.9

    (update,) = updates_of([{}])
    update.client = client
    method.after_updates(14, [update], Listening())
    assert torch.equal(seen[0], given)
    assert torch.equal(client.labels, written)


@pytest.mark.parametrize(
    ("options", "early", "late"),
    [
        ({}, "all", "clean"),
        ({"variant": "without_reweight_aggregation"}, "all", "all"),
        ({"variant": "noise_level_aggregation"}, "clean", "clean"),
    ],
)
def test_sizes_are_equation_14_and_table_7(options, early, late):
    """Rounds 14 and 15 of T_s2 = 15; Table 7 has either weighting in the whole process."""
    for round, expected in ((0, early), (13, early), (14, late)):
        client, _ = planned(round, **options)
        clean = int(client.state["clean"].sum())
        assert 60 <= clean < 90
        assert fedcni().size(client) == (clean if expected == "clean" else 90)


class Linear:
    """A model whose features and classifier are weights to take gradients of."""

    def __init__(self):
        rng = torch.Generator().manual_seed(4)
        self.body = torch.rand(5, 3, generator=rng, dtype=torch.float64, requires_grad=True)
        self.head = torch.randn(3, 4, generator=rng, dtype=torch.float64)
        self.images = torch.rand(8, 5, generator=rng, dtype=torch.float64)
        self.prototypes = torch.rand(4, 3, generator=rng, dtype=torch.float64)

    def __call__(self, images):
        features = images @ self.body
        return Outputs(features @ self.head, features)


def step(model, noisy, **options):
    """Four samples and what they are mixed with, or eight samples where there is no mixup."""
    target = torch.tensor([[0, 1, 2, 0, 0, 3, 2, 1], noisy]).T
    extras = {"prototypes": model.prototypes}
    if options.get("mixup") != "none":
        extras["share"] = torch.tensor(0.3)
    return fedcni(**options).loss(
        model, Batch((model.images,), torch.arange(8), target, extras, {})
    )


def mean(values):
    return sum(values) / len(values) if values else 0.0


@pytest.mark.parametrize("noisy", [[1, 0, 1, 0, 0, 0, 0, 0], [0] * 8, [1] * 4 + [0] * 4])
def test_a_step_is_equations_11_to_13(noisy):
    model = Linear()
    labels, other = [0, 1, 2, 0], [0, 3, 2, 1]
    images, body = model.images.numpy(), model.body.detach().numpy()
    parts = {0: [], 1: []}
    away = []
    for i in range(4):
        logits = (0.3 * images[i] + 0.7 * images[4 + i]) @ body @ model.head.numpy()
        log = logits - np.log(np.exp(logits).sum())
        parts[noisy[i]].append(-0.3 * log[labels[i]] - 0.7 * log[other[i]])
        feature, prototype = images[i] @ body, model.prototypes[labels[i]].numpy()
        if noisy[i]:
            lengths = np.linalg.norm(feature) * np.linalg.norm(prototype)
            away.append(1 - feature @ prototype / lengths)
    mixup = mean(parts[0]) + mean(parts[1])
    assert step(model, noisy).item() == pytest.approx(mixup + 0.7 * mean(away), rel=1e-6)
    without = step(model, noisy, variant="without_distance_loss")
    assert without.item() == pytest.approx(mixup, rel=1e-6)


@pytest.mark.parametrize("noisy", [[1, 0, 0, 0] * 2, [0] * 8, [1] * 8])
def test_one_mean_over_a_batch_weighs_all_of_its_samples_alike(noisy):
    """One, none or all of four samples are noisy; Eq. 12 stays a mean over the noisy ones."""
    model = Linear()
    mixed = 0.3 * model.images[:4] + 0.7 * model.images[4:]
    log = model(mixed).logits.log_softmax(1)
    rows = torch.arange(4)
    losses = -0.3 * log[rows, [0, 1, 2, 0]] - 0.7 * log[rows, [0, 3, 2, 1]]
    found = step(model, noisy, loss_mean="batch", similarity_weight=0.0)
    assert found.item() == pytest.approx(losses.mean().item(), rel=1e-6)
    parts = step(model, noisy, similarity_weight=0.0)
    if len(set(noisy)) == 1:
        assert parts.item() == pytest.approx(found.item())
    else:
        expected = losses[0] + losses[1:].mean()
        assert parts.item() == pytest.approx(expected.item(), rel=1e-6)
    away = step(model, noisy, loss_mean="batch") - found
    assert away.item() == pytest.approx((step(model, noisy) - parts).item())


def test_without_mixup_it_is_cross_entropy():
    model, noisy = Linear(), [1, 0, 1, 0, 0, 0, 0, 1]
    losses = torch.nn.functional.cross_entropy(
        model(model.images).logits, torch.tensor([0, 1, 2, 0, 0, 3, 2, 1]), reduction="none"
    )
    flag = torch.tensor(noisy).bool()
    found = step(model, noisy, mixup="none", similarity_weight=0.0)
    assert found.item() == pytest.approx((losses[flag].mean() + losses[~flag].mean()).item())


def test_every_term_has_a_gradient():
    model = Linear()

    def gradient(noisy, **options):
        (found,) = torch.autograd.grad(step(model, noisy, **options), [model.body])
        return found

    some, none = [1, 0, 1, 0, 0, 0, 0, 0], [0] * 8
    plain = gradient(some, similarity_weight=0.0)
    assert float((gradient(some) - plain).norm()) > 0.01
    assert float((gradient(none, similarity_weight=0.0) - plain).norm()) > 0.01
    torch.testing.assert_close(gradient(none), gradient(none, similarity_weight=0.0))


def test_mean_by_class_and_detection():
    values = torch.tensor([[1.0], [3.0], [9.0]])
    means, count = mean_by_class(values, torch.tensor([0, 0, 2]), 3)
    assert means[:, 0].tolist() == [2, 0, 9]
    assert count.tolist() == [2, 0, 1]
    counted = torch.tensor([False, True, False])
    means, count = mean_by_class(values, torch.tensor([0, 0, 2]), 3, counted)
    assert means[:, 0].tolist() == [3, 0, 0]
    assert count.tolist() == [1, 0, 0]


@pytest.mark.slow
def test_on_noisy_digits(tmp_path):
    """What it calls clean is far cleaner than the labels, and pseudo-labels are mostly right."""
    method = {"name": "fedcni", "pseudo_label_round": 8, "aggregation_round": 8}
    federation, accuracy = run_on_digits(method, tmp_path, rounds=12)
    rounds = federation.records.rounds
    assert rounds[-1]["label_precision"] > 0.5 + 0.15
    assert rounds[-1]["label_recall"] > 0.7
    assert accuracy[-1] > 0.6
    last = [row for row in federation.records.clients if row["round"] == 12]
    assert np.mean([row["pseudo_label_accuracy"] for row in last]) > 0.5
