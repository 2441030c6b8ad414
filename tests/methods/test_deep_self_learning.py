"""Deep self-learning's prototypes, labels and loss on cases small enough to work out by hand."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from fakes import Answering, FakeModel
from noisy_digits import run_on_digits
from noisyfl.simulation.client_side import Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch, Update
from vectors import method

smp = partial(method, "deep_self_learning")


def prototypes_by_loop(similarity, count, rank, limit):
    """One pair after the other."""
    m = len(similarity)
    threshold = sorted(similarity.ravel())[int(rank * m * m)]
    density = [
        sum(int(s > threshold) - int(s < threshold) for s in similarity[i]) for i in range(m)
    ]
    nearest = []
    for i in range(m):
        denser = [similarity[i, j] for j in range(m) if density[j] > density[i]]
        nearest.append(max(denser) if denser else min(similarity[i]))
    order = sorted(range(m), key=lambda i: -density[i])
    apart = [i for i in order if nearest[i] < limit]
    return apart[:count] or order[:1]


@pytest.mark.parametrize("seed", range(8))
def test_prototypes_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    features = np.abs(rng.normal(size=(rng.integers(1, 30), 4)))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    similarity = features @ features.T
    similarity = (similarity + similarity.T) / 2
    for rank, limit in ((0.4, 0.95), (0.75, 0.8), (0.0, 0.5)):
        method = smp(prototypes=3, density_rank=rank, nearest_denser=limit)
        found = method.find(torch.from_numpy(similarity)).tolist()
        assert found == prototypes_by_loop(similarity, 3, rank, limit)


def test_the_densest_sample_is_the_prototype_where_all_are_alike():
    assert smp().find(torch.ones(5, 5)).tolist() == [0]
    assert smp().find(torch.ones(1, 1)).tolist() == [0]


def directions(*degrees):
    angle = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angle.cos(), angle.sin()], 1)


def turn(features, round=1, number=0, classes=4):
    asked = []

    def outputs(purpose, network, view):
        asked.append((network, view))
        return Outputs(features.new_zeros(len(features), classes), features)

    one = Turn(1, round, "training", client=0, number=number, batch_size=10, outputs=outputs)
    return one, asked


def test_wrong_labels_go_to_the_class_whose_prototypes_are_near():
    """Two bundles of directions; the fourth sample of each has the other's label.

    Class 2 is on no sample, and no sample gets it, however near its score of 0 would be.
    """
    features = directions(0, 4, 8, 2, 90, 94, 98, 92) * torch.tensor([[1.0], [7.0]] * 4)
    given = torch.tensor([0, 0, 0, 3, 3, 3, 3, 0])
    client = Client(0, torch.arange(8), given, given)
    one, asked = turn(features)
    epoch = smp(prototypes=1).epoch(client, one)
    assert epoch.targets[:, 0].tolist() == given.tolist()
    assert epoch.targets[:, 1].tolist() == [0, 0, 0, 0, 3, 3, 3, 3]
    assert epoch.extras == {"share": [0.5]}
    assert asked == [(0, "plain")]
    assert torch.equal(client.labels, given)


def test_prototypes_are_looked_for_among_so_many_samples():
    """Of a class of which one sample is drawn, that one is the prototype: any of them may be."""
    features = directions(0, 60, 180)
    given = torch.tensor([0, 0, 1])
    client = Client(0, torch.arange(3), given, given)
    method = smp(samples=1)
    seen = set()
    for round in range(1, 30):
        one, _ = turn(features, round=round, classes=2)
        seen.add(tuple(method.epoch(client, one).targets[:, 1].tolist()))
    assert seen == {(0, 0, 1)}
    # A third direction is nearer to class 0 by its sample at 60 degrees, not by the one at 0.
    features = directions(0, 60, 180, 100)
    given = torch.tensor([0, 0, 1, 1])
    client = Client(0, torch.arange(4), given, given)
    seen = set()
    for round in range(1, 60):
        one, _ = turn(features, round=round, classes=2)
        seen.add(tuple(method.epoch(client, one).targets[:, 1].tolist()))
    assert len(seen) > 1


@pytest.mark.parametrize(("correction", "asked_in_second"), [("participation", 0), ("epoch", 1)])
def test_when_labels_are_corrected(correction, asked_in_second):
    given = torch.tensor([0, 1])
    client = Client(0, torch.arange(2), given, given)
    method = smp(correction=correction, start_round=2)
    for round, number, times in ((1, 0, 0), (2, 0, 1), (2, 1, asked_in_second), (3, 0, 1)):
        one, asked = turn(directions(0, 90), round, number)
        epoch = method.epoch(client, one)
        assert len(asked) == times
        assert epoch.extras["share"] == [0.5 if round >= 2 else 0.0]
        assert epoch.targets.shape == (2, 2)


def test_the_loss_looks_at_both_labels():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]], requires_grad=True)
    target = torch.tensor([[0, 1], [1, 1]])
    for share in (0.0, 0.3, 1.0):
        batch = Batch(
            (torch.zeros(2, 1),), torch.arange(2), target, {"share": torch.tensor(share)}, {}
        )
        loss = smp().loss(FakeModel(logits), batch)
        given = (math.log(4 / 3) + math.log(2)) / 2
        corrected = (math.log(4) + math.log(2)) / 2
        assert loss.item() == pytest.approx((1 - share) * given + share * corrected)
        (gradient,) = torch.autograd.grad(loss, logits)
        # Of the first sample's first logit: softmax less the mixed label.
        assert float(gradient[0, 0]) == pytest.approx((3 / 4 - (1 - share)) / 2)


def test_what_is_reported():
    given = torch.tensor([0, 1, 1, 1])
    client = Client(0, torch.arange(4), given, torch.tensor([0, 0, 1, 1]))
    noted = []
    federation = Answering(report=lambda client, **estimates: noted.append(estimates))
    update = Update(client, {}, {}, 4, 1, 0.0, 4, 4)
    smp().after_updates(0, [update], federation)
    assert noted == []
    client.state["corrected"] = torch.tensor([0, 0, 0, 1])
    smp().after_updates(1, [update], federation)
    assert noted == [{"corrected_label_accuracy": 0.75}]
    assert client.state == {}


@pytest.mark.slow
def test_corrected_labels_are_better_than_the_given_ones(tmp_path):
    federation, _ = run_on_digits("deep_self_learning", tmp_path, rounds=16)
    noted = [row for row in federation.records.clients if row["round"] == 16]
    assert len(noted) == 5
    # Half of the given labels are right. A client has some 14 true samples of a class, so that the
    # corrected ones differ much between clients.
    accuracy = [row["corrected_label_accuracy"] for row in noted]
    assert min(accuracy) > 0.55
    assert np.mean(accuracy) > 0.65
