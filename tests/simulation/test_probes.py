"""Probes: what they measure, and that a run with them is the run without them."""

import copy
import json
import signal
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import pearsonr
from sklearn.metrics.pairwise import cosine_similarity

from noisy_digits import finished
from noisyfl.checks.fast import PARTITION
from noisyfl.core.artifacts import read_table
from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.simulation import probes
from noisyfl.simulation.checkpoint import Interrupted
from noisyfl.simulation.federation import PARTICIPANTS
from noisyfl.simulation.records import CLIENT_COLUMNS
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import Probe, canonical_run, check_run
from small_runs import (
    METHODS,
    SETTING,
    SMALL,
    VARIED,
    by_name,
    name_of,
    spec_of,
    train_small,
)

ALL = ["features", "local_models", "samples"]
ROFL = {"name": "rofl", **SMALL["rofl"]}


def federation_of(method, data, root, executor="fast", **changes):
    """A federation after its last round, and the sides of its method."""
    return finished(spec_of(method, **changes), data, root, executor)


def looked_at(federation, weights, rows):
    """Logits and features of rows of the training part, by the network itself."""
    executor = federation.executor
    executor.networks.load_state_dict(weights)
    network = executor.networks[0].eval()
    images = executor.view.show("plain", executor.train.pixels[rows], None)
    with torch.no_grad():
        features = network.features(images)
        return network.classifier(features).numpy(), features.numpy()


# -------------------------------------------------------------------- the spec


def test_a_spec_names_its_probes_in_one_order_and_only_if_there_are_any():
    plain = spec_of("fedavg")
    assert spec_of("fedavg", probes=[]) == plain
    assert "probes" not in plain
    one, other = (spec_of("fedavg", probes=p) for p in (["samples", "features"], ALL[::2]))
    assert one == other
    assert one["probes"] == ["features", "samples"]
    assert identity(one) != identity(plain)
    check_run(one, "here")
    with pytest.raises(BadInput, match=r"here: .* would not have probes"):
        check_run({**plain, "probes": []}, "here")
    with pytest.raises(BadInput, match=r"here: .* probes would now be"):
        check_run({**one, "probes": ["samples", "features"]}, "here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sample"], r"test\.probes\[0\]: Input should be 'features', .* did you mean"),
        (["samples", "samples"], r"test\.probes: got \['samples', 'samples'\], expected each"),
    ],
)
def test_a_wrong_list_of_probes_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        canonical_run({**SETTING, "method": "fedavg", "probes": given}, "test")


def test_every_probe_that_a_spec_may_name_is_there():
    assert sorted(probes.PROBES) == sorted(get_args(Probe)) == ALL


# -------------------------------------------------------------------- the run stays as it is


def untouched(federation):
    """All that a probe must leave as it is."""
    records = federation.records
    return (
        dict(federation.weights),
        dict(federation.state),
        [(client.labels, dict(client.state)) for client in federation.clients],
        [dict(row) for row in records.rounds],
        (records.counted, records.forward, records.backward, records.down, records.up),
        (list(records.selections), dict(records.estimates)),
    )


def equal(one, other):
    """Also bit for bit, and NaN is NaN."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other or (one != one and other != other)


@pytest.mark.parametrize("method", by_name(METHODS, ["fedcorr"], VARIED))
def test_probes_leave_every_method_as_it_is(method, data, tmp_path):
    """And each measures numbers, whatever the method."""
    federation, *sides = federation_of(method, data, tmp_path, partition=PARTITION)
    held = copy.deepcopy(untouched(federation))
    before = {(row["round"], row["client"]): dict(row) for row in federation.records.clients}
    probes.run_probes(ALL, federation, *sides)
    assert equal(held, untouched(federation))

    rows = {(row["round"], row["client"]): row for row in federation.records.clients}
    assert len(rows) == len(federation.records.clients)
    assert list(rows) == sorted(rows)
    for place, row in before.items():
        assert equal(row, {name: rows[place][name] for name in row})
    last = [row for row in rows.values() if row["round"] == len(federation.records.rounds)]
    assert [row["client"] for row in last] == [client.id for client in federation.clients]
    assert all(0 <= row["local_test_accuracy"] <= 1 for row in last)
    assert np.allclose([sum(row["random_image_output"]) for row in last], 1, atol=1e-5)
    seen = [row for row in last if "sample_loss" in row]
    assert len(seen) == federation.records.rounds[-1]["participants"]
    for row in seen:
        assert np.isfinite(row["sample_loss"]).all()
        assert np.isfinite(row["feature_vector"]).all()
        assert len(row["sample_loss"]) == len(federation.clients[row["client"]])


@pytest.mark.parametrize("method", ["fedavg", ROFL], ids=str)
@pytest.mark.slow
def test_a_run_with_probes_is_the_run_without(method, data, tmp_path):
    plain = train_small(spec_of(method), data, tmp_path / "plain")
    probed = train_small(spec_of(method, probes=ALL), data, tmp_path / "probed")
    one, other = (read_table(run.rounds)[0].drop_columns(["seconds"]) for run in (plain, probed))
    assert one.equals(other)
    before, after = (pd.read_parquet(files.clients) for files in (plain, probed))
    measured = [name for probe in ALL for name in probes.PROBES[probe].columns]
    always = len(CLIENT_COLUMNS)
    assert list(after.columns) == [*before.columns[:always], *measured, *before.columns[always:]]
    earlier = after[after["round"] < 8].reset_index(drop=True)
    assert earlier[before.columns].equals(before[before["round"] < 8])
    last = after[after["round"] == 8].set_index("client")
    assert last.index.tolist() == list(range(6))
    assert last["sample_loss"].notna().sum() == 3
    outputs = np.stack(last["random_image_output"])
    assert outputs.shape == (6, 10)


def test_a_diverged_run_has_no_probes(data, tmp_path):
    schedule = {**SETTING["schedule"], "learning_rate": 1e12}
    files = train_small(spec_of("fedavg", schedule=schedule, probes=ALL), data, tmp_path)
    assert json.loads(files.provenance.read_text())["status"] == "diverged"
    assert len(read_table(files.clients)[0]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [{"name": "fedavg"}, ROFL, {"name": "fedrn", **SMALL["fedrn"]}], ids=name_of
)
def test_a_run_stopped_before_or_while_it_is_probed_ends_the_same(
    method, data, tmp_path, monkeypatch
):
    spec = spec_of(method, probes=ALL)
    whole = train_small(spec, data, tmp_path / "whole")
    measure, calls = probes.run_probes, []

    def stopped(*given):
        calls.append(given)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGTERM)
        measure(*given)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(probes, "run_probes", stopped)
    for _ in range(2):
        with pytest.raises(Interrupted, match="after round 8"):
            train_small(spec, data, tmp_path / "pieces")
    pieces = train_small(spec, data, tmp_path / "pieces")
    assert len(calls) == 3
    assert read_table(pieces.clients)[0].equals(read_table(whole.clients)[0])
    one, other = (read_table(f.rounds)[0].drop_columns(["seconds"]) for f in (whole, pieces))
    assert one.equals(other)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "coteaching", ROFL], ids=str)
def test_both_executors_measure_the_same(method, data, tmp_path):
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        rows = []
        for executor in ("loop", "fast"):
            federation, *sides = federation_of(method, data, tmp_path, executor)
            probes.run_probes(ALL, federation, *sides)
            rows.append([r for r in federation.records.clients if r["round"] == 8])
    finally:
        torch.set_default_dtype(default)
    for one, other in zip(*rows, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if value is not None:
                assert np.allclose(value, other[name], rtol=1e-4, atol=1e-7, equal_nan=True), name


# -------------------------------------------------------------------- what is measured


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "fast"])
def test_local_models_are_those_of_one_more_local_update(executor, data, tmp_path):
    federation, server, side = federation_of("fedavg", data, tmp_path, executor)
    rows = probes.probe_local_models(federation, server, side)
    assert list(rows) == [client.id for client in federation.clients]
    tasks = [Task(client, federation.weights) for client in federation.clients]
    test = federation.executor.test
    image = stream(3, "random image").standard_normal((1, 1, 8, 8))
    for update in federation.executor.local_updates(tasks, side, 7, "training"):
        client, row = update.client, rows[update.client.id]
        logits, _ = looked_at(federation, update.weights, client.rows)
        called = logits.argmax(1)
        assert row["local_train_accuracy"] == np.mean(called == client.given.numpy())
        assert row["local_true_accuracy"] == np.mean(called == client.true.numpy())
        network = federation.executor.networks[0]
        with torch.no_grad():
            shown = federation.executor.view.show("plain", test.pixels, None)
            right = network(shown).argmax(1) == test.labels
            answer = network(torch.from_numpy(image).float())[0].numpy()
        assert row["local_test_accuracy"] == right.double().mean()
        own = [float(right[test.labels == k].double().mean()) for k in set(client.true.tolist())]
        assert row["local_own_classes_accuracy"] == pytest.approx(np.mean(own))
        assert row["random_image_output"] == pytest.approx(softmax(answer), abs=1e-6)


@pytest.mark.slow
def test_the_random_image_is_the_trials(data, tmp_path):
    images = [
        federation_of("fedavg", data, tmp_path, seed=seed)[0].random_image() for seed in (3, 3, 4)
    ]
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])


@pytest.mark.slow
def test_two_networks_answer_as_they_are_tested(data, tmp_path):
    """The mean of both networks' outputs is another answer than the first one's alone."""
    answers = {}
    for tested in ("first", "mean"):
        method = {"name": "coteaching", "ramp_rounds": 2, "tested": tested}
        federation, *sides = federation_of(method, data, tmp_path)
        rows = probes.probe_local_models(federation, *sides)
        answers[tested] = np.stack([row["random_image_output"] for row in rows.values()])
    assert np.allclose(answers["mean"].sum(1), 1)
    assert not np.allclose(answers["first"], answers["mean"])


def test_samples_have_their_losses_and_similarities(data, tmp_path):
    federation, server, side = federation_of("fedavg", data, tmp_path)
    rows = probes.samples(federation, server, side)
    # Three of six clients in a round: those that the last one drew.
    assert sorted(rows) == sorted(server.select(7, federation).tolist())
    assert len(rows) == 3
    for number, row in rows.items():
        client = federation.clients[number]
        given = client.given.numpy()
        assert row["sample"] == client.rows.tolist()
        assert row["sample_given_label"] == given.tolist()
        assert row["sample_true_label"] == client.true.tolist()
        logits, features = looked_at(federation, federation.weights, client.rows)
        losses = -log_softmax(logits, axis=1)[np.arange(len(given)), given]
        assert row["sample_loss"] == pytest.approx(losses, rel=1e-4, abs=1e-6)
        for label in np.unique(given):
            of_class = features[given == label]
            expected = cosine_similarity(of_class, of_class.mean(0, keepdims=True))[:, 0]
            found = np.array(row["sample_similarity"])[given == label]
            assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_participants_are_the_last_rounds(data, tmp_path, monkeypatch):
    """Where the server would draw others by the model as it is now."""
    method = {"name": "poc", "candidates": 5}
    kind = type(build_method(spec_of(method)["method"], "test")[0])
    select, drawn = kind.select, []

    def noting(self, round, federation):
        drawn.append(select(self, round, federation))
        return drawn[-1]

    monkeypatch.setattr(kind, "select", noting)
    federation, server, side = federation_of(method, data, tmp_path)
    assert sorted(probes.samples(federation, server, side)) == sorted(drawn[-1].tolist())
    assert len(drawn) == 8


@pytest.mark.slow
def test_features_are_those_of_local_models_beside_the_centroids(data, tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "SAMPLES", 150)
    federation, server, side = federation_of(ROFL, data, tmp_path)
    centroids = federation.state["centroids"].numpy()
    rows = probes.probe_features(federation, server, side)
    assert len(rows) == 3
    updates = {update.client.id: update for update in again(federation, server, side)}
    picked = []
    for number, row in rows.items():
        client = federation.clients[number]
        place = {sample: n for n, sample in enumerate(client.rows.tolist())}
        chosen = [place[sample] for sample in row["feature_sample"]]
        assert len(chosen) == len(set(chosen)) == 50
        assert row["feature_given_label"] == client.given[chosen].tolist()
        assert row["feature_true_label"] == client.true[chosen].tolist()
        _, expected = looked_at(federation, updates[number].weights, client.rows[chosen])
        assert np.allclose(row["feature_vector"], expected, atol=1e-5)
        assert np.array_equal(np.float32(row["class_centroid"]), centroids)
        picked.append(chosen)
    assert picked[0] != picked[1]
    assert torch.equal(federation.state["centroids"], torch.from_numpy(centroids))


def again(federation, server, side):
    """The last round's local updates from the model and the centroids of its end."""
    clients = [federation.clients[number] for number in sorted(federation.state[PARTICIPANTS])]
    with federation.scratch():
        side.before_round(7, clients, federation)
        tasks = [Task(c, federation.weights, side.memory(c, federation)) for c in clients]
        return federation.executor.local_updates(tasks, side, 7, "training")


def test_a_method_without_centroids_has_none(data, tmp_path):
    federation, *sides = federation_of("fedavg", data, tmp_path)
    rows = probes.probe_features(federation, *sides)
    assert all(row["class_centroid"] is None for row in rows.values())
    assert sum(len(row["feature_sample"]) for row in rows.values()) <= probes.SAMPLES


@pytest.mark.slow
def test_training_accuracy_tells_the_noise_level(data, tmp_path):
    """Models that have fitted little but the clean labels (FedRN, Figure 4)."""
    schedule = {**SETTING["schedule"], "rounds": 12, "local_epochs": 2}
    noise = "client_linear(low=0.0, high=0.8)"
    given = {"schedule": schedule, "partition": "iid(clients=6)", "noise_level": noise}
    federation, *sides = federation_of("fedavg", data, tmp_path, **given)
    rows = probes.probe_local_models(federation, *sides)
    levels = [client.noise_level for client in federation.clients]
    accuracy = [rows[client.id]["local_train_accuracy"] for client in federation.clients]
    assert pearsonr(levels, accuracy).statistic < -0.9


def test_aside_nothing_is_changed(data, tmp_path):
    federation, _, _ = federation_of("fedavg", data, tmp_path)
    client = federation.clients[0]
    labels, weights = client.labels, federation.weights
    client.state["kept"] = 1
    rounds = list(federation.records.rounds)

    def meddle():
        with federation.scratch():
            client.labels = client.true
            client.state["kept"], client.state["new"] = 2, 3
            federation.state["new"] = 4
            federation.weights = {}
            federation.report(client, lid=1.0)
            federation.exchange(down=5)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        meddle()
    assert client.labels is labels
    assert client.state == {"kept": 1}
    assert "new" not in federation.state
    assert federation.weights is weights
    assert federation.records.rounds == rounds
    assert federation.records.down == 0
    assert not federation.records.estimates
