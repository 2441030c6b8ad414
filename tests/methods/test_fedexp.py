"""FedExP's step on the server, by hand."""

import pytest
import torch

from noisyfl.simulation.aggregation import flat
from vectors import VectorFederation, method, model_of, updates_of

# Their mean change is (1, 1), with the square 2; the squares of the changes are 16 and 8.
CHANGES = [[4.0, 0, 0, 0, 0], [-2.0, 2, 0, 0, 0]]


def begun(count=2, at=0.0):
    start = model_of(torch.full((5,), at, dtype=torch.float64))
    return VectorFederation([1] * count, count, weights=start)


def aggregate(federation, changes, sizes=None, **options):
    start = flat(federation.weights)
    models = [model_of(start + torch.tensor(change, dtype=torch.float64)) for change in changes]
    side = method("fedexp", **options)
    federation.weights = side.aggregate(updates_of(models, sizes), federation)
    return side, flat(federation.weights)


@pytest.mark.parametrize("at", [0.0, 7.0])
def test_a_step_by_hand(at):
    """12 / (2 (2 + 1)) times the mean change."""
    federation = begun(at=at)
    _, found = aggregate(federation, CHANGES, epsilon=1)
    assert (found - at).tolist() == pytest.approx([2, 2, 0, 0, 0])
    assert [federation.reports[n]["server_step"] for n in (0, 1)] == pytest.approx([2, 2])


def test_sizes_are_weights():
    """Of 1 and 3: the mean change is (-0.5, 1.5), its square 2.5, the mean square 10."""
    _, found = aggregate(begun(), CHANGES, sizes=[1, 3], epsilon=0.5)
    assert found[:2].tolist() == pytest.approx([-0.5 * 10 / 6, 1.5 * 10 / 6])
    _, found = aggregate(begun(), CHANGES, sizes=[1, 3], epsilon=1, weighting="plain")
    assert found[:2].tolist() == pytest.approx([2, 2])


def test_clients_that_agree_are_averaged_as_fedavg_does():
    """Equal changes would give a step of a half."""
    federation = begun()
    _, found = aggregate(federation, [[1.0, 2, 3, 4, 5]] * 2)
    assert found.tolist() == [1, 2, 3, 4, 5]
    assert federation.reports[0]["server_step"] == 1
    _, still = aggregate(federation, [[0.0] * 5] * 2, epsilon=0)
    assert torch.equal(still, found)


def test_buffers_are_averaged_and_not_extrapolated():
    federation = begun()
    aggregate(federation, CHANGES, epsilon=1)
    assert float(federation.weights["0.norm.running_mean"]) == pytest.approx((40 - 20) / 2)
    assert int(federation.weights["0.norm.num_batches_tracked"]) == 3


def test_who_had_nothing_to_train_on_does_not_count():
    _, two = aggregate(begun(3), CHANGES, sizes=[1, 1], epsilon=1)
    _, three = aggregate(begun(3), [*CHANGES, [90.0] * 5], sizes=[1, 1, 0], epsilon=1)
    assert torch.equal(two, three)


def test_the_mean_of_the_last_two_models_is_tested():
    federation = begun()
    side, first = aggregate(federation, CHANGES, epsilon=1)
    tested = [flat(one.weights) for one in side.predictors(federation)]
    assert [vector.tolist() for vector in tested] == [first.tolist()]
    _, second = aggregate(federation, CHANGES, epsilon=1)
    (tested,) = side.predictors(federation)
    assert flat(tested.weights).tolist() == pytest.approx(((first + second) / 2).tolist())
    (initial,) = side.predictors(begun())
    assert not flat(initial.weights).any()


def test_the_last_model_is_tested():
    federation = begun()
    side, _ = aggregate(federation, CHANGES, variant="last_model")
    (tested,) = side.predictors(federation)
    assert tested.weights is federation.weights
    assert not federation.state


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epsilon": 0.0}, 6 / 2),
        ({"epsilon": 1.0}, 6 / 4),
        ({"epsilon": 1.0, "epsilon_decay": 0.5}, 6 / (2 * (1 + 1 / 8))),
        ({"epsilon": 0.25, "epsilon_per_participant": True}, 6 / (2 * (1 + 1))),
        ({"epsilon": 9.0}, 1),
    ],
)
def test_epsilon(options, expected):
    """In the third round, of four participants, with a mean square of 6 and a squared mean of 1."""
    step = method("fedexp", **options).step_size(6.0, 1.0, 4, round=2)
    assert step == pytest.approx(expected)
