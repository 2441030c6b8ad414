"""FedCorr's equations and rules on cases small enough to work out by hand."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from fakes import FakeFederation, FakeModel, alike
from noisy_digits import run_on_digits
from noisyfl.methods.estimators.lid import lid
from noisyfl.methods.fedcorr import FedCorr, low_component
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.outputs import Outputs, Pass
from noisyfl.simulation.updates import Batch, Update
from vectors import method

fedcorr = partial(method, "fedcorr")


class GlobalAndLocal(FakeFederation):
    """Passes go through the global model or a local one."""

    def __init__(self, labels, participation=0.1, **schedule):
        super().__init__(labels, participation=participation, **schedule)
        self.answers = {}

    def answer(self, request):
        kind = "global" if "global" in request.weights else "local"
        return Outputs(self.answers[kind, request.client.id], torch.empty(0))


@pytest.mark.parametrize(
    ("clients", "participation", "rounds", "t1", "t2", "ends"),
    [
        (100, 0.1, 1000, 5, 500, (500, 1000, 1450)),  # CIFAR-10: T1 N = 500, T3 = 450
        (50, 0.1, 1000, 10, 450, (500, 950, 1400)),  # CIFAR-100: T3 = 450
        (500, 0.02, 200, 2, 50, (1000, 1050, 1100)),  # Clothing1M: T3 = 50
    ],
)
def test_stages_end_where_the_paper_ends_them(clients, participation, rounds, t1, t2, ends):
    federation = GlobalAndLocal(alike(clients), rounds=rounds, participation=participation)
    method = fedcorr(preprocessing_iterations=t1, finetuning_rounds=t2)
    assert method.rounds(federation) == ends[2]
    stages = [method.stage(round, federation) for round in range(ends[2])]
    assert stages.index("finetuning") == ends[0]
    assert stages.index("usual training") == ends[1]
    # The three stages together cost as many local updates as the budget's ordinary rounds.
    counted = sum(method.counted_updates(round, federation) for round in range(ends[2]))
    assert counted == rounds * federation.participants


def test_the_last_round_of_an_iteration_counts_for_whom_it_visits():
    federation = GlobalAndLocal(alike(6), rounds=9, participation=0.7)
    method = fedcorr(preprocessing_iterations=2, finetuning_rounds=1, fraction_scheduling=False)
    visited = [len(method.select(round, federation)) for round in range(4)]
    assert visited == [4, 2, 4, 2]
    assert [method.counted_updates(round, federation) for round in range(5)] == [*visited, 4]


def test_what_is_not_finite_is_not_low():
    values = torch.tensor([0.1, 0.12, 0.11, 5.0, 5.1, math.inf, math.nan])
    assert low_component(values).tolist() == [True] * 3 + [False] * 4


def test_ablations_shorten_the_stages():
    federation = GlobalAndLocal(alike(100))
    assert fedcorr(variant="without_finetuning").rounds(federation) == 950
    assert fedcorr(variant="without_usual_training").rounds(federation) == 1000
    grouped = fedcorr(variant="without_fraction_scheduling")
    assert grouped.preprocessing_sampling == "with_replacement"
    assert grouped.rounds(federation) == 50 + 500 + 450
    assert len(grouped.select(0, federation)) == 10


def test_an_iteration_visits_every_client_once():
    federation = GlobalAndLocal(alike(20))
    for options, rounds in (({}, 20), ({"fraction_scheduling": False}, 10)):
        method = fedcorr(**options)
        visits = np.concatenate([method.select(round, federation) for round in range(rounds)])
        assert sorted(visits) == list(range(20))
    orders = [
        [int(fedcorr().select(20 * iteration + i, federation)[0]) for i in range(20)]
        for iteration in range(2)
    ]
    assert orders[0] != orders[1]


def test_with_replacement_leaves_out_as_many_clients_as_the_official_code():
    """At a fraction of 0.1 about 9.6 of 100 clients are never visited in an iteration."""
    federation = GlobalAndLocal(alike(100))
    method = fedcorr(fraction_scheduling=False, preprocessing_sampling="with_replacement")
    missed = []
    for seed in range(40):
        federation.seed = seed
        visits = np.concatenate([method.select(round, federation) for round in range(10)])
        missed.append(100 - len(set(visits)))
    assert np.mean(missed) == pytest.approx(9.6, abs=1.2)


def test_a_client_that_no_round_drew_looks_clean_and_enters_finetuning():
    """The code's zeros for its LID scores and losses, beside noisy clients that were drawn."""
    federation = iteration(unvisited=(6,))
    assert federation.reports[6]["lid"] == federation.reports[6]["cumulative_lid"] == 0
    assert federation.reports[6]["called_noisy"] == 0
    assert federation.reports[6]["estimated_noise_level"] == 0
    assert torch.equal(federation.clients[6].labels, federation.clients[6].given)
    method = fedcorr(preprocessing_iterations=1)
    assert set(method._finetuned(federation)) == {0, 1, 2, 3, 6}
    # What it was scored before stays: it may be called noisy, at a level of 0.
    again = iteration(unvisited=(6,), before=2.5)
    assert again.reports[6]["called_noisy"] == 1
    assert again.reports[6]["estimated_noise_level"] == 0
    assert torch.equal(again.clients[6].labels, again.clients[6].given)
    assert 6 in set(method._finetuned(again))


def test_a_client_with_too_few_samples_for_a_score_is_not_judged_nor_are_others_by_it():
    federation = iteration(tiny=(0, 7))
    called = [federation.reports[k]["called_noisy"] for k in range(8)]
    assert called == [0, 0, 0, 0, 1, 1, 1, 0]
    assert math.isnan(federation.reports[7]["cumulative_lid"])
    assert torch.equal(federation.clients[7].labels, federation.clients[7].given)
    nobody = iteration(tiny=range(8))
    assert not any(report["called_noisy"] for report in nobody.reports.values())


@pytest.mark.slow
def test_a_client_drawn_twice_makes_two_updates(tmp_path, monkeypatch):
    """The mean has both, and the client's scores are those of the second, as in the code."""
    rounds = []
    score = FedCorr._score

    def scored(self, round, updates, federation):
        score(self, round, updates, federation)
        lids = {update.client.id: float(update.client.state["lid"]) for update in updates}
        rounds.append((round, updates, federation, lids))

    monkeypatch.setattr(FedCorr, "_score", scored)
    options = "preprocessing_iterations=2, finetuning_rounds=0, usual_rounds=0"
    method = f'fedcorr(variant="without_fraction_scheduling", {options})'
    run_on_digits(method, tmp_path, participation=0.6, batch_size=50)
    drawn = [[update.client.id for update in updates] for _, updates, _, _ in rounds]
    repeated = [place for place, ids in enumerate(drawn) if len(set(ids)) < len(ids)]
    assert repeated
    for place in repeated:
        round, updates, federation, lids = rounds[place]
        ids = drawn[place]
        (number,) = {number for number in ids if ids.count(number) == 2}
        first, second = (update for update in updates if update.client.id == number)
        name = "0.classifier.weight"
        assert not torch.equal(first.weights[name], second.weights[name])
        assert lids[number] == scored_alone(second, round, federation)
        assert lids[number] != scored_alone(first, round, federation)


def scored_alone(update, round, federation):
    """What the LID score of an update's client is if it makes no other."""
    (outputs,) = federation.passes([Pass(update.client, update.weights, "lid")], round)
    return float(lid(outputs.logits.softmax(1), 20).mean())


def test_finetuning_is_among_clean_clients_and_falls_back_to_the_cleanest():
    federation = GlobalAndLocal(alike(20), participation=0.25)
    method = fedcorr(preprocessing_iterations=1, finetuning_rounds=5)
    for client in federation.clients:
        level = 0.1 if client.id in (2, 5, 7) else 0.5
        client.state["noise_level"] = torch.tensor(level, dtype=torch.float64)
    assert set(method.select(20, federation)) == {2, 5, 7}
    for client in federation.clients:
        client.state["noise_level"] = torch.tensor(0.2 + 0.01 * client.id)
    assert set(method.select(21, federation)) == {0, 1, 2, 3, 4}


def turn(stage="preprocessing"):
    return Turn(1, 3, stage, client=0, number=0, batch_size=2, outputs=None)


def test_what_a_local_epoch_plans_in_each_stage():
    client = GlobalAndLocal(alike(100)).clients[0]
    assert set(fedcorr().epoch(client, turn()).extras) == {"share", "mixup_index"}
    client.state["noise_level"] = torch.tensor(0.4)
    epoch = fedcorr(beta=5).epoch(client, turn())
    assert epoch.extras["proximal"] == [0.0, pytest.approx(2.0)]
    squared = fedcorr(beta=5, prox_form="squared").epoch(client, turn())
    assert squared.extras["proximal"] == [pytest.approx(2.0)] * 2
    assert "proximal" not in fedcorr().epoch(client, turn("finetuning")).extras
    assert set(fedcorr().epoch(client, turn("usual training")).extras) == {"share", "mixup_index"}
    assert not fedcorr(mixup_stages="preprocessing").epoch(client, turn("finetuning")).extras
    assert "share" not in fedcorr(variant="without_mixup").epoch(client, turn()).extras
    assert "proximal" not in fedcorr(variant="without_local_proximal").epoch(client, turn()).extras


def test_mixup_changes_no_other_dice():
    client = GlobalAndLocal(alike(100, 9)).clients[0]
    plain = fedcorr(mixup=False).epoch(client, turn()).steps
    mixed = fedcorr().epoch(client, turn()).steps
    assert all((a == b).all() for a, b in zip(plain, mixed, strict=True))


def batch_of(images, target, **extras):
    extras = {name: torch.tensor(value) for name, value in extras.items()}
    return Batch((images,), torch.arange(len(target)), torch.tensor(target), extras, {})


def test_mixup_blends_images_and_losses():
    images = torch.tensor([[4.0], [8.0]])
    model = FakeModel(torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]]))
    loss = fedcorr().loss(model, batch_of(images, [0, 1], share=0.75, mixup_index=[1, 0]))
    assert model.images.tolist() == [[5.0], [7.0]]
    own = [-math.log(3 / 4), -math.log(1 / 2)]
    other = [-math.log(1 / 4), -math.log(1 / 2)]
    expected = np.mean([0.75 * a + 0.25 * b for a, b in zip(own, other, strict=True)])
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize(("form", "pull"), [("norm", 2.0 * 1.0), ("squared", 2.0 * 2 * 5.0)])
def test_the_proximal_term_pulls_as_the_equation_says(form, pull):
    """With beta mu = 2 and a distance of 5: gradient 2 of the norm, 2 * 2 * 5 of its square."""
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    model = FakeModel(torch.zeros(1, 2), {"w": weight})
    batch = batch_of(torch.zeros(1, 1), [0], proximal=2.0)
    loss = fedcorr(prox_form=form).loss(model, batch)
    (gradient,) = torch.autograd.grad(loss, [weight])
    assert float(gradient.norm()) == pytest.approx(pull)
    assert float((gradient * weight.detach()).sum()) > 0


def test_loss_forms():
    client = GlobalAndLocal(alike(100, 2, 2)).clients[0]
    logits = torch.tensor([[10.0, 0.0], [10.0, 0.0]])  # sure of class 0; the labels are 0 and 1
    plain = fedcorr(loss_form="cross_entropy")._losses(logits, client)
    assert plain.tolist() == pytest.approx([0.0, 10.0], abs=1e-4)
    # The softmax is (1, 0); cross-entropy of it taken for logits is log(e + 1) - 1 and log(e + 1).
    double = fedcorr()._losses(logits, client)
    assert double.tolist() == pytest.approx([math.log(math.e + 1) - 1, math.log(math.e + 1)], 1e-3)


def iteration(unvisited=(), before=0.0, tiny=(), **options):
    """The end of an iteration: clients 4 to 7 have high scores and 12 wrong labels of 30.

    Args:
        unvisited: clients that no round of it drew.
        before: the cumulative scores of these.
        tiny: clients that have no score.
    """
    federation = GlobalAndLocal(alike(8, 30), participation=0.25)
    method = fedcorr(preprocessing_iterations=1, **options)
    for client in federation.clients:
        sure = torch.nn.functional.one_hot(client.true, 3).double() * 8
        federation.answers["global", client.id] = sure
        if client.id >= 4:
            client.given[:12] = (client.true[:12] + 1) % 3
            client.labels = client.given.clone()
        client.state["lid"] = torch.tensor((3.0 if client.id >= 4 else 1.0) + client.id / 100)
        # Losses that differ a little within each kind, as measured ones do.
        blur = torch.linspace(0.9, 1.1, 30)[:, None]
        client.state["losses"] = method._losses(sure * blur, client)
        if client.id in tiny:
            client.state["lid"] = torch.tensor(math.nan)
        if client.id in unvisited:
            client.state = {"cumulative_lid": torch.tensor(before, dtype=torch.float64)}
    method._end_iteration(0, federation)
    return federation


def test_scores_are_the_mean_lid_of_the_local_models_predictions():
    federation = GlobalAndLocal(alike(1, 40))
    client = federation.clients[0]
    logits = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    federation.answers["local", 0] = logits
    method = fedcorr(lid_neighbours=7, loss_form="cross_entropy")
    method._score(
        0, [Update(client, {"local": torch.zeros(1)}, {}, 40, 1, 0.0, 40, 40)], federation
    )
    assert float(client.state["lid"]) == pytest.approx(float(lid(logits.softmax(1), 7).mean()))
    expected = torch.nn.functional.cross_entropy(logits, client.labels, reduction="none")
    assert client.state["losses"].tolist() == pytest.approx(expected.tolist())


def test_an_iteration_finds_the_noisy_clients_and_corrects_at_most_the_ratio():
    federation = iteration()
    called = [federation.reports[client]["called_noisy"] for client in range(8)]
    assert called == [0.0] * 4 + [1.0] * 4
    for client in federation.clients[:4]:
        assert torch.equal(client.labels, client.given)
        assert federation.reports[client.id]["estimated_noise_level"] == 0
        assert bool(dict(federation.selections)[client.id].all())
    for client in federation.clients[4:]:
        assert federation.reports[client.id]["estimated_noise_level"] == pytest.approx(12 / 30)
        changed = int((client.labels != client.given).sum())
        assert changed == 6
        assert int((client.labels == client.true).sum()) == 18 + changed
        assert federation.reports[client.id]["pseudo_label_accuracy"] == 1
    assert "pseudo_label_accuracy" not in federation.reports[0]


def test_of_a_ratio_of_the_wrong_labels_the_whole_ones_are_corrected():
    """0.4 of 12 are 4.8, of which the official code takes four."""
    federation = iteration(relabel_ratio=0.4)
    assert [int((c.labels != c.given).sum()) for c in federation.clients] == [0] * 4 + [4] * 4


def test_without_correction_estimates_but_changes_no_label():
    federation = iteration(correction=False)
    assert federation.reports[5]["estimated_noise_level"] > 0
    assert all(torch.equal(c.labels, c.given) for c in federation.clients)


def test_global_ranking_relabels_only_what_the_mixture_called_noisy():
    federation = iteration(ranking="global", relabel_ratio=1.0)
    for client in federation.clients[4:]:
        changed = client.labels != client.given
        assert bool(changed.any())
        assert not bool((changed & dict(federation.selections)[client.id]).any())


def test_an_unsure_model_relabels_nothing():
    federation = iteration(confidence=0.9999)
    assert all(torch.equal(c.labels, c.given) for c in federation.clients)


@pytest.mark.parametrize(
    ("rule", "corrected"), [("noisy_clients", {1, 2}), ("above_threshold", {2, 3})]
)
def test_whom_finetuning_corrects(rule, corrected):
    federation = GlobalAndLocal(alike(4, 6))
    states = {0: (False, 0.0), 1: (True, 0.05), 2: (True, 0.6), 3: (False, 0.6)}
    for client in federation.clients:
        noisy, level = states[client.id]
        client.state = {"noisy": torch.tensor(noisy), "noise_level": torch.tensor(level)}
        federation.answers["global", client.id] = torch.tensor(
            [[0.0, 0.0, 9.0]] * 5 + [[0.1, 0, 0]]
        )
    fedcorr(finetuning_relabels=rule)._correct_after_finetuning(0, federation)
    changed = {c.id for c in federation.clients if not torch.equal(c.labels, c.given)}
    assert changed == corrected
    # Every sample of which the model is sure, whatever its loss; the last one it is not sure of.
    assert federation.clients[2].labels.tolist() == [2, 2, 2, 2, 2, 2]
    assert federation.clients[2].labels[5] == federation.clients[2].given[5]
    # Of the five new labels, all 2, that of the third sample is its true one.
    assert federation.reports[2]["pseudo_label_accuracy"] == pytest.approx(1 / 5)


def test_after_round_corrects_at_the_ends_of_stages(monkeypatch):
    federation = GlobalAndLocal(alike(4), rounds=10, participation=0.5)
    method = fedcorr(preprocessing_iterations=2, finetuning_rounds=3)
    calls = []
    cls = type(method)
    monkeypatch.setattr(cls, "_score", lambda *a: calls.append(("score", a[1])))
    monkeypatch.setattr(cls, "_end_iteration", lambda *a: calls.append(("end", a[1])))
    monkeypatch.setattr(cls, "_correct_after_finetuning", lambda *a: calls.append(("fix", a[1])))
    for round in range(method.rounds(federation)):
        method.after_round(round, [], federation)
    assert [call for call in calls if call[0] != "score"] == [("end", 3), ("end", 7), ("fix", 10)]
    assert [call[1] for call in calls if call[0] == "score"] == list(range(8))
