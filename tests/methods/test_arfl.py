"""ARFL's reweighting (Fu et al., 2019) against brute force and by hand."""

import math
import statistics

import numpy as np
import pytest
import torch

from noisyfl.methods.arfl import reweighted, shares_of
from vectors import VectorFederation, method, model_of, random_models, updates_of


def brute_force_irls(values, interval=2.0, threshold=0.1):
    """One coordinate, a loop at a time, with the hat matrix written out."""
    count = len(values)
    order = sorted(range(count), key=lambda client: values[client])
    y = [values[client] for client in order]
    slopes = [
        statistics.median((y[j] - y[i]) / (j - i) for j in range(count) if j != i)
        for i in range(count)
    ]
    slope = statistics.median(slopes)
    intercept = statistics.median(y) - slope * (count - 1) / 2
    line = [intercept + slope * x for x in range(count)]
    residuals = [y[x] - line[x] for x in range(count)]
    spread = statistics.median(sorted(map(abs, residuals))[1:])
    scale = 1.4826 * (1 + 5 / (count - 1)) * spread + 1e-7
    design = np.array([[1, x] for x in range(count)], dtype=float)
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    limit = interval * math.sqrt(2 / count)
    restricted, trust = [0.0] * count, [1.0] * count
    for x, client in enumerate(order):
        height, e = math.sqrt(1 - hat[x, x]), residuals[x] / scale
        if e:
            trust[client] = height / e * min(max(e / height, -limit), limit)
        restricted[client] = line[x] if trust[client] < threshold else y[x]
    return restricted, [omega * np.std(trust, ddof=1) for omega in trust]


@pytest.mark.parametrize("count", [3, 4, 5, 10])
def test_confidences_and_restricted_values(count):
    values = np.random.default_rng(count).normal(size=(40, count))
    values[:10, 0] = 15
    found = reweighted(torch.tensor(values), 2.0, 0.1)
    for number, row in enumerate(values):
        restricted, trust = brute_force_irls(list(row))
        assert found[0][number].tolist() == pytest.approx(restricted)
        assert found[1][number].tolist() == pytest.approx(trust)


def test_one_value_far_away_is_replaced_by_the_lines():
    values = np.random.default_rng(0).normal(size=(1, 10))
    values[0, 4] = 15
    restricted, confidence = reweighted(torch.tensor(values), 2.0, 0.1)
    assert float(restricted[0, 4]) < 4
    assert int(confidence[0].argmin()) == 4
    others = np.arange(10) != 4
    assert restricted[0].numpy()[others] == pytest.approx(values[0, others])


@pytest.mark.parametrize("count", [3, 6])
def test_arfl_weights_models_by_their_confidence_in_all_coordinates(count, monkeypatch):
    vectors = random_models(count, seed=3)
    vectors[0] += 8
    models = [model_of(v) for v in vectors]
    # What the coordinates are: five parameters and one buffer.
    table = np.concatenate([vectors, vectors[:, :1] * 10], axis=1)
    rows = [brute_force_irls(list(column)) for column in table.T]
    restricted = np.array([row[0] for row in rows]).T
    totals = np.sum([row[1] for row in rows], axis=0)
    shares = (totals / totals.max()) ** 2
    shares /= shares.sum()
    federation = VectorFederation([1] * count, count, weights=models[0])
    for at_once in (2**22, 1):  # all coordinates together, and one at a time
        monkeypatch.setattr("noisyfl.methods.arfl.AT_ONCE", at_once)
        found = method("arfl").aggregate(updates_of(models), federation)
        mean = (shares[:, None] * restricted).sum(0)
        assert torch.cat([found["0.body.weight"][0], found["1.body.weight"]]).tolist() == (
            pytest.approx(mean[:5].tolist())
        )
        assert float(found["0.norm.running_mean"]) == pytest.approx(mean[5])
    assert found["0.norm.num_batches_tracked"] == 3
    reported = [federation.reports[number]["aggregation_weight"] for number in range(count)]
    assert reported == pytest.approx(shares.tolist())


def test_arfl_of_equal_models_is_that_model():
    model = model_of(np.arange(5.0))
    federation = VectorFederation([1] * 4, 4, weights=model)
    found = method("arfl").aggregate(updates_of([model] * 4), federation)
    for name, value in model.items():
        torch.testing.assert_close(found[name], value)
    assert shares_of(torch.zeros(4, dtype=torch.float64)).tolist() == [0.25] * 4


def test_arfl_of_two_clients_left_is_their_plain_mean():
    vectors = random_models(3)
    vectors[2, 1] = math.nan
    federation = VectorFederation([1] * 3, 3, weights=model_of(vectors[0]))
    found = method("arfl").aggregate(
        updates_of([model_of(v) for v in vectors], [1, 9, 4]), federation
    )
    assert found["1.body.weight"].tolist() == pytest.approx(vectors[:2, 2:].mean(0).tolist())
