"""Dynamic bootstrapping: its table of probabilities, its stages, and its targets by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_robust_losses import LABELS, LOGITS, batch_of, client_of
from torch.nn import functional

from noisy_digits import run_on_digits
from noisyfl.methods.dynamic_bootstrapping import looked_up
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.outputs import Outputs
from vectors import method

INDEX = torch.tensor([1, 0, 3, 2])
SAID = torch.tensor([[0.0, 1.0, 0.0], [3.0, 0.2, 0.1], [0.5, -1.0, 0.3], [0.0, 0.0, 2.0]])


def side_of(**options):
    return method("dynamic_bootstrapping", **options)


# ---------------------------------------------------------------- the probability of a wrong label


def test_large_losses_are_of_wrong_labels():
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.gamma(2, 0.1, 70), rng.normal(4, 0.5, 30)])
    table, low, spread = side_of().probabilities(losses)
    wrong = looked_up(torch.tensor(table), torch.tensor(losses), low, spread)
    assert (wrong[:70] < 0.5).double().mean() > 0.95
    assert (wrong[70:] > 0.5).double().mean() > 0.95
    assert (table[table.argmax() :] == table.max()).all()
    smallest, largest = np.percentile(losses, [5, 95])
    assert (low, low + spread) == pytest.approx((smallest + 1e-5, largest + 1e-6))


@pytest.mark.parametrize(
    "losses", [[1.5] * 8, [1.5] * 8 + [1.500001], [0.1, math.nan, 2.0], [0.1, math.inf, 2.0], [0.3]]
)
def test_without_anything_to_split_all_labels_are_right(losses):
    losses = np.array(losses)
    table, low, spread = side_of().probabilities(losses)
    wrong = looked_up(torch.tensor(table), torch.tensor(losses), low, spread)
    assert not wrong.any()


def test_losses_outside_of_the_table_have_its_first_and_last_entry():
    table = torch.arange(100.0)
    losses = torch.tensor([-9.0, 2.0, 2.505, 3.0, 99.0])
    assert looked_up(table, losses, 2.0, 1.0).tolist() == [0, 0, 50, 99, 99]


# ---------------------------------------------------------------- stages


def epoch(side, round):
    logits = torch.linspace(-2, 2, 20)[:, None] * torch.tensor([[1.0, 0.0, 0.0]])

    def outputs(purpose, network, view):
        assert view == "weak"
        return Outputs(logits, torch.empty(0))

    client = client_of(20)
    turn = Turn(1, round, "training", client=0, number=0, batch_size=6, outputs=outputs)
    return side.epoch(client, turn), client


@pytest.mark.parametrize(
    ("options", "table", "corrected"),
    [({}, 4, 4), ({"variant": "hard"}, 4, 4), ({"variant": "dynamic"}, 4, 6)],
)
def test_stages_begin_where_they_should(options, table, corrected):
    side = side_of(warm_up_rounds=4, guided_rounds=2, hard_round=9, **options)
    for round in range(8):
        found, client = epoch(side, round)
        assert ("table" in found.extras) == (round >= table)
        assert ("temperature" in found.extras) == (round >= corrected)
        assert ("wrong_label" in client.state) == (round >= table)
        assert {len(values) for values in found.extras.values()} == {len(found.steps)}
    assert list(side.stage_starts(None).values()) == sorted({table, corrected})


def test_the_temperature_falls_linearly():
    """FedNoisy's 500 rounds: 150 temperatures from round 183."""
    side = side_of(variant="dynamic", warm_up_rounds=175, guided_rounds=8, hard_round=333)
    expected = np.linspace(1, 0.001, 150)
    found = [side.temperature(round) for round in (183, 184, 332, 333, 499)]
    assert found == pytest.approx([expected[k] for k in (0, 1, 149, 149, 149)])
    assert side_of().temperature(400) == 1
    assert side_of(variant="dynamic", hard_round=1).temperature(400) == pytest.approx(0.001)


def test_stages_keep_their_share_of_the_rounds():
    found = type(side_of()).defaults({"rounds": 500})
    assert [found[name] for name in ("warm_up_rounds", "guided_rounds", "hard_round")] == [
        175, 8, 333,
    ]  # fmt: skip


# ---------------------------------------------------------------- a step


class Model:
    """What it says of mixed images, and of images as they are in either mode."""

    def __init__(self):
        self.images = None

    def __call__(self, images):
        self.images = images
        return Outputs(LOGITS, torch.empty(0))

    def look(self, images, *, evaluating=False):
        return Outputs(2 * SAID if evaluating else SAID, torch.empty(0))


def step(side, table, temperature=1.0, share=0.75):
    extras = {
        "share": torch.tensor(share),
        "mixup_index": INDEX,
        "table": table,
        "low": torch.tensor(0.0),
        "spread": torch.tensor(10.0),
    }
    if temperature is not None:
        extras["temperature"] = torch.tensor(temperature)
    images = torch.arange(4.0)[:, None, None, None]
    model = Model()
    return side.loss(model, batch_of(images=images, **extras)), model.images[:, 0, 0, 0]


def by_hand(targets, share):
    """Cross-entropy of mixed targets, and the penalty of the mean prediction."""
    mixed = share * targets + (1 - share) * targets[INDEX]
    mean = LOGITS.softmax(1).mean(0)
    penalty = (1 / 3 * (1 / 3 / mean).log()).sum()
    return functional.cross_entropy(LOGITS, mixed), penalty


@pytest.mark.parametrize("prior_weight", [1.0, 0.0])
@pytest.mark.parametrize("prediction", ["soft", "hard"])
def test_a_target_is_part_label_and_part_prediction(prediction, prior_weight):
    """A quarter is prediction, whatever the loss."""
    side = side_of(prediction=prediction, prior_weight=prior_weight)
    found, images = step(side, torch.full((100,), 0.25))
    said = SAID.softmax(1) if prediction == "soft" else functional.one_hot(SAID.argmax(1), 3)
    loss, penalty = by_hand(0.75 * functional.one_hot(LABELS, 3) + 0.25 * said, 0.75)
    torch.testing.assert_close(found, loss + prior_weight * penalty)
    assert images.tolist() == [0.25, 0.75, 2.25, 2.75]


def test_the_probability_is_that_of_the_loss_in_evaluation_mode():
    losses = functional.cross_entropy(2 * SAID, LABELS, reduction="none")
    wrong = torch.arange(100) / 100
    share = ((10 * losses).long() / 100)[:, None]
    found, _ = step(side_of(prior_weight=0), wrong)
    targets = (1 - share) * functional.one_hot(LABELS, 3) + share * SAID.softmax(1)
    torch.testing.assert_close(found, by_hand(targets, 0.75)[0], atol=1e-3, rtol=1e-3)


def test_certain_probabilities_leave_a_little_of_both():
    side = side_of(prediction="hard", prior_weight=0)
    for value, kept in ((0.0, 1 - 1e-4), (1.0, 1e-4)):
        found, _ = step(side, torch.full((100,), value))
        said = functional.one_hot(SAID.argmax(1), 3)
        targets = kept * functional.one_hot(LABELS, 3) + (1 - kept) * said
        torch.testing.assert_close(found, by_hand(targets, 0.75)[0])


def test_dynamic_mixup_shows_more_of_an_image_whose_label_is_right():
    """The first image's loss lies in the lower half of the table, all others' in the upper."""
    side = side_of(variant="dynamic")
    losses = functional.cross_entropy(2 * SAID, LABELS, reduction="none")
    table = torch.where(torch.arange(100) / 10 < losses[0] + 0.1, 0.2, 0.6)
    right = torch.where(losses <= losses[0] + 0.05, 0.8, 0.4)
    assert len(set(right.tolist())) == 2
    weight = right / (right + right[INDEX])
    numbers = torch.arange(4.0)
    expected = weight * numbers + (1 - weight) * numbers[INDEX]
    found, images = step(side, table, temperature=0.5)
    torch.testing.assert_close(images, expected)
    wrong = (1 - right)[:, None]
    targets = (1 - wrong) * functional.one_hot(LABELS, 3) + wrong * (SAID / 0.5).softmax(1)
    torch.testing.assert_close(found, sum(by_hand(targets, 0.5)))


def test_dynamic_mixup_alone_keeps_labels():
    """The share of the labels is drawn, whatever that of the images."""
    found, images = step(side_of(variant="dynamic"), torch.full((100,), 0.6), temperature=None)
    targets = functional.one_hot(LABELS, 3).to(LOGITS.dtype)
    torch.testing.assert_close(found, by_hand(targets, 0.75)[0])
    assert images.tolist() == [0.5, 0.5, 2.5, 2.5]


# ---------------------------------------------------------------- on clients


def test_the_last_epochs_samples_are_reported():
    side, client = side_of(), client_of(4)
    client.state["wrong_label"] = torch.tensor([0.1, 0.9, 0.5, 0.7])
    found = []
    federation = SimpleNamespace(
        report_selection=lambda client, flags: found.append(flags.tolist()),
        report=lambda client, **numbers: found.append(numbers),
    )
    updates = [SimpleNamespace(client=client), SimpleNamespace(client=client_of(2))]
    side.after_updates(0, updates, federation)
    assert found == [[True, False, True, False], {"estimated_noise_level": 0.5}]
    assert not client.state


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["", 'variant="hard"', 'variant="dynamic"'])
def test_it_finds_wrong_labels(variant, tmp_path):
    """Half of the labels are wrong."""
    federation, accuracies = run_on_digits(f"dynamic_bootstrapping({variant})", tmp_path)
    assert accuracies[-1] > 0.75
    last = federation.records.rounds[-1]
    assert last["label_precision"] > 0.75
    assert last["label_recall"] > 0.75
