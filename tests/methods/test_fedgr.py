"""FedGR's sieve, guesses, loss and teacher, by hand, and on digits."""

import numpy as np
import pytest
import torch
from test_robust_losses import LABELS, LOGITS, client_of, turn
from torch.nn import functional

from fakes import Answering
from noisy_digits import run_on_digits
from noisyfl.methods.fedgr import (
    GUESS,
    LOSSES,
    MOVES,
    NAMED,
    NONE,
    RIGHT,
    TARGETS,
    TEACHER,
    followed,
    small_loss_probability,
)
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch
from vectors import method, updates_of

RNG = torch.Generator().manual_seed(2)
FEATURES, SEEN = torch.randn(2, 4, 5, generator=RNG)
TAUGHT = torch.randn(4, 3, generator=RNG)
WEIGHT = "0.classifier.weight"


class Stub:
    """A model with one weight, whose received one has features of its own."""

    def __init__(self, weight):
        self.weights = {WEIGHT: weight}

    def __call__(self, images, network=0):
        return Outputs(LOGITS, FEATURES)

    def received(self, images, network=0):
        return Outputs(LOGITS, SEEN)


def federation_of(round, logits=LOGITS, weight=None, clients=4, participants=2, plain=None):
    reports, selected = {}, {}
    shown = {"weak": logits, "plain": logits if plain is None else plain}
    return Answering(
        round=round,
        seed=1,
        participants=participants,
        clients=[None] * clients,
        weights={WEIGHT: torch.zeros(3) if weight is None else weight},
        passes=lambda requests, number: [Outputs(shown[one.view], FEATURES) for one in requests],
        report=lambda client, **values: reports.setdefault(client.id, {}).update(values),
        report_selection=lambda client, flags: selected.update({client.id: flags.tolist()}),
        exchange=lambda down=0, up=0: None,
        reports=reports,
        selected=selected,
    )


def labelled():
    client = client_of(4)
    client.given = client.labels = LABELS
    client.true = torch.tensor([0, 1, 2, 1])
    return client


def test_all_clients_take_part_equally_often_while_they_are_sieved():
    side, federation = method("fedgr", sieving_rounds=6), federation_of(0, clients=5)
    for sweep in (range(3), range(3, 6)):
        parts = [side.select(round, federation) for round in sweep]
        assert [len(part) for part in parts] == [2, 2, 1]
        assert [side.counted_updates(round, federation) for round in sweep] == [2, 2, 1]
        assert np.sort(np.concatenate(parts)).tolist() == [0, 1, 2, 3, 4]
    first, second = (
        np.concatenate([side.select(round, federation) for round in sweep])
        for sweep in (range(3), range(3, 6))
    )
    assert first.tolist() != second.tolist()
    assert len(side.select(6, federation)) == side.counted_updates(6, federation) == 2


def test_the_mixture_is_of_all_participants_samples_or_of_a_clients_own():
    few, many = torch.tensor([0.1, 0.2, 2.0]), torch.tensor([1.9, 2.0, 2.1, 2.2, 3.0])
    updates = updates_of([{WEIGHT: torch.ones(3)}] * 2)
    for number, (update, losses) in enumerate(zip(updates, (few, many), strict=True)):
        update.client = client_of(len(losses))
        update.client.id = number
        update.client.state |= {LOSSES: losses, TEACHER: {WEIGHT: torch.ones(3)}}
        update.steps = 0
    federation = federation_of(0)
    method("fedgr").after_updates(0, updates, federation)
    assert federation.selected == {0: [True, True, False], 1: [False] * 5}
    assert federation.reports[1]["estimated_noise_level"] == 1
    method("fedgr", sieve="client").after_updates(0, updates, federation)
    assert federation.selected[1] == [True] * 4 + [False]
    assert small_loss_probability(torch.tensor([0.1, torch.nan]), 20).tolist() == [1, 1]


def test_losses_are_running_means_and_guesses_stay_until_others_are_sure():
    side, client = method("fedgr", sieving_rounds=1, teaching_round=9), labelled()
    entropy = functional.cross_entropy(LOGITS, LABELS, reduction="none")
    side.before_round(0, [client], federation_of(0))
    torch.testing.assert_close(client.state[LOSSES], entropy)
    assert GUESS not in client.state
    client.state[RIGHT] = torch.tensor([0.9, 0.2, 0.4, 0.5])
    # Losses are of images as they are, guesses of augmented ones.
    federation = federation_of(1, LOGITS * 20, plain=LOGITS * 3)
    side.before_round(1, [client], federation)
    other = functional.cross_entropy(LOGITS * 3, LABELS, reduction="none")
    torch.testing.assert_close(client.state[LOSSES], (entropy + other) / 2)
    # The second is not sure (0.87), the third is, the others are clean.
    assert client.state[GUESS].tolist() == [0, NONE, 2, 1]
    assert federation.reports[0] == {"pseudo_labelled": 0.25, "pseudo_label_accuracy": 1.0}
    side.before_round(2, [client], federation_of(2, torch.zeros(4, 3)))
    assert client.state[GUESS].tolist() == [0, NONE, 2, 1]
    assert client.labels.tolist() == LABELS.tolist()


def loss_of(side, memory):
    memory = {NAMED + WEIGHT: torch.zeros(3), **memory}
    views = (torch.zeros(4, 1), torch.ones(4, 1))
    extras = {"follow": torch.tensor(0.0)}
    batch = Batch(views, torch.arange(4), LABELS, extras, memory)
    return side.loss(Stub(torch.zeros(3)), batch)


def kl(target, logits):
    said = (logits / 0.5).log_softmax(1)
    return functional.kl_div(said, (target / 0.5).softmax(1), reduction="batchmean")


def test_the_loss_has_three_terms():
    entropy = functional.cross_entropy(LOGITS, LABELS)
    away = 0.1 * kl(SEEN, FEATURES)
    side = method("fedgr")
    torch.testing.assert_close(loss_of(side, {}), entropy + away)
    right = torch.tensor([0.9, 0.2, 0.4, 0.0])
    guess = torch.tensor([0, NONE, 2, 1])
    memory = {RIGHT: right, GUESS: guess, TARGETS: TAUGHT}
    each = functional.cross_entropy(LOGITS, LABELS, reduction="none")
    anew = functional.cross_entropy(LOGITS, guess, reduction="none", ignore_index=NONE)
    expected = (right * each + (1 - right) * anew).mean() + away + kl(TAUGHT, LOGITS)
    torch.testing.assert_close(loss_of(side, memory), expected)
    plain = method("fedgr", feature_weight=0.0, teacher_weight=0.5)
    expected = expected - away - 0.5 * kl(TAUGHT, LOGITS)
    torch.testing.assert_close(loss_of(plain, memory), expected)


def test_a_client_with_hardly_a_right_label_learns_guesses_alone():
    side, client = method("fedgr", sieving_rounds=1), labelled()
    client.state |= {
        TEACHER: {WEIGHT: torch.ones(3)},
        RIGHT: torch.tensor([0.1, 0.2, 0.4, 0.4]),
        GUESS: torch.tensor([NONE, 1, 2, NONE]),
    }
    held = side.memory(client, federation_of(1))
    assert held[RIGHT].tolist() == [0] * 4
    assert held[GUESS].tolist() == [NONE, 1, 2, NONE]
    client.state[RIGHT] = torch.tensor([0.1, 0.2, 0.4, 0.7])
    assert held.keys() == side.memory(client, federation_of(1)).keys()
    assert side.memory(client, federation_of(1))[RIGHT].tolist() == client.state[RIGHT].tolist()
    assert RIGHT not in side.memory(client, federation_of(0))
    left_out = method("fedgr", sieving_rounds=1, refinement=False)
    held = left_out.memory(client, federation_of(1))
    assert held[RIGHT].tolist() == [0, 0, 0, 1]
    assert held[GUESS].tolist() == [NONE] * 4


def test_the_received_model_revises_the_teacher():
    side, client = method("fedgr", sieving_rounds=1, teaching_round=2), labelled()
    received = torch.full((3,), 2.0)
    client.state[TEACHER] = {WEIGHT: torch.ones(3)}
    assert side.revised(client, federation_of(1, weight=received))[WEIGHT].tolist() == [2] * 3
    found = side.revised(client, federation_of(2, weight=received))[WEIGHT]
    assert found.tolist() == pytest.approx([1.1] * 3)
    # Nearly all samples are noisy, and fewer than half have a guess.
    client.state |= {RIGHT: torch.zeros(4), GUESS: torch.tensor([NONE, NONE, NONE, 1])}
    assert side.revised(client, federation_of(2, weight=received))[WEIGHT].tolist() == [2] * 3
    # Guesses of this visit count at the next one.
    client.state[TEACHER] = {WEIGHT: torch.ones(3)}
    side.before_round(2, [client], federation_of(2, LOGITS * 1000, received))
    assert client.state[GUESS].tolist() != [NONE, NONE, NONE, 1]
    assert client.state[TEACHER][WEIGHT].tolist() == [2] * 3
    side.before_round(3, [client], federation_of(3, LOGITS * 1000, received + 1))
    assert client.state[TEACHER][WEIGHT].tolist() == pytest.approx([2.1] * 3)


def test_the_teacher_follows_every_step():
    """In two updates of two epochs, against a moving average that is updated after each step."""
    side, client = method("fedgr", decay=0.7), client_of(9)
    teacher, local, moves = torch.zeros(3), torch.ones(3), 0
    for _ in range(2):
        memory = {NAMED + WEIGHT: teacher.clone()}
        expected, start = teacher.clone(), {WEIGHT: teacher, "0.norm.running_mean": torch.zeros(1)}
        steps = 0
        for number in range(2):
            spec = turn(9)
            spec = type(spec)(**{**spec.__dict__, "number": number})
            for share in side.epoch(client, spec).extras["follow"]:
                extras = {"follow": torch.tensor(share)}
                batch = Batch((torch.zeros(9, 1),) * 2, torch.arange(4), LABELS, extras, memory)
                side.loss(Stub(local.clone()), batch)
                local = local + 1  # the step
                # Copies at first; then a mean of as many models, up to the decay.
                keep = [0, 0, 0, 2 / 3][moves] if moves < 4 else 0.7
                expected = keep * expected + (1 - keep) * local
                moves += 1
                steps += 1
        (update,) = updates_of([{WEIGHT: local, "0.norm.running_mean": torch.ones(1)}])
        update.memory, update.steps = memory, steps
        done = client.state.get(MOVES, 0)
        shares = [side.share(done + step) for step in range(steps)]
        found = followed(start, update, shares)
        torch.testing.assert_close(found[WEIGHT], expected)
        way = 1 - np.prod([1 - share for share in shares])
        assert float(found["0.norm.running_mean"]) == pytest.approx(way)
        client.state[MOVES] = done + steps
        teacher = found[WEIGHT]


@pytest.mark.storm
def test_it_finds_wrong_labels_and_guesses_right_ones_on_digits(tmp_path):
    federation, _ = run_on_digits(
        "fedgr(sieving_rounds=8, teaching_round=8, confidence=0.5, strong_view='strong')",
        tmp_path,
        rounds=14,
    )
    right = [client.accuracy_of(client.given) for client in federation.clients]
    assert federation.records.rounds[-1]["label_precision"] > np.mean(right) + 0.3
    rows = [row for row in federation.records.clients if row["round"] == 14]
    assert np.mean([row["pseudo_labelled"] for row in rows]) > 0.2
    assert np.mean([row["pseudo_label_accuracy"] for row in rows]) > 0.8
