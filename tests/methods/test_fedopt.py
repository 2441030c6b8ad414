"""FedOpt's steps on the server, against torch's optimisers and by hand."""

import pytest
import torch

from noisyfl.core.options import BadInput
from noisyfl.simulation.aggregation import flat
from vectors import VectorFederation, method, model_of, updates_of

CHANGES = torch.randn(6, 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
"""What two clients change in each of six rounds."""


def begun():
    start = torch.arange(5, dtype=torch.float64)
    return VectorFederation([1] * 2, 2, weights=model_of(start))


def models_of(side, sizes=(1, 1)):
    """The model after each round."""
    federation, found = begun(), []
    for changes in CHANGES:
        start = flat(federation.weights)
        models = [model_of(start + change) for change in changes]
        federation.weights = side.aggregate(updates_of(models, list(sizes)), federation)
        found.append(flat(federation.weights))
    return torch.stack(found)


def torchs(optimizer, sizes=(1, 1), **options):
    """The same with an optimiser of torch, whose gradient is the mean change the other way."""
    weights = torch.arange(5, dtype=torch.float64).requires_grad_()
    rule, found = optimizer([weights], **options), []
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    for changes in CHANGES:
        weights.grad = -(shares[:, None] * changes).sum(0)
        rule.step()
        found.append(weights.detach().clone())
    return torch.stack(found)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3)])
def test_adam_is_torchs_adam(sizes):
    options = {"beta1": 0.8, "beta2": 0.95, "tau": 1e-12, "first_square": 0.0}
    side = method("fedopt", learning_rate=0.1, bias_correction=True, **options)
    expected = torchs(torch.optim.Adam, sizes, lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    torch.testing.assert_close(models_of(side, sizes), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("first_square", [0.0, 0.5])
def test_adagrad_is_torchs_adagrad(first_square):
    side = method("fedopt", variant="fedadagrad", first_square=first_square, tau=0.01)
    options = {"lr": 0.1, "initial_accumulator_value": first_square, "eps": 0.01}
    torch.testing.assert_close(models_of(side), torchs(torch.optim.Adagrad, **options))


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_fedavgm_is_torchs_momentum(rate):
    side = method("fedopt", variant="fedavgm", learning_rate=rate)
    torch.testing.assert_close(models_of(side), torchs(torch.optim.SGD, lr=rate, momentum=0.9))


def test_without_momentum_fedavgm_is_fedavg():
    side = method("fedopt", variant="fedavgm", beta1=0.0)
    torch.testing.assert_close(models_of(side), models_of(method("fedavg")))


def test_yogis_square_grows_and_shrinks_by_a_share_of_the_changes():
    """Its squared change is 4, above the square of 1 at first; then 0.04, below it."""
    side = method("fedopt", variant="fedyogi", beta1=0.0, beta2=0.9, tau=0.5, first_square=1.0)
    federation = begun()
    square = 1.0
    for change, grows in ((2.0, 1), (0.2, -1)):
        before = flat(federation.weights)
        models = [model_of(before + change)] * 2
        federation.weights = side.aggregate(updates_of(models), federation)
        square += grows * 0.1 * change**2
        step = 0.01 * change / (square**0.5 + 0.5)
        torch.testing.assert_close(flat(federation.weights), before + step)


def test_by_default_the_square_begins_at_tau_squared():
    one, other = method("fedopt", tau=0.2), method("fedopt", tau=0.2, first_square=0.2**2)
    assert torch.equal(models_of(one), models_of(other))
    without = method("fedopt", tau=0.2, first_square=0.0)
    assert not torch.allclose(models_of(one), models_of(without))


def test_buffers_are_averaged_and_who_has_no_samples_does_not_count():
    federation = begun()
    before = flat(federation.weights)
    models = [model_of(before + 2), model_of(before + 100)]
    model = method("fedopt").aggregate(updates_of(models, [3, 0]), federation)
    assert float(model["0.norm.running_mean"]) == pytest.approx(20)
    moved = 0.01 * 0.1 * 2 / ((0.99 * 1e-6 + 0.01 * 4) ** 0.5 + 0.001)
    torch.testing.assert_close(flat(model), before + moved)


def test_options_that_cannot_be_are_refused():
    for options in ({"beta1": 1.0}, {"tau": 0.0}, {"learning_rate": -1.0}, {"optimizer": "sgd"}):
        with pytest.raises(BadInput):
            method("fedopt", **options)
