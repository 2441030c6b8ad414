"""Clients that never meet, and clients that are one."""

import pytest
import torch

from fakes import FakeFederation, alike
from noisy_digits import run_on_digits
from noisyfl.methods import METHODS
from noisyfl.simulation import rounds
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.updates import Update


def updates_of(federation, value):
    return [
        Update(client, {"0.w": torch.tensor([value])}, {}, 4, 1, 0.0, 0, 0)
        for client in federation.clients[:2]
    ]


def test_every_client_goes_on_from_its_own_model():
    method = METHODS.build("distributed", "test")
    federation = FakeFederation(alike(3))
    federation.state = {}
    updates = updates_of(federation, 7.0)
    assert method.aggregate(updates, federation) is federation.weights
    method.after_round(0, updates, federation)
    starts = [method.start(client, federation) for client in federation.clients]
    assert [start is federation.weights for start in starts] == [False, False, True]
    assert float(starts[0]["0.w"]) == 7
    tested = method.predictors(federation)
    assert [one.weights for one in tested] == starts
    assert [one.client.id for one in tested] == [0, 1, 2]
    assert method.exchange(updates, federation) == (0, 0)


def test_every_client_trains_in_every_round_as_often_as_in_a_federation():
    method = METHODS.build("distributed", "test")
    federation = FakeFederation(alike(20), rounds=24, participation=0.25)
    ordinary = federation.participants
    method.begin(federation)
    assert method.rounds(federation) == federation.schedule.rounds == 6
    assert list(method.select(3, federation)) == list(range(20))
    counted = sum(method.counted_updates(round, federation) for round in range(6))
    assert counted == 24 * ordinary


@pytest.mark.parametrize(
    ("rounds", "participation", "epochs", "expected"),
    [(200, 0.3, None, 60), (100, 1.0, None, 100), (1, 0.1, None, 1), (10, 0.5, 7, 4)],
)
def test_the_budget_of_the_federation_is_that_of_the_pool(rounds, participation, epochs, expected):
    method = METHODS.build({"name": "centralized", "epochs": epochs}, "test")
    federation = FakeFederation(alike(20), rounds=rounds, participation=participation)
    object.__setattr__(federation.schedule, "local_epochs", 2)
    federation.state = {}
    federation.clients[3].given[0] = 2
    clients, ordinary = federation.clients, federation.participants
    method.begin(federation)
    (pool,) = federation.clients
    assert method.rounds(federation) == federation.schedule.rounds == expected
    columns = ("rows", "given", "true")
    parts = [torch.cat([getattr(client, name) for client in clients]) for name in columns]
    samples = list(zip(*(part.tolist() for part in parts), strict=True))
    pooled = list(zip(*(getattr(pool, name).tolist() for name in columns), strict=True))
    assert pooled != samples
    assert sorted(pooled) == sorted(samples)
    assert pool.noise_level == pytest.approx(1 / 80)
    assert list(method.select(0, federation)) == [0]
    assert method.exchange([], federation) == (0, 0)
    counted = sum(method.counted_updates(round, federation) for round in range(expected))
    if epochs is None and rounds > 1:
        assert counted == rounds * ordinary


@pytest.mark.parametrize("name", ["apfl", "fedproto(variant='faithful')"])
@pytest.mark.slow
def test_models_of_those_who_did_not_take_part_are_not_tested_again(name, tmp_path, monkeypatch):
    """And the numbers are those of testing them all."""
    passes = []
    outputs, evaluate = LoopExecutor.test_outputs, rounds.evaluate_models

    def counted(self, weights, network):
        passes.append(network)
        return outputs(self, weights, network)

    def evaluations():
        passes.clear()
        federation, _ = run_on_digits(name, tmp_path, rounds=4, participation=0.4)
        columns = ("test_accuracy", "test_loss", "test_balanced_accuracy")
        return [[row[one] for one in columns] for row in federation.records.rounds], len(passes)

    monkeypatch.setattr(LoopExecutor, "test_outputs", counted)
    some, few = evaluations()
    monkeypatch.setattr(rounds, "evaluate_models", lambda *given: evaluate(*given[:3], {}))
    every, many = evaluations()
    assert some == every
    assert few < many


@pytest.mark.slow
def test_alone_is_worse_and_together_better_than_a_federation(tmp_path):
    """Half of the labels are wrong; clients have a fifth of the samples each."""
    last = {}
    for name in ("distributed", "fedavg", "centralized"):
        federation, accuracy = run_on_digits(name, tmp_path, rounds=10)
        rows = federation.records.rounds
        last[name] = accuracy[-1]
        assert rows[-1]["ordinary_rounds"] == 10
        assert (rows[-1]["bytes_up"] == 0) == (name != "fedavg")
        # The same samples, epochs and labels; only a batch of one sits out here or there.
        total = sum(row["samples_backward"] for row in rows)
        assert total == pytest.approx(10 * 2 * 1437, rel=0.01)
    assert last["distributed"] < last["fedavg"] - 0.05
    assert last["centralized"] > last["distributed"] + 0.05
