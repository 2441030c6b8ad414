"""FedDecorr's penalty, by hand."""

import pytest
import torch
from test_robust_losses import LABELS, LOGITS, batch_of
from torch.nn import functional

from noisyfl.simulation.outputs import Outputs
from vectors import method

# Each of the two features has mean 0 and variance 1, and their product is 1: K is 2/3, 1/3.
FEATURES = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [("correlations", (4 + 1 + 1 + 4) / 9 / 4), ("products", 1 / 3)],
)
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (5.0, -3.0)])
def test_the_penalty_by_hand(penalty, expected, scale, shift):
    found = method("feddecorr", penalty=penalty).correlation(scale * FEATURES + shift)
    assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize("penalty", ["correlations", "products"])
def test_the_gradient_takes_correlations_away(penalty):
    features = FEATURES.clone().requires_grad_()
    side = method("feddecorr", penalty=penalty)
    before = side.correlation(features)
    (slope,) = torch.autograd.grad(before, features)
    assert side.correlation(features - 0.1 * slope) < before


def test_a_feature_that_is_always_zero_has_a_finite_gradient():
    features = torch.cat([FEATURES, torch.zeros(3, 1)], 1).requires_grad_()
    method("feddecorr").correlation(features).backward()
    assert features.grad.isfinite().all()


def test_the_loss_is_cross_entropy_and_a_tenth_of_the_penalty():
    features = torch.cat([FEATURES, FEATURES[:1]])
    side = method("feddecorr")
    found = side.loss(lambda images: Outputs(LOGITS, features), batch_of())
    expected = functional.cross_entropy(LOGITS, LABELS) + 0.1 * side.correlation(features)
    torch.testing.assert_close(found, expected.to(found.dtype))


def test_a_single_image_has_no_correlations():
    found = method("feddecorr").loss(
        lambda images: Outputs(LOGITS[:1], FEATURES[:1]), batch_of(LABELS[:1])
    )
    torch.testing.assert_close(found, functional.cross_entropy(LOGITS[:1], LABELS[:1]))
