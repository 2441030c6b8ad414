"""FedNoiL's draws, schedules, subsets and losses on cases worked out beside it."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch

from fakes import FakeFederation
from noisy_digits import SOME_CLIENTS, run_on_digits
from noisyfl.methods.fednoil import draw_by_weight, side_by_side
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.updates import Batch, Update
from vectors import method

SCHEDULE = {
    "rounds": 10,
    "participation": 1.0,
    "local_epochs": 27,
    "batch_size": 2,
    "learning_rate": 0.1,
}

fednoil = partial(method, "fednoil")


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize("epochs", ["cosine", "logarithm"])
@pytest.mark.parametrize(("least_from", "rounds"), [(10, 200), (80, 150)])
def test_a_constant_schedule_has_the_epochs_of_the_one_it_is_of(epochs, least_from, rounds):
    """In all, and of any number of first rounds its share of them, to within one epoch."""
    schedule = Schedule(**{**SCHEDULE, "rounds": rounds})
    found = {}
    for evenly in (False, True):
        method = fednoil(epochs=epochs, least_from=least_from, evenly=evenly)
        found[evenly] = np.array(
            [method.local_schedule(r, schedule).local_epochs for r in range(rounds)]
        )
    mean = found[False].sum() / rounds
    assert found[True].sum() == found[False].sum()
    assert set(found[True]) == {math.floor(mean), math.ceil(mean)}
    assert np.abs(found[True].cumsum() - mean * np.arange(1, rounds + 1)).max() < 1


@pytest.mark.parametrize("epochs", ["cosine", "logarithm"])
def test_local_epochs_against_the_printed_equations(epochs):
    method = fednoil(epochs=epochs)
    psi1, psi2, rounds = 2 * 79 / 200, 80 ** (1 / 80), 200
    for r in range(1, 80):
        exact = {
            "cosine": 20 + 80 * math.cos((r - 1) / (psi1 * rounds) * math.pi),
            "logarithm": 100 - math.log(r, psi2),
        }[epochs]
        assert abs(method.local_epochs(r) - max(exact, 20)) <= 0.5 + 1e-9
    assert {method.local_epochs(r) for r in range(80, 201)} == {20}


def test_the_constant_schedule_is_the_runs_and_a_schedule_may_be_over_at_once():
    schedule = Schedule(**SCHEDULE)
    assert fednoil(variant="constant").local_schedule(3, schedule).local_epochs == 27
    assert fednoil(variant="logarithm").local_schedule(0, schedule).local_epochs == 100
    assert fednoil(variant="cosine").local_schedule(79, schedule).local_epochs == 20
    assert fednoil(least_from=1).local_schedule(0, schedule).local_epochs == 20


# ---------------------------------------------------------------- draws


def test_a_draw_is_one_after_the_other_without_replacement():
    """Against the probability of every pair, worked out in full."""
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    expected = {
        frozenset(pair): sum(
            weights[a] * weights[b] / (1 - weights[a]) for a, b in (pair, pair[::-1])
        )
        for pair in itertools.combinations(range(4), 2)
    }
    rng = np.random.default_rng(0)
    found = dict.fromkeys(expected, 0)
    for _ in range(20000):
        found[frozenset(draw_by_weight(weights, 2, rng).tolist())] += 1 / 20000
    for pair, probability in expected.items():
        assert found[pair] == pytest.approx(probability, abs=0.015)


def test_a_draw_of_more_than_have_any_weight():
    rng = np.random.default_rng(0)
    draws = [
        set(draw_by_weight(np.array([0.0, 1.0, 0.0, 0.0]), 2, rng).tolist()) for _ in range(50)
    ]
    assert all(1 in draw and len(draw) == 2 for draw in draws)
    assert len(set(map(frozenset, draws))) == 3
    assert sorted(draw_by_weight(np.zeros(3), 3, rng)) == [0, 1, 2]


def test_steps_see_every_sample_once_in_proportion():
    """``labelled`` and ``all`` are what a batch size of 32 counts."""
    steps = side_by_side(np.arange(175), np.arange(175, 500), 32, "labelled")
    assert [int((step < 175).sum()) for step in steps] == [32] * 5 + [15]
    assert [int((step >= 175).sum()) for step in steps] == [59, 60, 59, 60, 59, 28]
    assert sorted(np.concatenate(steps)) == list(range(500))
    steps = side_by_side(np.arange(175), np.arange(175, 500), 32, "all")
    assert [len(step) for step in steps] == [32] * 15 + [20]  # FedAvg's steps
    assert {int((step < 175).sum()) for step in steps[:-1]} == {11, 12}  # 0.35 of 32 is 11.2
    assert int((steps[-1] < 175).sum()) == 7
    assert sorted(np.concatenate(steps)) == list(range(500))


@pytest.mark.parametrize(
    ("labelled", "others", "batch", "lengths"),
    [
        (5, 1, "labelled", [2, 3]),
        (1, 3, "labelled", [4]),
        (1, 3, "all", [2, 2]),
        (2, 3, "all", [2, 2]),  # a last step of one sample is left out
        (1, 0, "all", [1]),
    ],
)
def test_steps_of_few_samples(labelled, others, batch, lengths):
    positions = np.arange(labelled + others)
    steps = side_by_side(positions[:labelled], positions[labelled:], 2, batch)
    assert [len(step) for step in steps] == lengths


# ---------------------------------------------------------------- the federation


class Truthful(FakeFederation):
    """Clients of 10 samples, client k having k wrong labels, and a model that knows the truth."""

    def __init__(self, sizes=(10, 10, 10, 10), participants=2, certainty=2.0):
        true = [np.arange(size) % 3 for size in sizes]
        wrong = [(np.arange(size) < number).astype(int) for number, size in enumerate(sizes)]
        given = [(labels + flips) % 3 for labels, flips in zip(true, wrong, strict=True)]
        super().__init__(given, {"w": torch.zeros(25)}, true)
        self.participants = participants
        self.certainty = certainty
        self.asked = []

    def answer(self, request):
        self.asked.append((request.client.id, request.purpose, request.view))
        sure = torch.nn.functional.one_hot(request.client.true, 3).double() * self.certainty
        return Outputs(sure, torch.empty(0))


def test_scores_are_confidences_at_a_temperature():
    federation = Truthful()
    chosen = fednoil().select(0, federation)
    assert len(set(chosen.tolist())) == 2
    right = math.exp(4) / (math.exp(4) + 2)  # logits 2, 0, 0 over a temperature of 0.5
    wrong = 1 / (math.exp(4) + 2)
    scores = [right * (10 - k) + wrong * k for k in range(4)]
    for client, score in zip(federation.clients, scores, strict=True):
        known = client.state["fednoil"]
        assert float(known["confidence"].sum()) == pytest.approx(score)
        assert known["probability"] == pytest.approx(score / sum(scores))
        noise = federation.reports[client.id]["estimated_noise_level"]
        assert noise == pytest.approx(1 - score / 10)
    assert federation.asked == [(k, "confidence", "plain") for k in range(4)]


def test_cleaner_clients_are_drawn_more_often():
    federation = Truthful(sizes=(10,) * 10, participants=3, certainty=8.0)
    counts = np.zeros(10)
    for round in range(400):
        counts[fednoil().select(round, federation)] += 1
    assert counts[0] > 1.5 * counts[8]
    federation.asked.clear()
    assert len(fednoil(variant="uniform_clients").select(0, federation)) == 3
    assert not federation.asked


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("share", [2, 4, 7]), ("score", [5, 5, 1]), ("mean_noise", [3, 6, 12])],
)
def test_how_many_samples_are_labelled(rule, expected):
    """0.35 of 5, 10 and 20; of all 35 (12.25), by probability, but no more than there are and at
    least one; and all but the 14.5 of 35 labels that are wrong.
    """
    federation = Truthful(sizes=(5, 10, 20))
    federation.clients[2].noise_level = 0.675  # 13.5 of 20; client 1 has one wrong label
    for client, probability in zip(federation.clients, (0.6, 0.375, 0.025), strict=True):
        client.state["fednoil"] = {"probability": probability}
    method = fednoil(subset_size=rule, clean_share=0.35)
    assert [method._subset(client, federation) for client in federation.clients] == expected


@pytest.mark.parametrize(
    ("levels", "sizes", "expected"),
    [
        ((0.5, 0.6, 0.7, 0.8), (100,) * 4, 35),  # the paper's modes: symmetric high
        ((0.3, 0.5, 0.6, 0.8), (100,) * 4, 35),  # pair high
        ((0.3, 0.4, 0.5, 0.6), (100,) * 4, 55),  # symmetric and pair low
        ((0.3, 0.5, 0.6, 0.8), (900, 100, 100, 100), 35),  # although most labels are right
        ((0.0,) * 4, (100,) * 4, 55),
        ((0.5,) * 4, (100,) * 4, 55),
    ],
)
def test_the_share_of_labelled_samples_is_the_papers_of_the_noise_mode(levels, sizes, expected):
    federation = Truthful(sizes=sizes)
    for client, level in zip(federation.clients, levels, strict=True):
        client.noise_level = level
        client.state["fednoil"] = {}
    assert fednoil()._subset(federation.clients[3], federation) == expected
    assert fednoil(clean_share=0.2)._subset(federation.clients[3], federation) == 20


def turn(number=0, batch_size=4):
    return Turn(1, 0, "training", 2, number, batch_size, None)


def test_a_local_epoch_draws_anew_and_learns_the_rest_from_pseudo_labels():
    federation = Truthful(sizes=(20,) * 4, certainty=6.0)
    method = fednoil(clean_share=0.35)
    client = federation.clients[2]
    method.select(0, federation)
    federation.asked.clear()
    method.before_round(0, [client], federation)
    assert federation.asked == [(2, f"pseudo-label {k}", "weak") for k in (0, 1)]
    epochs = [method.epoch(client, turn(number)) for number in (0, 1)]
    draws = client.state["fednoil"]["draws"]
    assert [int(mask.sum()) for mask in draws] == [7, 7]
    assert not torch.equal(*draws)
    for epoch, mask in zip(epochs, draws, strict=True):
        assert epoch.views == ("weak", "strong")
        order = np.concatenate(epoch.steps)
        assert sorted(order) == list(range(20))
        assert np.concatenate(epoch.extras["labelled"]).tolist() == mask[order].tolist()
        assert np.concatenate(epoch.extras["accepted"]).tolist() == (~mask)[order].tolist()
        assert torch.equal(epoch.targets, torch.where(mask, client.labels, client.true))
    report = federation.reports[2]
    assert report["pseudo_labelled"] == report["pseudo_label_accuracy"] == 1.0


def test_an_epoch_of_batches_of_all_has_fedavgs_steps():
    federation = Truthful(sizes=(20,) * 4)
    client = federation.clients[2]
    lengths = {}
    for batch in ("labelled", "all"):
        method = fednoil(clean_share=0.35, batch=batch)
        method.before_round(0, [client], federation)
        lengths[batch] = [len(step) for step in method.epoch(client, turn()).steps]
    # 7 of 20 are labelled, and the batch size is 4.
    assert lengths == {"labelled": [11, 9], "all": [4] * 5}


def test_an_unsure_model_accepts_no_pseudo_label():
    federation = Truthful(certainty=2.0)
    method = fednoil()
    method.before_round(0, federation.clients[:1], federation)
    epoch = method.epoch(federation.clients[0], turn())
    assert not np.concatenate(epoch.extras["accepted"]).any()
    assert federation.reports[0]["pseudo_labelled"] == 0
    assert "pseudo_label_accuracy" not in federation.reports[0]


def test_variants_leave_the_other_draws_as_they_are():
    plans = {}
    for variant in ("logarithm", "without_ssl", "uniform_clients", "uniform_data"):
        federation = Truthful(sizes=(20,) * 4)
        method = fednoil(variant=variant)
        method.select(0, federation)
        method.before_round(0, federation.clients, federation)
        plans[variant] = method.epoch(federation.clients[2], turn())
        plans[variant, "draw"] = federation.clients[2].state["fednoil"]["draws"][0]
    assert torch.equal(plans["logarithm", "draw"], plans["without_ssl", "draw"])
    assert torch.equal(plans["logarithm", "draw"], plans["uniform_clients", "draw"])
    assert not plans["without_ssl"].extras
    steps = np.concatenate(plans["without_ssl"].steps)
    assert sorted(steps) == plans["without_ssl", "draw"].nonzero()[:, 0].tolist()


def test_all_samples_labelled_is_plain_training():
    federation = Truthful()
    method = fednoil(clean_share=1.0)
    method.before_round(0, federation.clients, federation)
    epoch = method.epoch(federation.clients[1], turn())
    assert not epoch.extras
    assert sorted(np.concatenate(epoch.steps)) == list(range(10))


def test_every_epochs_draw_is_reported_and_nothing_is_kept():
    federation = Truthful()
    method = fednoil()
    method.select(0, federation)
    client = federation.clients[2]
    method.before_round(0, [client], federation)
    for number in range(3):
        method.epoch(client, turn(number))
    updates = [Update(client, federation.weights, {}, 10, 1, 0.0, 1, 1)]
    method.after_updates(0, updates, federation)
    assert [number for number, _ in federation.selections] == [2, 2, 2]
    # 25 numbers of four bytes: down to all four clients; up from one, and a score from all.
    assert method.exchange(updates, federation) == (400, 100 + 16)
    assert fednoil(client_sampling=False).exchange(updates, federation) == (100, 100)
    method.after_round(0, updates, federation)
    assert all(client.state == {} for client in federation.clients)


# ---------------------------------------------------------------- the loss


class Linear:
    def __init__(self):
        rng = torch.Generator().manual_seed(0)
        self.weight = torch.randn(2, 3, generator=rng, dtype=torch.float64, requires_grad=True)

    def __call__(self, images, network=0):
        logits = images.flatten(1) @ self.weight
        return Outputs(logits, logits)


def test_the_loss_is_eqs_7_and_9():
    rng = torch.Generator().manual_seed(1)
    weak, strong = (torch.randn(5, 1, 1, 2, generator=rng, dtype=torch.float64) for _ in "ab")
    target = [0, 2, 1, 1, 0]
    labelled = [True, True, False, False, False]
    accepted = [False, False, True, False, True]

    def loss_of(weight, accepted=accepted):
        extras = {"labelled": torch.tensor(labelled), "accepted": torch.tensor(accepted)}
        batch = Batch((weak, strong), torch.arange(5), torch.tensor(target), extras, {})
        loss = fednoil(unlabelled_weight=weight).loss(model, batch)
        return float(loss.detach()), torch.autograd.grad(loss, [model.weight])[0]

    model = Linear()
    weights = model.weight.detach().numpy()

    def of(image, label):
        logits = image.flatten().numpy() @ weights
        return math.log(np.exp(logits).sum()) - logits[label]

    supervised = (of(weak[0], 0) + of(weak[1], 2)) / 2
    unlabelled = (of(strong[2], 1) + of(strong[4], 0)) / 3  # of three, one is not accepted
    value, gradient = loss_of(2.0)
    assert value == pytest.approx(supervised + 2 * unlabelled)
    plain, without = loss_of(0.0)
    assert plain == pytest.approx(supervised)
    assert float((gradient - without).norm()) > 1e-3
    assert loss_of(2.0, [False] * 5)[0] == pytest.approx(supervised)


@pytest.mark.slow
def test_on_digits_it_draws_cleaner_clients_and_cleaner_samples(tmp_path):
    """And so ends above FedAvg, which learns the wrong labels by heart: means of ten rounds."""
    rounds = {}
    for name in ('fednoil(epochs="constant", clean_share=0.55)', "fedavg"):
        federation, _ = run_on_digits(
            name,
            tmp_path,
            SOME_CLIENTS,
            rounds=20,
            participation=0.3,
            local_epochs=5,
            batch_size=10,
            learning_rate=0.1,
        )
        rounds[name.split("(")[0]] = federation.records.rounds
    accuracy = {
        name: np.mean([row["test_accuracy"] for row in rows[-10:]]) for name, rows in rounds.items()
    }
    assert accuracy["fednoil"] > accuracy["fedavg"]
    last = rounds["fednoil"][8:]
    noise = np.mean([row["participants_noise_level"] for row in last])
    assert noise < np.mean([client.noise_level for client in federation.clients]) - 0.03
    assert np.mean([row["label_precision"] for row in last]) > 1 - noise + 0.05
    assert np.mean([row["label_recall"] for row in last]) > 0.55
