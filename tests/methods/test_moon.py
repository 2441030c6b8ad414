"""MOON's contrastive loss, by hand, and the models that clients keep."""

import math

import pytest
import torch
from test_robust_losses import LABELS, LOGITS, batch_of
from torch.nn import functional

from noisyfl.simulation.outputs import Outputs
from vectors import VectorFederation, method, model_of, updates_of

AXES = torch.eye(2)


class ThreeModels:
    """Features of the model in training, the received one, and one with given weights."""

    def __init__(self, own, near, far):
        self.own, self.near, self.far = (part.expand(len(LOGITS), 2) for part in (own, near, far))
        self.asked = []

    def __call__(self, images):
        return Outputs(LOGITS, self.own)

    def received(self, images):
        return Outputs(LOGITS, self.near)

    def look_as(self, weights, images):
        self.asked.append(weights)
        return Outputs(LOGITS, self.far)


@pytest.mark.parametrize(
    ("near", "far", "temperature", "expected"),
    [
        (AXES[0], AXES[1], 0.5, math.log(1 + math.exp(-2))),
        (AXES[1], AXES[0], 0.5, math.log(1 + math.exp(2))),
        (AXES[0], -AXES[0], 2.0, math.log(1 + math.exp(-1))),
        (AXES[1], AXES[1], 0.5, math.log(2)),
    ],
)
def test_the_contrast_by_hand(near, far, temperature, expected):
    """Features of any length along the first axis; only directions count."""
    side = method("moon", temperature=temperature)
    found = side.contrast(3 * AXES[:1], near[None], 7 * far[None])
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_the_loss_adds_mu_times_the_contrast():
    model = ThreeModels(AXES[0], AXES[1], AXES[0])
    last = {"0.w": torch.ones(1), "0.b": torch.zeros(1)}
    memory = {f"last {name}": value for name, value in last.items()}
    found = method("moon", mu=5).loss(model, batch_of(memory=memory))
    expected = functional.cross_entropy(LOGITS, LABELS) + 5 * math.log(1 + math.exp(2))
    torch.testing.assert_close(found, expected)
    assert model.asked == [last]


def test_a_first_visit_is_fedavgs():
    model = ThreeModels(AXES[0], AXES[1], AXES[0])
    found = method("moon").loss(model, batch_of())
    torch.testing.assert_close(found, functional.cross_entropy(LOGITS, LABELS))
    assert not model.asked


def test_clients_keep_the_model_of_their_last_visit():
    side, federation = method("moon"), VectorFederation([1] * 3, 3)
    updates = updates_of([model_of(torch.full((5,), value)) for value in (1.0, 2.0)])
    assert side.memory(updates[0].client, federation) == {}
    side.after_updates(0, updates, federation)
    held = side.memory(updates[1].client, federation)
    assert {name.removeprefix("last ") for name in held} == set(updates[1].weights)
    assert held["last 1.body.weight"].tolist() == [2.0] * 3
    # A visit without a step leaves the model of the visit before.
    (again,) = updates_of([model_of(torch.zeros(5))])
    again.client, again.steps = updates[1].client, 0
    side.after_updates(1, [again], federation)
    assert side.memory(again.client, federation).keys() == held.keys()
    assert again.client.state["last_model"] is updates[1].weights


def test_features_near_zero_have_a_finite_gradient():
    own = torch.zeros(1, 2, requires_grad=True)
    method("moon").contrast(own, AXES[:1], AXES[1:]).backward()
    assert own.grad.isfinite().all()
