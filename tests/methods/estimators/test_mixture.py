import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from noisyfl.methods.estimators.mixture import TwoComponents, fit_two

RNG = np.random.default_rng(0)
HARD = {
    "apart": np.r_[RNG.normal(0, 1, 300), RNG.normal(8, 0.5, 200)],
    "overlapping": np.r_[RNG.normal(0, 1, 300), RNG.normal(1.5, 0.7, 200)],
    "one cluster": RNG.normal(5, 2, 200),
    "heavy tail": RNG.exponential(1, 400) ** 2,
    "wide around narrow": np.r_[RNG.normal(0, 0.05, 300), RNG.normal(0.4, 3, 200)],
    "losses": -np.log(np.r_[RNG.beta(20, 1, 400), RNG.beta(1, 5, 100)]),
    "rare": np.r_[RNG.normal(0, 1, 500), 30.0],
    "outlier": np.r_[RNG.normal(1, 0.2, 99), 3.05e5],
    "outliers": np.r_[RNG.normal(1, 0.2, 90), RNG.uniform(1e5, 4e5, 10)],
    "two values": np.r_[np.zeros(70), np.ones(30)],
    "mostly one value": np.r_[np.full(200, 1.4611), 1.5, 2.4611],
    "narrower than the regularisation": RNG.normal(3, 1e-5, 100),
    "far from 0": np.r_[RNG.normal(0, 1, 50), RNG.normal(6, 1, 50)] + 1e6,
    "negative": -np.r_[RNG.normal(0, 1, 50), RNG.normal(6, 1, 70)],
    "two": np.array([0.3, 1.9]),
    "three": np.array([0.1, 0.2, 5.0]),
    "four": np.array([1.0, 2.0, 2.5, 9.0]),
}


def clusterings(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every cut of the sorted values, and the sum of squares within its clusters, best first."""
    ordered = np.sort(values)
    cuts = np.flatnonzero(np.diff(ordered) > 0)
    within = np.array(
        [
            sum(((part - part.mean()) ** 2).sum() for part in np.split(ordered, [i + 1]))
            for i in cuts
        ]
    )
    order = within.argsort(kind="stable")
    return (ordered[cuts] + ordered[cuts + 1])[order] / 2, within[order]


def fit_sklearn(values: np.ndarray, **options: float) -> GaussianMixture:
    """scikit-learn's fit from the best clustering."""
    low = values < clusterings(values)[0][0]
    parts = values[low], values[~low]
    variances = np.array([part.var() for part in parts]) + options.get("reg_covar", 1e-6)
    mixture = GaussianMixture(
        2,
        weights_init=[low.mean(), 1 - low.mean()],
        means_init=[[part.mean()] for part in parts],
        precisions_init=1 / variances[:, None, None],
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(values[:, None])


def assert_same(fit: TwoComponents, mixture: GaussianMixture, values: np.ndarray) -> None:
    order = mixture.means_[:, 0].argsort(kind="stable")
    spread = np.ptp(values)
    np.testing.assert_allclose(fit.weights[0], mixture.weights_[order], atol=1e-7)
    np.testing.assert_allclose(
        fit.means[0], mixture.means_[order, 0], rtol=1e-9, atol=1e-7 * spread
    )
    np.testing.assert_allclose(fit.variances[0], mixture.covariances_[order, 0, 0], rtol=1e-6)

    seen = np.r_[values, np.linspace(values.min() - spread, values.max() + spread, 50)]
    posterior = mixture.predict_proba(seen[:, None])[:, order]
    given = torch.tensor(seen)[None]
    np.testing.assert_allclose(fit.posterior(given)[0], posterior, atol=1e-6)
    clear = abs(posterior[:, 0] - 0.5) > 1e-6
    assert np.array_equal(fit.low(given)[0].numpy()[clear], posterior[clear, 0] > 0.5)


@pytest.mark.parametrize("name", HARD)
def test_scikit_learn_from_the_same_start(name: str) -> None:
    values = HARD[name]
    assert_same(fit_two(torch.tensor(values)[None]), fit_sklearn(values), values)


@pytest.mark.parametrize(
    "name", ["apart", "rare", "outlier", "outliers", "two values", "negative", "two", "three"]
)
def test_scikit_learn_from_its_own_start(name: str) -> None:
    values = HARD[name]
    mixture = GaussianMixture(2, random_state=0).fit(values[:, None])
    assert_same(fit_two(torch.tensor(values)[None]), mixture, values)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=40),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_scikit_learn_on_anything(values: list[float], scale: float) -> None:
    array = np.array(values) * scale
    # Far below the regularised deviation of 1e-3 both means are one, in either order.
    assume(np.ptp(array) > max(1e-6 * scale, 1e-5))
    _, within = clusterings(array)
    # Of two equally good starts either may be taken.
    assume(len(within) == 1 or within[1] - within[0] > 1e-9 * array.var() * len(array))
    assert_same(fit_two(torch.tensor(array)[None]), fit_sklearn(array), array)


def test_components_that_change_places() -> None:
    """The component that starts as the lower one may end with the larger mean."""
    values = np.repeat(
        [-65, -17, -13, -9, -8, -7, -5, -3, -2, 0, 1, 2, 5, 7, 11, 13, 14, 17, 27, 29, 38, 45],
        [1, 1, 1, 1, 1, 1, 2, 1, 2, 2, 1, 1, 1, 1, 3, 2, 1, 1, 2, 1, 1, 1],
    ).astype(float)
    values *= 100
    mixture = fit_sklearn(values)
    assert mixture.means_[0, 0] > mixture.means_[1, 0]
    fit = fit_two(torch.tensor(values)[None])
    assert fit.means[0, 0] < fit.means[0, 1]
    assert_same(fit, mixture, values)


def test_a_draw_is_low() -> None:
    pair = torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    fit = TwoComponents(pair, pair**2, pair**2 / 2)
    between = torch.tensor([[-0.1, 0.0, 0.1]])
    assert fit.posterior(between)[0, 1].tolist() == [0.5, 0.5]
    assert fit.low(between).tolist() == [[True, True, False]]


def test_options() -> None:
    values = HARD["overlapping"]
    given = torch.tensor(values)[None]
    fit = fit_two(given, tolerance=1e-2, regularisation=5e-1)
    assert_same(fit, fit_sklearn(values, tol=1e-2, reg_covar=5e-1), values)
    fit = fit_two(given, tolerance=1e-12, max_iterations=7)
    assert_same(fit, fit_sklearn(values, tol=1e-12, max_iter=7), values)


def padded(problems: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Problems of any sizes as one batch; what does not count is NaN, and mixed among the rest."""
    longest = max(map(len, problems)) + 2
    values = torch.full((len(problems), longest), torch.nan, dtype=torch.float64)
    for row, problem in zip(values, problems, strict=True):
        row[np.sort(RNG.permutation(longest)[: len(problem)])] = torch.from_numpy(problem)
    return values, ~values.isnan()


FIELDS = ("means", "variances", "weights")


def test_a_batch_is_its_problems_one_by_one() -> None:
    problems = list(HARD.values())
    batch = fit_two(*padded(problems))
    for number, problem in enumerate(problems):
        single = fit_two(torch.tensor(problem)[None])
        for field in FIELDS:
            assert torch.equal(getattr(batch, field)[number], getattr(single, field)[0]), field


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=20), min_size=1, max_size=6), st.randoms())
def test_neither_order_nor_company_matters(problems: list[list[float]], random: object) -> None:
    arrays = [np.array(problem, dtype=np.float64) for problem in problems]
    batch = fit_two(*padded(arrays))
    for number, array in enumerate(arrays):
        single = fit_two(torch.tensor(RNG.permutation(array))[None])
        for field in FIELDS:
            assert torch.equal(getattr(batch, field)[number], getattr(single, field)[0]), field


def test_unchecked_values_need_not_be_finite() -> None:
    fit = fit_two(torch.tensor([[0.25]]), check=False)
    assert fit.posterior(torch.tensor([[0.25]]))[0, 0, 0] > 0.5
    assert bool(fit_two(torch.tensor([[0.1, torch.nan]]), check=False).means.isnan().all())


EXTREME = st.one_of(
    st.floats(-9e99, 9e99), st.floats(-1, 1), st.sampled_from([0.0, 0.1, 1e5, -1e5, 5e-324])
)


@settings(max_examples=50, deadline=None)
@given(st.lists(EXTREME, max_size=12), st.integers(1, 12))
def test_always_numbers(values: list[float], copies: int) -> None:
    given = torch.tensor(values * copies, dtype=torch.float64)[None]
    fit = fit_two(given)
    for parameter in (fit.means, fit.variances, fit.weights):
        assert bool(parameter.isfinite().all())
    assert bool((fit.means[:, 0] <= fit.means[:, 1]).all())
    assert bool((fit.variances >= 1e-6).all())
    torch.testing.assert_close(fit.weights.sum(1), torch.ones(1, dtype=torch.float64))
    posterior = fit.posterior(given)
    assert posterior.shape == (1, len(values) * copies, 2)
    torch.testing.assert_close(posterior.sum(2), torch.ones_like(given))
    assert torch.equal(fit.low(given), posterior[..., 0] >= posterior[..., 1])


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e5])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_nothing_to_split(value: float, n: int) -> None:
    given = torch.full((1, n), value, dtype=torch.float64)
    fit = fit_two(given)
    assert fit.means.tolist() == [[value, value]]
    assert fit.weights[0, 0] > 1 - 1e-12
    assert bool(fit.low(given).all())


def test_no_values() -> None:
    for fit in (
        fit_two(torch.rand(2, 0)),
        fit_two(torch.rand(2, 3), torch.zeros(2, 3, dtype=torch.bool)),
    ):
        assert fit.means.tolist() == [[0, 0], [0, 0]]
        assert fit.weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert fit_two(torch.rand(0, 3)).means.shape == (0, 2)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e100])
def test_what_cannot_be_fitted(bad: float) -> None:
    given = torch.tensor([[0.0, 1.0, bad]], dtype=torch.float64)
    with pytest.raises(ValueError, match="a mixture needs finite values below 1e"):
        fit_two(given)
    masked = fit_two(given, torch.tensor([[True, True, False]]))
    assert torch.equal(masked.means, fit_two(given[:, :2]).means)


def test_single_precision_is_widened_first() -> None:
    given = torch.tensor(HARD["apart"], dtype=torch.float32)[None]
    fit = fit_two(given)
    assert torch.equal(fit.means, fit_two(given.double()).means)
    assert torch.equal(fit.posterior(given), fit.posterior(given.double()))


def test_the_caller_keeps_the_values() -> None:
    given = torch.tensor(HARD["losses"])[None]
    before = given.clone()
    fit_two(given)
    assert torch.equal(given, before)
