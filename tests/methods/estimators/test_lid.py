import math

import numpy as np
import pytest
import torch

from noisyfl.methods.estimators import lid as module
from noisyfl.methods.estimators.lid import lid


def by_definition(points: np.ndarray, k: int) -> np.ndarray:
    """FedCorr's formula, sample by sample."""
    scores = []
    for point in points:
        distances = np.sort(np.sqrt(((points - point) ** 2).sum(1)))[1 : k + 1]
        with np.errstate(divide="ignore"):
            logs = np.log(distances / (distances[-1] + 1e-6))
        scores.append(-k / (logs.sum() + 1e-6))
    return np.array(scores)


def on_a_line(distances: list[float] | np.ndarray) -> torch.Tensor:
    """Points of which the first has the given distances to the others."""
    return torch.tensor([0.0, *distances], dtype=torch.float64)[:, None]


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        (np.linspace(0.001, 0.01, 20), 1.3048),
        (np.linspace(1e-8, 1e-7, 20), 0.316),
        ([0.3] * 20, 3.05e5),
        ([0.0, *np.linspace(0.001, 0.01, 19)], 0.0),
        ([0.0] * 20, 0.0),
    ],
    ids=["ordinary", "saturated", "all equal", "one duplicate", "all duplicates"],
)
def test_known_values(distances: list[float], expected: float) -> None:
    assert float(lid(on_a_line(distances))[0]) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("n", [3, 20, 21, 22, 60])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_against_the_definition(n: int, k: int) -> None:
    points = np.random.default_rng(n * 100 + k).dirichlet(np.full(10, 0.3), size=n)
    scores = lid(torch.tensor(points), k)
    assert scores.dtype == torch.float64
    np.testing.assert_allclose(scores.numpy(), by_definition(points, k), rtol=1e-8)


def test_distances_far_below_single_precision() -> None:
    rng = np.random.default_rng(0)
    points = np.eye(10)[rng.integers(10, size=80)] + rng.normal(0, 1e-9, size=(80, 10))
    np.testing.assert_allclose(lid(torch.tensor(points)), by_definition(points, 20), rtol=1e-6)


def test_single_precision_is_widened_first() -> None:
    points = torch.rand(40, 10).softmax(1)
    assert torch.equal(lid(points), lid(points.double()))


def test_fewer_samples_than_neighbours_keep_the_numerator() -> None:
    points = on_a_line([0.1, 0.2, 0.4])
    logs = sum(math.log(r / (0.4 + 1e-6)) for r in (0.1, 0.2, 0.4))
    assert float(lid(points, 20)[0]) == pytest.approx(-20 / (logs + 1e-6))


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_too_few_for_an_estimate(samples: int) -> None:
    scores = lid(torch.rand(samples, 10))
    assert scores.shape == (samples,)
    assert scores.isnan().all()


def test_rows_are_independent_of_how_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.rand(50, 10, dtype=torch.float64).softmax(1)
    whole = lid(points)
    monkeypatch.setattr(module, "ROWS", 7)
    assert torch.equal(lid(points), whole)
