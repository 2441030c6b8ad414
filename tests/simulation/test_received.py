"""A loss may ask the received model about its batch, and a memory may go by the round."""

import math
from typing import ClassVar

import pytest
import torch
from test_executors import CAPTURING

from noisy_digits import run_on_digits
from noisyfl.checks.recorded_graphs import RecordedGraphs
from noisyfl.methods import METHODS
from noisyfl.models import build_model
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.model import LocalModel, Networks
from noisyfl.simulation.rounds import simulate
from noisyfl.simulation.updates import Task
from small_executors import close, schedule
from small_runs import SETTING, federation_of, spec_of

pytestmark = pytest.mark.slow

SHAPE = (8, 8, 3)


class Distilled(ClientSide):
    """Learns what the received model says of each batch, and counts what it is asked."""

    name: ClassVar[str] = "distilled"

    def memory(self, client, federation=None):
        return {"asked": torch.zeros(len(client))}

    def loss(self, model, batch):
        teacher = model.received(batch.images)
        assert not teacher.logits.requires_grad
        batch.memory["asked"][batch.positions] += 1
        pull = (model(batch.images).logits.log_softmax(1) * teacher.logits.softmax(1)).sum(1)
        return super().loss(model, batch) - pull.mean()


def networks():
    return Networks(build_model("resnet18", SHAPE, 4, 1, number) for number in range(2))


def state(nets):
    return {name: value.clone() for name, value in nets.state_dict().items()}


@pytest.mark.parametrize("number", [0, 1])
def test_the_received_model_answers_in_evaluation_mode_while_the_other_trains(number):
    nets, images = networks(), torch.rand(4, 3, 8, 8)
    model = LocalModel(nets, state(nets), "float32")
    nets.eval()
    expected = nets.outputs(images, number, "float32").logits
    nets.train()
    for _ in range(3):  # the statistics of batch normalisation and the weights move
        model(images, number).logits.square().sum().backward()
        with torch.no_grad():
            for weight in model.weights.values():
                if weight.grad is not None:
                    weight -= 0.1 * weight.grad
    answer = model.received(images, number)
    assert torch.equal(answer.logits, expected)
    assert not answer.features.requires_grad
    assert (model.forward, model.backward) == (16, 12)
    assert all(module.training for module in nets)


def test_another_model_answers_in_evaluation_mode_while_this_one_trains():
    nets, others, images = networks(), networks(), torch.rand(4, 3, 8, 8)
    with torch.no_grad():
        for value in others.parameters():
            value.add_(0.01)
    model = LocalModel(nets, state(nets), "float32")
    before = state(nets)
    for held in (state(others), before):
        others.load_state_dict(held)
        expected = others.eval().outputs(images, 1, "float32")
        answer = model.look_as(held, images, 1)
        assert torch.equal(answer.features, expected.features)
        assert torch.equal(answer.logits, expected.logits)
        assert not answer.features.requires_grad
    assert (model.forward, model.backward) == (8, 0)
    assert all(torch.equal(value, before[name]) for name, value in nets.state_dict().items())
    assert all(module.training for module in nets)


def test_what_is_received_next_is_asked_next():
    nets, others, images = networks(), networks(), torch.rand(2, 3, 8, 8)
    model = LocalModel(nets, state(nets), "float32")
    first = model.received(images).logits
    with torch.no_grad():
        for value in others.parameters():
            value.add_(0.01)
    model.receive(others.state_dict())
    others.eval()
    assert torch.equal(model.received(images).logits, others.outputs(images, 0, "float32").logits)
    assert not torch.equal(model.received(images).logits, first)
    assert torch.equal(model.received["0.classifier.bias"], others[0].classifier.bias)


@pytest.mark.parametrize("options", [{}, CAPTURING], ids=["plain", "capturing"])
def test_both_executors_ask_the_same_model(make, options):
    side, ends = Distilled(), []
    for executor, given in ((LoopExecutor, {}), (FastExecutor, options)):
        plan = schedule(learning_rate=0.01, local_epochs=3)
        runner, clients, weights = make(executor, "cnn", 17, plan=plan, **given)
        for round in range(2):
            tasks = [Task(client, weights, side.memory(client)) for client in clients]
            updates = runner.local_updates(tasks, side, round, "training")
            weights = updates[round].weights
        assert runner.usage.fallbacks == []
        ends.append(updates)
    for one, other in zip(*ends, strict=True):
        close(one.weights, other.weights, 1e-4)
        assert (one.forward, one.backward) == (other.forward, other.backward)
        asked = float(one.memory["asked"].sum())
        assert (one.forward, one.backward) == (3 * asked, 2 * asked)


def test_a_memory_knows_the_round_and_the_number_of_classes(tmp_path, monkeypatch):
    seen = []

    def memory(self, client, federation):
        seen.append((federation.round, federation.classes))
        return {}

    monkeypatch.setattr(METHODS.get("fedavg", "test"), "memory", memory)
    federation, _ = run_on_digits("fedavg", tmp_path, rounds=3)
    assert seen == [(round, 10) for round in range(3) for _ in range(5)]
    assert federation.round == 2


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        ({}, [1.5, 1, 1.5, 1.5]),
        ({"pseudo_label_view": "batch"}, [1.5, 1, 2, 2]),
        ({"pseudo_label_view": "batch", "centroid_update": "epoch"}, [2.5, 2, 3, 3]),
        ({"centroid_update": "epoch", "pseudo_labels": "naive"}, [2.5, 2, 2.5, 2.5]),
    ],
    ids=["default", "batch", "epoch", "naive"],
)
def test_rofl_asks_it_on_both_executors_alike(options, counted, data, tmp_path):
    """Two rounds without and two with pseudo-labels, each of two epochs on augmented images, in
    replayed steps of two clients by turns. ``counted`` is how often each round shows an image to a
    network, as a multiple of how often it is learnt.
    """
    torch.set_default_dtype(torch.float64)
    method = {"name": "rofl", "pseudo_label_round": 3, "forget_ramp_rounds": 2, **options}
    plan = {**SETTING["schedule"], "rounds": 4, "local_epochs": 2}
    ends = []
    for executor, given in (("loop", {}), ("fast", {"slots": 2, "capturing": RecordedGraphs})):
        spec = spec_of(method, schedule=plan)
        federation, server, client = federation_of(spec, data, tmp_path, executor, **given)
        checkpoint = Checkpoint(tmp_path / "run.pt", {}, every=math.inf)
        simulate(federation, server, client, checkpoint, lambda line: None)
        ends.append(federation)
    loop, quick = ends
    assert quick.executor.usage.fallbacks == []
    assert quick.executor.usage.captured > quick.executor.usage.eager
    close(loop.weights, quick.weights, 1e-6)
    close({"": loop.state["centroids"]}, {"": quick.state["centroids"]}, 1e-6)
    for one, other in zip(loop.records.clients, quick.records.clients, strict=True):
        assert one.keys() == other.keys()
        late = one["round"] >= 3
        assert ("pseudo_label_accuracy" in one) == late
        if late:
            assert one["pseudo_label_accuracy"] == pytest.approx(other["pseudo_label_accuracy"])
            assert one["pseudo_label_accuracy"] > 0
    passes = [row["samples_forward"] / row["samples_backward"] for row in loop.records.rounds]
    assert passes == pytest.approx(counted, rel=5e-3)
    assert passes == [r["samples_forward"] / r["samples_backward"] for r in quick.records.rounds]
