"""Clustered federated learning's split, its criterion and who is averaged with whom."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from fakes import FakeFederation, alike
from noisy_digits import SETTING, finished
from noisyfl.methods.cfl import bipartition, cosine_matrix
from noisyfl.simulation.updates import Update
from noisyfl.specs.spec import canonical_run
from vectors import method

cfl = partial(method, "cfl")


def random_similarity(count, seed):
    changes = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return cosine_matrix(list(changes)), changes


@pytest.mark.parametrize("seed", range(8))
def test_similarities_are_cosines_and_single_linkage_is_the_best_bipartition(seed):
    similarity, changes = random_similarity(7, seed)
    expected = torch.nn.functional.cosine_similarity(changes[:, None], changes[None], dim=2)
    np.testing.assert_allclose(similarity, expected, atol=1e-6)

    def across(group):
        rest = [i for i in range(7) if i not in group]
        return max(similarity[i][j] for i in group for j in rest)

    best = min(
        across(group) for size in (1, 2, 3) for group in itertools.combinations(range(7), size)
    )
    larger, smaller = bipartition(similarity, "single")
    assert sorted(larger + smaller) == list(range(7))
    assert len(larger) > len(smaller)
    assert across(smaller) == best


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["complete", "single"])
def test_groups_are_those_of_scipy(kind, seed):
    similarity, _ = random_similarity(9, seed)
    distance = 1 - np.array(similarity)
    np.fill_diagonal(distance, 0)
    found = fcluster(linkage(squareform(distance, checks=False), kind), 2, "maxclust")
    groups = bipartition(similarity, kind)
    assert {frozenset(g) for g in groups} == {
        frozenset(np.flatnonzero(found == label).tolist()) for label in (1, 2)
    }


def test_equal_groups_are_ordered_by_their_first_element():
    similarity = [[1, -1, 1, -1], [-1, 1, -1, 1], [1, -1, 1, -1], [-1, 1, -1, 1]]
    assert bipartition(similarity, "complete") == ([0, 2], [1, 3])
    assert bipartition([[1.0, 0.3], [0.3, 1.0]], "complete") == ([0], [1])


def test_changes_that_are_nothing_or_not_finite_have_no_direction():
    changes = [torch.zeros(2), torch.tensor([math.nan, 1.0]), torch.tensor([3.0, 4.0])]
    similarity = np.array(cosine_matrix(changes))
    assert similarity[2, 2] == pytest.approx(1)
    assert np.count_nonzero(similarity) == 1


class Federation(FakeFederation):
    """Models of two numbers and a buffer."""

    def __init__(self, clients=6):
        super().__init__(alike(clients), model(0.0, 0.0))

    def run_round(self, method, moved, sizes=None):
        """A round in which clients end so far from where they started."""
        updates = []
        for number, (x, y) in moved.items():
            client = self.clients[number]
            start = method.start(client, self)
            size = 4 if sizes is None else sizes[number]
            weights = {"0.weight": start["0.weight"] + torch.tensor([x, y])}
            weights["0.running_mean"] = torch.tensor([100.0 * number])
            updates.append(Update(client, weights, {}, size, 1, 0.0, 0, 0))
        self.weights = method.aggregate(updates, self)
        return self


def model(x, y):
    return {"0.weight": torch.tensor([x, y]), "0.running_mean": torch.zeros(1)}


OPPOSED = {0: (1.0, 0.1), 1: (-1.0, 0.1), 2: (1.0, -0.1), 3: (-1.0, 0.0)}
"""Their mean is small, each is not: 0 and 2 go one way, 1 and 3 the other."""


def split(**options):
    return cfl(**{"warm_up_rounds": 0, "eps1": 0.4, "eps2": 0.9, **options})


def test_a_cluster_whose_clients_disagree_splits_and_each_half_is_averaged():
    method = split()
    federation = Federation().run_round(method, OPPOSED)
    # Clients 4 and 5 were not there, and stay with the group that stays.
    assert federation.state["cluster_of"] == [0, 1, 0, 1, 0, 0]
    first, second = (m["0.weight"] for m in federation.state["cluster_models"])
    torch.testing.assert_close(first, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(second, torch.tensor([-1.0, 0.05]))
    assert torch.equal(federation.weights["0.weight"], first)
    assert float(federation.weights["0.running_mean"]) == 100.0
    assert federation.reports[1]["cluster"] == 1
    assert federation.reports[1]["change_norm"] == pytest.approx(math.hypot(1, 0.1))
    assert federation.reports[1]["cluster_change_norm"] == pytest.approx(0.025)
    # From here each goes on from its own cluster's model, and clusters do not meet again.
    federation.run_round(method, {1: (0.0, 1.0), 4: (1.0, 0.0)})
    torch.testing.assert_close(
        federation.state["cluster_models"][1]["0.weight"], torch.tensor([-1.0, 1.05])
    )
    torch.testing.assert_close(federation.weights["0.weight"], torch.tensor([2.0, 0.0]))


def test_the_largest_cluster_is_counted_in_clients():
    method = split()
    moved = {n: ((1.0, 0.1 * n) if n in (0, 1) else (-0.6, 0.0)) for n in range(6)}
    federation = Federation().run_round(method, moved)
    assert federation.state["cluster_of"] == [1, 1, 0, 0, 0, 0]
    torch.testing.assert_close(federation.weights["0.weight"], torch.tensor([-0.6, 0.0]))


def test_a_second_split_divides_one_cluster_alone():
    """A client is always in one cluster: the official code counts from each parent's first."""
    method = split()
    federation = Federation().run_round(method, {**OPPOSED, 4: (1.0, 0.0), 5: (-1.0, -0.1)})
    assert federation.state["cluster_of"] == [0, 1, 0, 1, 0, 1]
    federation.run_round(method, {1: (0.0, 1.0), 3: (0.0, -1.0), 5: (0.0, 1.0), 0: (0.3, 0.0)})
    assert federation.state["cluster_of"] == [0, 1, 0, 2, 0, 1]
    assert len(federation.state["cluster_models"]) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"warm_up_rounds": 1},
        {"eps1": 0.02},
        {"eps2": 1.1},
        {"smallest": 5},
        {"gamma_max": 0.999},
        # The mean's norm is 0.025: 41 times that is 1.025, above the largest change.
        {"relative": True, "eps1": 1.1, "eps2": 41},
        {"relative": True, "eps1": 1.0, "eps2": 1},
    ],
    ids=str,
)
def test_otherwise_it_stays_whole(options):
    federation = Federation().run_round(split(**options), OPPOSED)
    assert federation.state["cluster_of"] == [0] * 6
    torch.testing.assert_close(federation.weights["0.weight"], torch.tensor([0.0, 0.025]))


@pytest.mark.parametrize(
    "options", [{"relative": True, "eps1": 1.1, "eps2": 39}, {"gamma_max": 0.9}]
)
def test_limits_from_the_other_side(options):
    assert Federation().run_round(split(**options), OPPOSED).state["cluster_of"][1] == 1


def test_after_the_warm_up_it_splits():
    method = split(warm_up_rounds=2)
    federation = Federation()
    for expected in (1, 1, 2):
        federation.run_round(method, OPPOSED)
        assert len(federation.state["cluster_models"]) == expected


@pytest.mark.parametrize(("weighting", "expected"), [("samples", 0.5), ("clients", 0.0)])
def test_weighting(weighting, expected):
    method = cfl(weighting=weighting)
    federation = Federation().run_round(method, {0: (1.0, 0.0), 1: (-1.0, 0.0)}, {0: 3, 1: 1})
    assert float(federation.weights["0.weight"][0]) == pytest.approx(expected)


def test_the_larger_group_alone_is_averaged_every_round():
    method = cfl(variant="larger_group")
    federation = Federation().run_round(method, {**OPPOSED, 4: (1.0, 0.0)})
    torch.testing.assert_close(federation.weights["0.weight"], torch.tensor([1.0, 0.0]))
    assert [federation.reports[n]["in_larger_group"] for n in range(5)] == [1, 0, 1, 0, 1]
    assert not federation.state
    # Two participants are no groups.
    federation.run_round(method, {0: (1.0, 0.0), 1: (-1.0, 0.0)})
    torch.testing.assert_close(federation.weights["0.weight"], torch.tensor([1.0, 0.0]))


@pytest.mark.storm
def test_digits_whose_labels_contradict_are_told_apart(data, tmp_path):
    """What the method is for: two of five clients call every digit by the next one's name."""

    def contradict(federation):
        for client in federation.clients[:2]:
            client.labels = (client.given + 1) % 10

    ends = {}
    given = "cfl(relative=True, eps1=0.6, eps2=0.6, warm_up_rounds=2)"
    for name in ("fedavg", given):
        changes = {"noise_level": "constant(level=0.0)", "method": name}
        spec = canonical_run({**SETTING, **changes}, "test")
        federation, *_ = finished(spec, data, tmp_path, change=contradict)
        ends[name] = np.mean([row["test_accuracy"] for row in federation.records.rounds[-5:]])
    # No cluster has clients of both kinds; that one of either may split again is the method's.
    cluster_of = federation.state["cluster_of"]
    assert not set(cluster_of[:2]) & set(cluster_of[2:])
    assert ends[given] > ends["fedavg"] + 0.1
