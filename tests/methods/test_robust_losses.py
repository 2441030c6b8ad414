"""Losses other than cross-entropy on three classes: by hand, or as official codes say."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch
from vectors import method

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, 0.3], [-3.0, 1.0, 2.5], [0.0, 4.0, -2.0]])
LABELS = torch.tensor([0, 2, 1, 1])
PROBABILITY = LOGITS.softmax(1)
OF_LABEL = PROBABILITY[range(4), LABELS]
ENTROPY = -(OF_LABEL.log())


class Saying:
    """A model with logits of its own for each network, whatever the images."""

    def __init__(self, *logits):
        self.logits = logits

    def __call__(self, images, network=0):
        return Outputs(self.logits[network], torch.empty(0))


def batch_of(target=LABELS, memory=None, positions=None, images=None, **extras):
    positions = torch.arange(len(target)) if positions is None else positions
    images = torch.zeros(len(target), 1) if images is None else images
    return Batch((images,), positions, target, extras, memory or {})


def client_of(samples):
    return Client(0, *(torch.zeros(samples, dtype=torch.int64) for _ in range(3)))


def turn(round, batch_size=6):
    return Turn(1, round, "training", client=0, number=0, batch_size=batch_size, outputs=None)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("fedavg", {}, ENTROPY),
        ("gce", {"q": 0.5}, (1 - OF_LABEL.sqrt()) / 0.5),
        ("gce", {"q": 1.0}, 1 - OF_LABEL),
        ("mae", {}, (PROBABILITY - functional.one_hot(LABELS)).abs().sum(1)),
        (
            "sce",
            {"alpha": 2.0, "beta": 3.0, "label_floor": math.exp(-4)},
            2 * ENTROPY + 3 * 4 * (1 - OF_LABEL),
        ),
        (
            "label_smoothing",
            {"epsilon": 0.3},
            0.7 * ENTROPY - 0.1 * PROBABILITY.log().sum(1),
        ),
        (
            "bootstrapping",
            {"form": "soft"},
            0.95 * ENTROPY - 0.05 * (PROBABILITY * PROBABILITY.log()).sum(1),
        ),
        (
            "active_passive",
            {"alpha": 2.0, "beta": 3.0, "passive": "mae"},
            2 * ENTROPY / -PROBABILITY.log().sum(1) + 3 * (1 - OF_LABEL),
        ),
        ("bootstrapping", {}, 0.8 * ENTROPY - 0.2 * PROBABILITY.max(1).values.log()),
        ("bootstrapping", {"beta": 0.5}, 0.5 * ENTROPY - 0.5 * PROBABILITY.max(1).values.log()),
    ],
)
def test_losses_of_logits_and_labels(name, options, expected):
    side = method(name, **options)
    torch.testing.assert_close(side.losses(LOGITS, LABELS), expected)
    torch.testing.assert_close(side.loss(Saying(LOGITS), batch_of()), expected.mean())


def test_gce_comes_near_cross_entropy_for_a_small_q():
    found = method("gce", q=1e-3).losses(LOGITS, LABELS)
    torch.testing.assert_close(found, ENTROPY, rtol=2e-3, atol=0)


@pytest.mark.parametrize(
    "name", ["active_passive", "gce", "mae", "sce", "label_smoothing", "bootstrapping"]
)
def test_gradients_are_finite_where_a_prediction_is_certain(name):
    logits = torch.tensor([[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]], requires_grad=True)
    method(name).losses(logits, torch.tensor([0, 2])).sum().backward()
    assert logits.grad.isfinite().all()


def test_sce_is_the_published_codes():
    """Recorded: FNBench (Sprinter1999/FNBench, 9cec427, fl_components/update.py, SCELoss)."""
    assert float(method("sce").losses(LOGITS, LABELS).mean()) == pytest.approx(3.95589, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "loss", "gradient"),
    [
        ({}, 4.0254788, [0.0087811, -0.3660552, 0.3572742]),
        (
            {"passive": "mae", "alpha": 2.0, "beta": 3.0},
            1.5519488,
            [0.0152279, -0.1586145, 0.1433866],
        ),
        ({"active": "focal", "passive": "mae"}, 0.5536094, [0.0073704, -0.0589967, 0.0516262]),
        (
            {"active": "focal", "alpha": 10.0, "beta": 0.1},
            1.7097853,
            [0.0723300, -0.2523195, 0.1799895],
        ),
    ],
)
def test_active_passive_is_the_official_codes(options, loss, gradient):
    """Recorded: HanxunH/Active-Passive-Losses, 04bce53, loss.py, NCEandRCE, NCEandMAE, NFLandMAE
    and NFLandRCE, and the gradient at the third sample's logits.
    """
    logits = LOGITS.clone().requires_grad_()
    found = method("active_passive", **options).losses(logits, LABELS).mean()
    found.backward()
    assert float(found.detach()) == pytest.approx(loss, abs=1e-6)
    assert logits.grad[2].tolist() == pytest.approx(gradient, abs=1e-6)


def test_elr_is_the_official_codes():
    """Recorded: shengliu66/ELR, 934af53, ELR/model/loss.py, elr_loss: twice the same batch."""
    side, client = method("elr"), client_of(6)
    memory = {"targets": torch.zeros(6, 3)}
    batch = batch_of(memory=memory, positions=torch.tensor([4, 0, 2, 1]))
    found = [float(side.loss(Saying(LOGITS), batch)) for _ in range(2)]
    assert found == pytest.approx([0.0693377, -0.5342082], abs=1e-6)
    assert memory["targets"][0].tolist() == pytest.approx([0.1533109, 0.1694348, 0.1872544])
    assert memory["targets"][4].tolist() == pytest.approx([0.4006545, 0.0199474, 0.0893981])
    assert memory["targets"][3].tolist() == [0, 0, 0]
    client.state["targets"] = memory["targets"]
    assert side.memory(client, None)["targets"] is memory["targets"]


def test_elr_pulls_towards_what_was_said_before():
    """With the running mean on another class than the label, the gradient of a large weight goes
    against cross-entropy's.
    """
    targets = torch.tensor([[0.0, 0.9, 0.0]])
    for weight, sign in ((0.0, 1), (20.0, -1)):
        logits = torch.tensor([[0.5, 0.5, 0.0]], requires_grad=True)
        batch = batch_of(torch.tensor([0]), {"targets": targets.clone()})
        method("elr", weight=weight).loss(Saying(logits), batch).backward()
        assert sign * float(logits.grad[0, 1]) > 0


def test_mixup_mixes_images_and_labels_alike():
    seen = []

    class Watched(Saying):
        def __call__(self, images, network=0):
            seen.append(images)
            return super().__call__(images)

    index = torch.tensor([1, 0, 3, 2])
    images = torch.arange(4.0)[:, None]
    batch = batch_of(images=images, share=torch.tensor(0.75), mixup_index=index)
    found = method("mixup").loss(Watched(LOGITS), batch)
    assert seen[0][:, 0].tolist() == [0.25, 0.75, 2.25, 2.75]
    soft = 0.75 * functional.one_hot(LABELS) + 0.25 * functional.one_hot(LABELS[index])
    torch.testing.assert_close(found, functional.cross_entropy(LOGITS, soft))


def test_mixup_draws_one_share_a_step():
    epoch = method("mixup", alpha=0.3).epoch(client_of(20), turn(0))
    assert [len(index) for index in epoch.extras["mixup_index"]] == [6, 6, 6, 2]
    assert len(set(map(float, epoch.extras["share"]))) == 4


# ---------------------------------------------------------------- Co-teaching+

ONE = torch.cat([LOGITS, torch.tensor([[1.0, 0.0, 0.2], [0.3, -0.2, 0.9]])])
OTHER = torch.tensor(
    [
        [0.5, 1.0, -0.5],
        [0.3, 0.9, -0.3],
        [1.0, -1.0, 0.5],
        [0.2, 1.5, 0.0],
        [-1.0, 0.5, 0.1],
        [1.2, 0.1, 0.4],
    ]
)
SIX = torch.tensor([0, 2, 1, 1, 0, 2])


def plus(rate, **options):
    """A step's loss after the warm-up, and what the first network picked."""
    side, client = method("coteaching_plus", forget_rate=rate, **options), client_of(6)
    client.state["forget_rate"] = rate
    epoch = side.epoch(client, turn(99))
    memory = {"picked": torch.zeros(6, dtype=torch.bool)}
    kept = torch.tensor(epoch.extras["kept_of"][0])

    def loss(first, second):
        return side.loss(Saying(first, second), batch_of(SIX, memory, kept_of=kept)), memory

    return loss


@pytest.mark.parametrize(
    ("rate", "losses"), [(0.0, (0.1954442, 0.2517262)), (0.4, (0.2976074, 0.4041142))]
)
def test_coteaching_plus_is_the_official_codes(rate, losses):
    """Recorded: xingruiyu/coteaching_plus, a68ed61, loss.py, loss_coteaching_plus, on the CPU."""
    found, _ = plus(rate, variant="official")(ONE, OTHER)
    assert float(found) == pytest.approx(sum(losses), abs=1e-6)


def test_coteaching_plus_learns_from_disagreements_alone():
    """The networks disagree on five of the six, of which three are kept at a rate of 0.4."""
    found, memory = plus(0.4)(ONE, OTHER)
    first, second = (functional.cross_entropy(o, SIX, reduction="none") for o in (ONE, OTHER))
    # All but the fourth, which both take for class 1.
    assert not memory["picked"][3]
    rest = [0, 1, 2, 4, 5]
    small_first = sorted(rest, key=lambda n: float(first[n]))[:3]
    small_second = sorted(rest, key=lambda n: float(second[n]))[:3]
    assert memory["picked"].nonzero()[:, 0].tolist() == sorted(small_first)
    expected = first[small_second].mean() + second[small_first].mean()
    torch.testing.assert_close(found, expected)


def test_coteaching_plus_where_all_agree():
    """Recorded for `all`: the official code before its step 5000; after it, nothing is learnt."""
    all_of_it, _ = plus(0.4, variant="official")(ONE, 1.1 * ONE)
    assert float(all_of_it) == pytest.approx(0.9084381 + 0.9019337, abs=1e-6)
    one = ONE.clone().requires_grad_()
    nothing, memory = plus(0.4)(one, 1.1 * ONE)
    nothing.backward()
    assert float(nothing.detach()) == 0
    assert float(one.grad.abs().sum()) == 0
    assert not memory["picked"].any()


def test_coteaching_plus_begins_as_coteaching():
    client = client_of(12)
    client.state["forget_rate"] = 0.3
    sides = (method("coteaching"), method("coteaching_plus", warm_up_rounds=5))
    one, other = (side.epoch(client, turn(4)) for side in sides)
    assert one.extras == other.extras
    assert all(np.array_equal(*pair) for pair in zip(one.steps, other.steps, strict=True))
    (kept, _) = sides[1].epoch(client, turn(5)).extras["kept_of"]
    assert kept == [0, 1, 1, 2, 3, 4, 5]  # 0.15 of each number is left out
