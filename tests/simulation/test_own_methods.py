"""What a user's own method may do, and what it is told where it may not."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from noisy_digits import SETTING, run_on_digits
from noisyfl.core.options import BadInput, option
from noisyfl.methods import METHODS
from noisyfl.models import MODELS
from noisyfl.models.cnn import HalvingPool
from noisyfl.models.model import BodyNet, Model
from noisyfl.runs.final_model import FinalModel
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor, draws_numbers
from noisyfl.simulation.model import Networks
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.updates import Task
from outside import Sound
from small_executors import made, schedule

pytestmark = pytest.mark.usefixtures("forgotten")

FEW = {**SETTING["schedule"], "rounds": 3, "local_epochs": 1}


def run(method, folder, **more):
    METHODS.register("mine")(method)
    return run_on_digits("mine", folder, SETTING, **{**FEW, **more})


class InPlaceServer(Sound):
    def aggregate(self, updates, federation):
        for name, value in federation.weights.items():
            value.copy_(updates[0].weights[name])
        return federation.weights


class InPlaceLabels(Sound):
    def after_updates(self, round, updates, federation):
        for update in updates:
            update.client.labels[0] = 1


class InPlaceState(Sound):
    def after_updates(self, round, updates, federation):
        if round == 0:
            federation.state["mean"] = torch.zeros(3)
        else:
            federation.state["mean"].add_(1)


class InPlaceList(Sound):
    def after_updates(self, round, updates, federation):
        federation.state.setdefault("history", []).append(torch.zeros(3))


@pytest.mark.parametrize(
    ("method", "round", "place"),
    [
        (InPlaceList, 2, "federation.state"),
        (InPlaceServer, 1, "federation.weights"),
        (InPlaceLabels, 1, "client.labels"),
        (InPlaceState, 2, "federation.state"),
    ],
)
def test_what_outlives_a_round_is_not_written_to_in_place(tmp_path, method, round, place):
    message = rf"written in place to .* in {place} in round {round}, expected a new one"
    with pytest.raises(BadInput, match=message):
        run(method, tmp_path)


class InInferenceMode(Sound):
    def after_updates(self, round, updates, federation):
        with torch.inference_mode():
            federation.state["mean"] = torch.zeros(3) + round


def test_tensors_of_inference_mode_may_be_kept(tmp_path):
    assert run(InInferenceMode, tmp_path)[0].state["mean"].tolist() == [2, 2, 2]


class LargeBatches(Sound):
    def local_schedule(self, round, schedule):
        size = 10_000 if round == 2 else schedule.batch_size
        return super().local_schedule(round, schedule).model_copy(update={"batch_size": size})

    def after_updates(self, round, updates, federation):
        for update in updates:
            federation.report(update.client, steps=update.steps)


def test_a_local_schedule_may_have_a_batch_size_of_its_own(tmp_path):
    federation, _ = run(LargeBatches, tmp_path)
    rows = federation.records.clients
    steps = {n: {row["steps"] for row in rows if row["round"] == n} for n in (1, 2, 3)}
    assert steps[3] == {1}
    assert min(steps[2]) > 1


class EmptySteps(Sound):
    """Filters every batch by a mask that leaves nothing of some."""

    def epoch(self, client, turn):
        epoch = super().epoch(client, turn)
        epoch.steps[0] = epoch.steps[0][:0]
        return epoch


def test_empty_steps_are_left_out(tmp_path):
    federation, _ = run(EmptySteps, tmp_path)
    assert np.isfinite([row["train_loss"] for row in federation.records.rounds]).all()


class UncountedStart(Sound):
    def counted_updates(self, round, federation):
        return 0 if round == 0 else super().counted_updates(round, federation)


def test_a_first_round_may_count_no_updates(tmp_path):
    assert len(run(UncountedStart, tmp_path)[1]) == 3


class OwnParticipants(Sound):
    def begin(self, federation):
        federation.state["participants"] = {}

    def after_round(self, round, updates, federation):
        federation.state["participants"] = {**federation.state["participants"], round: len(updates)}


def test_a_method_may_keep_anything_under_any_name(tmp_path):
    federation, _ = run(OwnParticipants, tmp_path)
    assert federation.state["participants"] == {0: 5, 1: 5, 2: 5}


@pytest.mark.parametrize(("base", "name"), [(ClientSide, "size"), (ServerSide, "rounds")])
def test_an_option_has_no_hooks_name(base, name):
    fields = {"__annotations__": {name: int}, name: option(3, doc="of nothing")}
    with pytest.warns(UserWarning, match="shadows an attribute"):
        method = type("Shadowing", (base,), {**fields, "reference": "nobody, 2026"})
    with pytest.raises(BadInput, match=rf"got an option '{name}', which is the name of a hook"):
        METHODS.register("shadowing")(method)


class Aliased(Sound):
    """A loss that puts one of the model's weights into the memory."""

    def memory(self, client, federation):
        return {"before": torch.zeros(64)}

    def loss(self, model, batch):
        batch.memory["before"] = model.weights["0.body.7.bias"].detach()
        return super().loss(model, batch)


def test_what_a_loss_puts_into_the_memory_is_not_written_to():
    losses = []
    for executor in (LoopExecutor, FastExecutor):
        runner, clients, start = made(torch.device("cpu"), executor, plan=schedule(momentum=0.0))
        memory = {"before": torch.zeros(64)}
        tasks = [Task(client, start, memory) for client in clients]
        losses.append([one.loss for one in runner.local_updates(tasks, Aliased(), 0, "training")])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


class Functional(nn.Module):
    def forward(self, images):
        return functional.dropout(images.flatten(1), 0.5, self.training)


@pytest.mark.parametrize(
    ("body", "draws"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 8)), False),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8)), False),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout()), True),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.AlphaDropout()), True),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.RReLU()), True),
        (nn.Sequential(Functional(), nn.Linear(64, 8)), True),
    ],
)
def test_whatever_draws_random_numbers_is_found(body, draws):
    networks = Networks([BodyNet(body, 8, 4)])
    state, weights = torch.get_rng_state(), {k: v.clone() for k, v in networks.state_dict().items()}
    assert draws_numbers(networks, (8, 8, 1)) is draws
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, weights[name]) for name, value in networks.state_dict().items())


class Published(Model):
    """Has an option whose values are not those of the project's own."""

    minimum: ClassVar[int] = 1
    pretrained: str = option("simclr", doc="published weights")

    def build(self, shape, classes):
        height, width, channels = shape
        return BodyNet(nn.Sequential(nn.Flatten()), height * width * channels, classes)

    def pretrain(self, module, files):
        raise AssertionError("the kept weights take their place")


def test_a_kept_model_is_read_without_published_weights():
    MODELS.register("published")(Published)
    of = {"dataset": {"name": "digits"}, "shape": [8, 8, 1], "classes": list("ab")}
    facts = {**of, "model": {"name": "published", "pretrained": "simclr"}}
    weights = {"0.classifier.weight": torch.ones(2, 64), "0.classifier.bias": torch.zeros(2)}
    model = FinalModel(facts, weights)
    assert torch.equal(model.networks.state_dict()["0.classifier.weight"], torch.ones(2, 64))


def test_a_restored_federation_is_in_its_last_round(tmp_path):
    federation, _ = run(Sound, tmp_path)
    saved = Checkpoint(tmp_path / "run.pt", {}, every=0)
    saved.after_round(3, federation)
    federation.round = 0
    Checkpoint(tmp_path / "run.pt", {}, every=0).restore(federation)
    assert federation.round == 2


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (28, 28)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_without_a_gradient_is_torchs(size, layout):
    images = torch.randn(6, 16, *size).contiguous(memory_format=layout)
    images[0, 0, 0, 0], images[1, 1, 1, 1] = float("nan"), float("inf")
    expected = functional.max_pool2d(images, 2)
    with torch.no_grad():
        found = HalvingPool(2)(images)
    assert torch.equal(found.nan_to_num(nan=7e7), expected.nan_to_num(nan=7e7))
    assert found.is_contiguous(memory_format=layout)
