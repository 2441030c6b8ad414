"""Noise levels: one a client, from 0 to 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import truncnorm

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from small_partitions import canonical


def build_level(text):
    return NOISE_LEVELS.build(text, "noise_level")


def draw(text, clients, seed=0):
    return build_level(text).draw(clients, stream(seed, "noise level"))


EVERY_LEVEL = [
    "none",
    "constant(level=0.3)",
    "constant(level=1, scope='dataset')",
    "client_linear(low=0.1, high=0.9, ramps=2)",
    "client_linear(low=0, high=1, include_top=True)",
    "groups(levels=[0.3, 0.5, 1])",
    "client_variance(level=0.4, eta=0.4)",
    "truncnorm(mu=0.4, sigma=0.2)",
    "truncnorm(mu=0.2, sigma=0.2, seed=3)",
    "bernoulli_uniform(rho=0.6, tau=0.5)",
    "uniform(low=0.3, high=0.5)",
]


@pytest.mark.parametrize("text", EVERY_LEVEL)
@given(clients=st.integers(5, 120), seed=st.integers(0, 1000))
def test_there_is_one_level_from_0_to_1_for_each_client(text, clients, seed):
    build_level(text).check(clients)
    levels = draw(text, clients, seed)
    assert levels.shape == (clients,)
    assert levels.dtype == np.float64
    assert ((levels >= 0) & (levels <= 1)).all()
    assert (levels == draw(text, clients, seed)).all()


def test_fedrns_ramp_never_reaches_its_top():
    levels = draw("client_linear(low=0, high=0.4)", 100)
    np.testing.assert_allclose(levels, 0.004 * np.arange(100), atol=1e-12)
    assert levels.max() == pytest.approx(0.396)
    assert levels.mean() == pytest.approx(0.198)
    assert draw("client_linear(low=0, high=0.8)", 100).mean() == pytest.approx(0.396)


def test_each_half_has_a_ramp_of_its_own():
    levels = draw("client_linear(low=0, high=0.4, ramps=2)", 100)
    np.testing.assert_array_equal(levels[:50], levels[50:])
    assert levels.max() == pytest.approx(0.392)
    assert levels.mean() == pytest.approx(0.196)


def test_a_ramp_that_includes_its_top_reaches_it():
    np.testing.assert_allclose(
        draw("client_linear(low=0.2, high=0.6, include_top=True)", 5), [0.2, 0.3, 0.4, 0.5, 0.6]
    )


def test_groups_are_equal_and_consecutive():
    levels = draw("groups(levels=[0.5, 0.6, 0.7, 0.8])", 20)
    assert levels.tolist() == [0.5] * 5 + [0.6] * 5 + [0.7] * 5 + [0.8] * 5
    uneven = draw("groups(levels=[0.1, 0.2, 0.3])", 8)
    assert np.unique(uneven, return_counts=True)[1].tolist() == [3, 3, 2]


def test_client_variance_reaches_both_ends():
    levels = draw("client_variance(level=0.4, eta=0.2)", 100)
    np.testing.assert_allclose(levels, np.repeat([0.2, 0.3, 0.4, 0.5, 0.6], 20))


@pytest.mark.parametrize(("mu", "mean", "std"), [(0.2, 0.2575, 0.159), (0.4, 0.410, 0.187)])
def test_truncation_moves_the_moments(mu, mean, std):
    levels = draw(f"truncnorm(mu={mu}, sigma=0.2)", 20_000)
    assert levels.mean() == pytest.approx(mean, abs=0.004)
    assert levels.std() == pytest.approx(std, abs=0.004)
    exact = truncnorm(-mu / 0.2, (1 - mu) / 0.2, loc=mu, scale=0.2)
    assert (levels > 0.5).mean() == pytest.approx(exact.sf(0.5), abs=0.01)


def test_levels_drawn_once_are_the_same_in_every_trial():
    once = [draw("truncnorm(mu=0.2, sigma=0.2, seed=3)", 20, trial).tolist() for trial in (1, 2)]
    assert once[0] == once[1] == draw("truncnorm(mu=0.2, sigma=0.2)", 20, 3).tolist()
    assert draw("truncnorm(mu=0.2, sigma=0.2)", 20, 1).tolist() != once[0]
    # More noise is more for each client alike: the other mean takes the same quantiles.
    lower, higher = truncnorm(-1, 4, loc=0.2, scale=0.2), truncnorm(-2, 3, loc=0.4, scale=0.2)
    np.testing.assert_allclose(
        higher.cdf(draw("truncnorm(mu=0.4, sigma=0.2, seed=3)", 20)), lower.cdf(once[0])
    )


def test_each_client_has_a_level_of_its_own_between_two():
    levels = draw("uniform(low=0.3, high=0.5)", 1000)
    assert 0.3 <= levels.min() < 0.302
    assert 0.498 < levels.max() <= 0.5
    assert levels.mean() == pytest.approx(0.4, abs=0.01)
    assert len(set(levels)) == 1000


def test_a_share_rho_of_clients_is_noisy_from_tau_on():
    levels = draw("bernoulli_uniform(rho=0.6, tau=0.5)", 10_000)
    noisy = levels[levels > 0]
    assert len(noisy) / 10_000 == pytest.approx(0.6, abs=0.02)
    assert noisy.min() >= 0.5
    assert noisy.mean() == pytest.approx(0.75, abs=0.01)
    assert draw("bernoulli_uniform(rho=0, tau=0.5)", 100).max() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("constant(level=0.1, scope='server')", "scope: Input should be 'client'"),
        (
            "groups(levels=[0.5, 1.5])",
            r"groups\.levels\[1\]: Input should be less than or equal to 1",
        ),
        ("const(level=0.1)", "no noise level is called 'const'; did you mean 'constant'"),
    ],
)
def test_bad_options_of_a_level_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        build_level(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "client_linear(low=0.5, high=0.4)",
            r"low=0\.5 is more than high=0\.4",
        ),
        ("uniform(low=0.5, high=0.4)", r"low=0\.5 is more than high=0\.4"),
        ("client_variance(level=0.4, eta=0.5)", r"level=0\.4 and eta=0\.5 make .* -0\.1 to 0\.9"),
        ("client_variance(level=0.4, eta=0.1)", "5 groups of clients need .* got clients=4"),
        ("client_linear(low=0, high=0.4, ramps=5)", "5 groups .*clients=4"),
    ],
)
def test_levels_that_cannot_be_are_found_before_any_job(text, message):
    with pytest.raises(BadInput, match=message):
        build_level(text).check(4)


def test_a_number_is_the_level_of_all_clients():
    assert canonical(noise_level=0.3) == canonical(noise_level="constant(level=0.3)")
    with pytest.raises(BadInput, match=r"noise_level: .*True"):
        canonical(noise_level=True)
