"""Trimmed mean and geometric median: by hand, and against a search for the minimum."""

import numpy as np
import pytest
import torch

from noisyfl.simulation.aggregation import flat, geometric_median
from vectors import VectorFederation, method, model_of, random_models, updates_of


def aggregate(name, vectors, sizes=None, **options):
    models = [model_of(torch.tensor(vector)) for vector in vectors]
    federation = VectorFederation([1] * len(models), len(models))
    return method(name, **options).aggregate(updates_of(models, sizes), federation), federation


@pytest.mark.parametrize(
    ("count", "beta", "out"),
    [(5, 0.2, 1), (10, 0.2, 2), (10, 0.25, 2), (3, 0.01, 1), (2, 0.4, 0), (1, 0.2, 0), (5, 0.0, 0)],
)
def test_trimmed_mean_leaves_the_extremes_of_each_coordinate_out(count, beta, out):
    vectors = random_models(count)
    found, _ = aggregate("trimmed_mean", vectors, sizes=range(1, count + 1), beta=beta)
    expected = np.sort(vectors, axis=0)[out : count - out].mean(0)
    np.testing.assert_allclose(flat(found), expected)
    assert float(found["0.norm.running_mean"]) == pytest.approx(10 * expected[0])
    assert int(found["0.norm.num_batches_tracked"]) == 3


@pytest.mark.parametrize("name", ["trimmed_mean", "rfa"])
def test_one_client_far_away_does_not_carry_the_model_off(name):
    vectors = random_models(6)
    vectors[2] = 1e2
    found, federation = aggregate(name, vectors)
    assert float(flat(found).abs().max()) < 3
    if name == "rfa":
        shares = [federation.reports[n]["aggregation_weight"] for n in range(6)]
        assert sum(shares) == pytest.approx(1)
        assert shares[2] == min(shares) < 0.02


@pytest.mark.parametrize("name", ["trimmed_mean", "rfa"])
def test_clients_without_samples_do_not_count(name):
    vectors = random_models(4)
    some, _ = aggregate(name, vectors[:3], sizes=[2, 1, 3])
    all_of_them, _ = aggregate(name, vectors, sizes=[2, 1, 3, 0])
    assert torch.equal(flat(some), flat(all_of_them))


def test_the_geometric_median_is_where_the_weighted_distances_sum_least():
    points = torch.tensor(random_models(7, seed=3))
    weights = torch.tensor([3.0, 1, 1, 2, 5, 1, 1], dtype=torch.float64)
    found, shares = geometric_median(points, weights, 500, 1e-9)
    free = (shares @ points).clone().requires_grad_()
    (weights * (points - free).norm(dim=1)).sum().backward()
    assert float(free.grad.abs().max()) < 1e-6
    torch.testing.assert_close(found, free.detach())


def test_one_step_by_hand():
    """From the mean 2 of 0, 0 and 6: distances 2, 2 and 4, so shares 2/5, 2/5 and 1/5."""
    points = torch.tensor([[0.0], [0.0], [6.0]])
    found, shares = geometric_median(points, torch.ones(3), 1, 1e-6)
    assert shares.tolist() == pytest.approx([0.4, 0.4, 0.2])
    assert float(found) == pytest.approx(1.2)
    # A step that would move less far than the tolerance is not made.
    assert float(geometric_median(points, torch.ones(3), 1, 1e-6, tolerance=1.0)[0]) == 2.0


def test_steps_of_weiszfeld_are_the_published_codes():
    """Recorded: Sprinter1999/MaskedOptim, a8e8e55, fl_components/fed.py, RFA, of one tensor."""
    rows = [[0.0, 1.0, 2.0, -1.0], [0.2, 0.8, 2.1, -1.3], [5.0, -4.0, 9.0, 3.0]]
    found, _ = geometric_median(torch.tensor(rows), torch.ones(3), 10, 1e-5, tolerance=1e-5)
    assert found.tolist() == pytest.approx([0.1873721, 0.8126279, 2.1350765, -1.1752825], abs=1e-6)
