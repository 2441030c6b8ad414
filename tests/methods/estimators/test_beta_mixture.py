"""Mixtures of two beta distributions: by hand, and on values that were drawn from one."""

import numpy as np
import pytest
from scipy import stats

from noisyfl.methods.estimators.beta_mixture import START, TwoBetas, fit_two_betas


def test_the_mixture_that_a_fit_starts_from():
    """Densities 2 (1 - x) and 2 x with equal weights, so that the posterior is x."""
    values = np.array([0.1, 0.5, 0.75])
    assert START.densities(values) == pytest.approx(np.array([1 - values, values]))
    assert START.posterior(values) == pytest.approx(values)


def test_densities_are_scipys():
    mixture = TwoBetas(np.array([0.7, 30.0]), np.array([5.0, 2.0]), np.array([0.2, 0.8]))
    values = np.linspace(0.001, 0.999, 9)
    for number, density in enumerate(mixture.densities(values)):
        own = stats.beta(mixture.alphas[number], mixture.betas[number])
        assert density == pytest.approx(mixture.weights[number] * own.pdf(values))


def test_an_iteration_by_hand():
    """Of 1/4 and 3/4 the second component has a quarter and three quarters: mean 5/8, variance
    3/64, hence alpha 5/2 and beta 3/2.
    """
    mixture = fit_two_betas(np.array([0.25, 0.75]), iterations=1)
    assert mixture.alphas == pytest.approx([1.5, 2.5])
    assert mixture.betas == pytest.approx([2.5, 1.5])
    assert mixture.weights == pytest.approx([0.5, 0.5])


def test_components_that_lie_apart_are_found():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.beta(2, 20, 700), rng.beta(20, 4, 300)])
    mixture = fit_two_betas(values, iterations=30)
    assert mixture.weights == pytest.approx([0.7, 0.3], abs=0.02)
    means = mixture.alphas / (mixture.alphas + mixture.betas)
    assert means == pytest.approx([2 / 22, 20 / 24], abs=0.01)
    posterior = mixture.posterior(np.array([0.05, 0.9]))
    assert posterior == pytest.approx([0, 1], abs=0.01)


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], [0.0] * 50 + [1.0], [0.2] * 50 + [0.200001], [0.001] * 9 + [0.999] * 9]
)
def test_extreme_values_give_finite_mixtures(values):
    mixture = fit_two_betas(np.array(values))
    for part in (mixture.alphas, mixture.betas, mixture.weights):
        assert np.isfinite(part).all()
    assert np.isfinite(mixture.posterior(np.linspace(1e-12, 1 - 1e-12, 100))).all()
