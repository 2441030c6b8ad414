"""Server sides that select and combine: their rules against brute force, and what they resist."""

import statistics

import numpy as np
import pytest
import torch

from noisy_digits import finished
from noisyfl.methods.krum import krum_scores
from noisyfl.models import build_model
from noisyfl.simulation import aggregation
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.model import Networks
from noisyfl.simulation.weights import size_in_bytes
from noisyfl.specs.build import build_method
from noisyfl.specs.spec import canonical_run
from vectors import VectorFederation, method, model_of, random_models, updates_of

# ---------------------------------------------------------------- models as vectors


@pytest.mark.parametrize("name", ["cnn", "cnn9", "resnet18"])
def test_parameters_are_the_trainable_weights(name):
    networks = Networks(build_model(name, (32, 32, 3), 4, 1, number) for number in range(2))
    trainable = dict(networks.named_parameters())
    everything = networks.state_dict()
    assert aggregation.trainable_names(everything) == list(trainable)
    vector = aggregation.flat(everything)
    assert torch.equal(vector, aggregation.flat(trainable))
    doubled = aggregation.replaced(everything, 2 * vector)
    assert list(doubled) == list(everything)
    for key, value in everything.items():
        assert torch.equal(doubled[key], 2 * value if key in trainable else value), key
    size = sum(value.numel() for value in trainable.values())
    assert size_in_bytes(everything, list(trainable)) == 4 * size


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_the_middle_is_the_median_of_statistics(count):
    values = np.random.default_rng(count).normal(size=(7, count))
    expected = [statistics.median(row) for row in values]
    assert aggregation.middle(torch.tensor(values)).tolist() == pytest.approx(expected)


# ---------------------------------------------------------------- median


@pytest.mark.parametrize("count", [3, 4])
def test_median_is_that_of_each_coordinate(count):
    vectors = random_models(count)
    federation = VectorFederation([1] * count, count)
    updates = updates_of([model_of(v) for v in vectors], sizes=list(range(1, count + 1)))
    found = method("median").aggregate(updates, federation)
    expected = model_of(np.median(vectors, axis=0))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_median_leaves_out_who_had_nothing_to_train_on():
    federation = VectorFederation([1] * 3, 3)
    models = [model_of(np.full(5, value)) for value in (1.0, 2.0, 90.0)]
    found = method("median").aggregate(updates_of(models, [5, 5, 0]), federation)
    assert found["1.body.weight"].tolist() == [1.5] * 3


# ---------------------------------------------------------------- krum


def brute_force_scores(vectors, faulty):
    scores = []
    for i, one in enumerate(vectors):
        apart = sorted(
            float(((one - other) ** 2).sum()) for j, other in enumerate(vectors) if j != i
        )
        scores.append(sum(apart[: len(vectors) - faulty - 2]))
    return scores


@pytest.mark.parametrize(("count", "faulty"), [(5, 1), (6, 1), (9, 3), (9, 0)])
def test_krum_scores(count, faulty):
    vectors = random_models(count)
    found = krum_scores(torch.tensor(vectors), faulty)
    assert found.tolist() == pytest.approx(brute_force_scores(vectors, faulty))


@pytest.mark.parametrize(
    ("count", "options", "kept"),
    [(6, {}, 5), (30, {}, 24), (3, {}, 2), (1, {}, 1), (6, {"variant": "single"}, 1)],
)
def test_krum_averages_the_models_of_the_smallest_scores(count, options, kept):
    """FedNoiL's 6 participants: one is left out; of 30, six."""
    vectors = random_models(count)
    federation = VectorFederation([1] * count, count)
    found = method("krum", **options).aggregate(
        updates_of([model_of(v) for v in vectors]), federation
    )
    faulty = max(1, count // 5)
    scores = brute_force_scores(vectors, min(faulty, max(0, count - 3)))
    chosen = np.argsort(scores, kind="stable")[:kept]
    expected = model_of(vectors[chosen].mean(0))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    shares = [federation.reports[number]["aggregation_weight"] for number in range(count)]
    assert sum(shares) == pytest.approx(1)
    assert {number for number, share in enumerate(shares) if share} == set(chosen)


def test_krum_looks_at_trainable_weights_of_both_networks_alone():
    vectors = np.zeros((6, 5))
    vectors[:, 0] = np.arange(6) / 100
    models = [model_of(v) for v in vectors]
    models[2] = {**models[2], "0.norm.running_mean": torch.tensor([1e6], dtype=torch.float64)}
    models[4] = {**models[4], "1.body.weight": torch.full((3,), 5.0, dtype=torch.float64)}
    federation = VectorFederation([1] * 6, 6)
    method("krum").aggregate(updates_of(models), federation)
    left_out = {n for n, row in federation.reports.items() if not row["aggregation_weight"]}
    assert left_out == {4}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["krum", "arfl"])
def test_a_model_that_is_not_finite_is_left_out(name, wrong):
    vectors = random_models(6)
    vectors[1, 0] = wrong
    federation = VectorFederation([1] * 6, 6, weights=model_of(vectors[0]))
    found = method(name).aggregate(updates_of([model_of(v) for v in vectors]), federation)
    assert all(bool(value.isfinite().all()) for value in found.values())


# ---------------------------------------------------------------- power of choice


def test_poc_takes_the_candidates_with_the_largest_losses():
    losses = np.random.default_rng(0).uniform(0.1, 3, size=20)
    federation = VectorFederation([5] * 20, 4, losses=losses)
    chosen = method("poc", candidates=7).select(3, federation)
    asked = [request.client.id for request in federation.requests]
    assert len(asked) == len(set(asked)) == 7
    assert all(request.view == "plain" for request in federation.requests)
    assert chosen.tolist() == sorted(asked, key=lambda client: -losses[client])[:4]
    for client in asked:
        assert federation.reports[client]["global_loss"] == pytest.approx(losses[client])
    # Three candidates got a model of five numbers for nothing; all sent a loss.
    assert federation.bytes == (3 * 20, 7 * 4)


def test_poc_by_default_asks_twice_as_many_as_take_part():
    federation = VectorFederation([5] * 20, 4, losses=np.linspace(0.1, 2, 20))
    method("poc").select(0, federation)
    assert len(federation.requests) == 8
    few = VectorFederation([5] * 3, 3, losses=np.linspace(0.1, 2, 3))
    assert sorted(method("poc").select(0, few)) == [0, 1, 2]
    assert few.bytes[0] == 0


def test_poc_draws_candidates_by_size_and_never_an_empty_client():
    federation = VectorFederation([1, 9, 0, 2, 8], 1, losses=np.linspace(0.1, 2, 5))
    for round in range(400):
        method("poc", candidates=1).select(round, federation)
    asked = np.bincount([request.client.id for request in federation.requests], minlength=5)
    assert asked / 400 == pytest.approx(np.array([1, 9, 0, 2, 8]) / 20, abs=0.08)
    assert asked[2] == 0
    everyone = method("poc", candidates=5)
    federation.participants = 5
    assert sorted(everyone.select(0, federation)) == [0, 1, 3, 4]


def test_poc_takes_the_mean_loss_of_two_networks():
    losses = np.array([0.5, 1.0, 0.2])
    federation = VectorFederation([2] * 3, 1, model_of(np.zeros(5)), losses)
    assert method("poc", candidates=3).select(0, federation).tolist() == [1]
    assert federation.reports[0]["global_loss"] == pytest.approx(1.0)  # of 0.5 and 1.5


def test_poc_averages_without_sizes():
    vectors = random_models(3)
    updates = updates_of([model_of(v) for v in vectors], sizes=[1, 50, 3])
    found = method("poc").aggregate(updates, VectorFederation([1] * 3, 3))
    assert found["1.body.weight"].tolist() == pytest.approx(vectors[:, 2:].mean(0).tolist())


# ---------------------------------------------------------------- on digits

SETTING = {
    "dataset": "digits",
    "partition": "iid(clients=10)",
    "label_noise": "symmetric",
    "noise_level": "bernoulli_uniform(rho=0.5, tau=0.8)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 12,
        "participation": 0.5,
        "local_epochs": 2,
        "batch_size": 10,
        "learning_rate": 0.05,
        "momentum": 0.5,
    },
    "seed": 1,
}


def run(name, data, folder, wreck=None):
    """The rows of rounds of a run; ``wreck`` changes what the executor returns."""

    def change(federation):
        if wreck:
            honest = federation.executor.local_updates
            federation.executor.local_updates = lambda *given: wreck(honest(*given))

    spec = canonical_run({**SETTING, "method": name}, "test")
    return finished(spec, data, folder, change=change)[0].records.rounds


def wrecked(updates):
    """The first participant sends its model under noise that is no smaller than it is."""
    noise = torch.Generator().manual_seed(0)
    bad = {
        name: value + 0.3 * torch.randn(value.shape, generator=noise)
        for name, value in updates[0].weights.items()
    }
    updates[0].weights = bad
    return updates


@pytest.fixture(scope="module")
def wrecked_fedavg(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrecked")
    return [row["test_accuracy"] for row in run("fedavg", data, folder, wrecked)]


@pytest.mark.parametrize("name", ["median", "krum", "arfl"])
@pytest.mark.slow
def test_one_client_that_sends_garbage_does_no_harm(name, data, tmp_path, wrecked_fedavg):
    robust = [row["test_accuracy"] for row in run(name, data, tmp_path, wrecked)]
    assert max(robust) > max(wrecked_fedavg) + 0.15
    assert robust[-1] > 0.8
    assert wrecked_fedavg[-1] < 0.5


@pytest.mark.slow
def test_poc_prefers_noisy_clients(data, tmp_path):
    """It is not made for label noise: wrong labels are what makes losses large."""
    level = {
        name: np.mean([row["participants_noise_level"] for row in run(name, data, tmp_path)][3:])
        for name in ("poc", "fedavg")
    }
    assert level["poc"] > level["fedavg"] + 0.1


def test_they_stand_before_a_client_side():
    for name in ("median", "krum", "poc", "arfl"):
        server, client = build_method(f"{name}+fedprox(mu=0.3)", "test")
        assert server.name == name
        assert isinstance(client, ClientSide)
        assert client.mu == 0.3
