"""RoFL's centroids: of a batch, of an epoch, of a client, of all, against loops over classes."""

import numpy as np
import pytest
import torch
from test_rofl import CLASSES, WIDTH, Reports, cosine, expected, planned, rofl, step

from noisyfl.methods.rofl import average_centroids, mean_features
from noisyfl.simulation.clients import Client
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Update


def test_global_centroids_are_equations_11_and_12():
    rng = np.random.default_rng(2)
    local, before = rng.normal(size=(3, CLASSES, WIDTH)), rng.normal(size=(CLASSES, WIDTH))
    local[1, 0] = 0  # a client that has no class 0
    local[:, 2] = 0  # nobody has class 2
    before[3] = 0  # nobody had class 3
    found = average_centroids(torch.from_numpy(local), torch.from_numpy(before)).numpy()
    for c in range(CLASSES):
        weights = [
            0.0 if not f[c].any() else 1.0 if c == 3 else max(0.0, cosine(before[c], f[c]))
            for f in local
        ]
        mean = sum(w * f[c] for w, f in zip(weights, local, strict=True))
        np.testing.assert_allclose(found[c], mean / sum(weights) if sum(weights) else before[c])
    assert np.allclose(found[2], before[2])
    first = average_centroids(torch.from_numpy(local), None).numpy()
    np.testing.assert_allclose(first[0], (local[0, 0] + local[2, 0]) / 2)
    np.testing.assert_allclose(first[1], local[:, 1].mean(0))
    assert not first[2].any()


def test_a_first_round_starts_from_mean_features():
    features = torch.tensor([[1.0, 0], [3, 0], [0, 5]])
    outputs = Outputs(torch.zeros(3, 4), features)
    found = mean_features(outputs, torch.tensor([1, 1, 3]))
    assert found.tolist() == [[0, 0], [2, 0], [0, 0], [0, 5]]


def of_all(outputs, labels, kept, start, shared=True):
    """Eqs. 2 to 4, a class at a time."""
    features, logs = outputs.features.numpy(), outputs.logits.log_softmax(1).numpy()
    small = np.argsort([-log[y] for log, y in zip(logs, labels, strict=True)])[:kept]
    moved = start.numpy().copy()
    for c in range(CLASSES):
        members = [features[i] for i in small if labels[i] == c]
        if members:
            mean = np.mean(members, axis=0)
            s = cosine(start[c].numpy(), mean) if shared else 1.0
            moved[c] = (1 - s**2) * moved[c] + s**2 * mean
    return moved


@pytest.mark.parametrize("shared", [True, False])
def test_centroids_of_an_epoch_are_equations_2_to_4_of_all_samples(shared):
    rng = torch.Generator().manual_seed(1)
    own = Outputs(torch.randn(9, CLASSES, generator=rng), torch.rand(9, WIDTH, generator=rng))
    options = {"centroid_update": "epoch", "global_centroids": shared}
    first, _, views = planned(1, own=own, **options)
    assert "centroids" not in first.extras
    assert views == []
    for number in (1, 2):
        epoch, _, views = planned(1, number, own, **options)
        assert views == ["weak"]
        # Of 5.4 small losses, 6. The client has no class 3, for which there may be a global one.
        start = torch.ones(CLASSES, WIDTH) * torch.tensor([[1.0], [1], [1], [shared]])
        expected = of_all(own, np.arange(9) % 3, 6, start, shared)
        for centroids in epoch.extras["centroids"]:
            np.testing.assert_allclose(centroids.numpy(), expected, rtol=1e-5)
        assert len(epoch.extras["centroids"]) == len(epoch.steps)
    assert "centroids" not in planned(1, 1, own)[0].extras


def test_centroids_of_an_epoch_are_sent_as_the_local_model_ends():
    rng = torch.Generator().manual_seed(1)
    ends = [
        Outputs(torch.randn(9, CLASSES, generator=rng), torch.rand(9, WIDTH, generator=rng))
        for _ in range(2)
    ]
    labels, start = torch.arange(9) % 3, torch.rand(CLASSES, WIDTH, generator=rng)
    updates = []
    for number in range(2):
        client = Client(number, torch.arange(9), labels, labels.clone())
        client.state = {"kept": 0.6, "centroids": start}
        memory = {
            "centroids": start,
            "confident": torch.ones(9, dtype=torch.int64),
            "pseudo_label": labels,
        }
        updates.append(Update(client, {"own": number}, memory, 9.0, 1, 0.0, 9, 9))
    federation = Reports()
    federation.passes = lambda requests, round: [ends[r.weights["own"]] for r in requests]
    rofl(centroid_update="epoch").after_updates(0, updates, federation)
    local = [of_all(outputs, np.arange(9) % 3, 6, start) for outputs in ends]
    expected = average_centroids(torch.from_numpy(np.stack(local)), None)
    torch.testing.assert_close(federation.state["centroids"], expected)


def test_centroids_of_an_epoch_stand_still_in_its_steps():
    loss, model, memory = step({"centroid_update": "epoch"})
    assert loss.item() == pytest.approx(expected(model)[0] / 8)
    assert torch.equal(memory["centroids"], model.centroids)
    others = model.centroids.flip(0)
    loss, model, memory = step({"centroid_update": "epoch"}, centroids=others)
    assert torch.equal(memory["centroids"], model.centroids)
    model.centroids = others
    assert loss.item() == pytest.approx(expected(model)[0] / 8)
