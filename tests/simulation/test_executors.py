"""The loop against a loop written for these tests alone, and the fast executor against the loop."""

import dataclasses
import json
import math
import signal
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

import recorded_runs
from gpu_checks import GPUS, fit_briefly
from noisyfl.checks.fast import PARTITION, a_gpu, compare_with_loop
from noisyfl.checks.recorded_graphs import RecordedGraphs
from noisyfl.checks.small_run import rounds_of, spec_of
from noisyfl.core.randomness import stream, torch_seed
from noisyfl.data.augmentation.augment import normalize
from noisyfl.data.augmentation.mild import apply_mild, draw_mild
from noisyfl.models import MODELS, build_model, fewest_images
from noisyfl.simulation import fast
from noisyfl.simulation.checkpoint import Checkpoint, Interrupted
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.clients import Client
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor, step_ranges
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.model import channels_last
from noisyfl.simulation.outputs import Pass
from noisyfl.simulation.updates import Epoch, Task, batches
from noisyfl.specs.catalogue import methods
from small_executors import SEED, SIZES, close, counts, schedule
from small_runs import METHODS as ROWS
from small_runs import by_name, name_of

# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize(("model", "side"), [("cnn", 20), ("cnn9", 28), ("resnet18", 8)])
@pytest.mark.slow
def test_the_loop_is_plain_training(make, model, side, monkeypatch):
    """Against torch's own optimizer and nothing of the simulation but its random streams."""
    # Else differences in the last digits would grow with each step of the deep networks.
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    runner, clients, start = make(LoopExecutor, model, side)
    (update,) = runner.local_updates([Task(clients[0], start)], ClientSide(), 3, "training")

    plain = build_model(model, (side, side, 3), 4, SEED).to(runner.device)
    plain.load_state_dict({name.removeprefix("0."): value for name, value in start.items()})
    plain.train()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.5, weight_decay=1e-3)
    losses = []
    for epoch in range(2):
        order = stream(SEED, "batches", 3, 0, epoch).permutation(21)
        draws = runner.view.draw("weak", 21, stream(SEED, "augmentation", 3, 0, epoch))
        torch.manual_seed(torch_seed(SEED, "dropout", 3, 0, epoch))
        for first in range(0, 21, 6):
            rows = clients[0].rows[torch.from_numpy(order[first : first + 6])]
            images = runner.view.show(
                "weak", runner.train.pixels[rows], draws.part(first, first + 6)
            )
            loss = functional.cross_entropy(plain(images), runner.train.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    # A GPU's kernels may sum in another order each time.
    exactly = 0 if runner.device.type == "cpu" else 1e-5
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(update.weights[f"0.{name}"], value, rtol=0, atol=exactly)
    assert update.loss == pytest.approx(np.mean(losses))
    assert (update.steps, update.forward, update.backward, update.size) == (8, 42, 42, 21)


def test_a_last_single_sample_is_not_counted(make):
    runner, clients, start = make(LoopExecutor)
    tasks = [Task(client, start) for client in clients]
    updates = runner.local_updates(tasks, ClientSide(), 0, "training")
    # Sizes 21, 12, 7, 16, 13 in batches of 6: 7 and 13 leave one sample out in each of two epochs.
    assert [update.forward for update in updates] == [42, 24, 12, 32, 24]
    assert [update.size for update in updates] == list(SIZES)


@pytest.mark.parametrize("executor", [LoopExecutor, FastExecutor])
def test_a_single_sample_sits_out_where_a_network_cannot_be_trained_on_it(make, executor):
    runner, (client, *_), start = make(executor, "resnet18", 8)
    runner.networks.fewest = fewest_images(MODELS.build("resnet18", "model"), (8, 8, 3), 4)
    rows = client.rows[:1]
    alone = Client(0, rows, client.labels[:1], client.labels[:1])
    (update,) = runner.local_updates([Task(alone, start)], ClientSide(), 0, "training")
    assert (update.steps, update.forward, update.size) == (0, 0, 1)
    assert np.isnan(update.loss)
    for name, value in update.weights.items():
        torch.testing.assert_close(value, start[name], rtol=0, atol=0)


# ---------------------------------------------------------------- the fast executor

CAPTURING = {"slots": 2}
"""Clients by turns, and steps that are replayed on tensors that stay where they are."""
if not torch.cuda.is_available():
    CAPTURING["capturing"] = RecordedGraphs


@pytest.mark.parametrize("options", [{}, CAPTURING], ids=["plain", "capturing"])
@pytest.mark.parametrize(
    ("model", "side", "channels"),
    [
        ("cnn", 8, 1),
        ("cnn", 17, 1),
        pytest.param("cnn2conv", 17, 1, marks=pytest.mark.slow),
        pytest.param("cnn4conv", 17, 3, marks=pytest.mark.slow),
        pytest.param("resnet18", 4, 3, marks=pytest.mark.storm),
    ],
)
def test_fast_equals_loop(make, model, side, channels, options, monkeypatch):
    torch.set_default_dtype(torch.float64)
    if side == 4:
        monkeypatch.setattr(fast, "SMALL_IMAGE", 0)
    # A deep network multiplies a difference in the last digit by ten a step: few steps.
    epochs, rounds, tolerance = (1, 1, 1e-7) if model == "resnet18" else (2, 2, 1e-9)
    plan = schedule(learning_rate=0.01, local_epochs=epochs)
    results = []
    for executor, given in ((LoopExecutor, {}), (FastExecutor, options)):
        runner, clients, weights = make(executor, model, side, channels, plan=plan, **given)
        for round in range(rounds):
            tasks = [Task(client, weights) for client in clients]
            updates = runner.local_updates(tasks, ClientSide(), round, "training")
            weights = updates[round].weights
        assert runner.usage.fallbacks == []
        requests = [Pass(clients[0], weights, "look"), Pass(clients[3], weights, "b", view="plain")]
        outputs = [*runner.passes(requests, 2), runner.test_outputs(weights, 0)]
        results.append((updates, outputs))
    (updates, outputs), (others, answers) = results
    for one, other in zip(updates, others, strict=True):
        close(one.weights, other.weights, tolerance)
        assert other.loss == pytest.approx(one.loss, rel=tolerance)
        assert counts(one) == counts(other)
    for one, other in zip(outputs, answers, strict=True):
        close(vars(one), vars(other), 10 * tolerance)


@pytest.mark.slow
def test_dropout_falls_on_the_same_features(make):
    weights = []
    for executor in (LoopExecutor, FastExecutor):
        runner, clients, start = make(executor, "cnn9", 28, plan=schedule(learning_rate=0.001))
        (update,) = runner.local_updates([Task(clients[2], start)], ClientSide(), 0, "training")
        weights.append(update.weights)
    close(*weights, 1e-4)
    runner.seed += 1
    (update,) = runner.local_updates([Task(clients[2], start)], ClientSide(), 0, "training")
    with pytest.raises(AssertionError):
        close(weights[0], update.weights, 1e-4)


class Mild(ClientSide):
    """Writes down what each step is shown."""

    name: ClassVar[str] = "mild"

    shown: ClassVar = []

    def epoch(self, client, turn):
        return dataclasses.replace(super().epoch(client, turn), views=("mild",))

    def loss(self, model, batch):
        self.shown.append(batch.images.clone())
        return super().loss(model, batch)


@pytest.mark.parametrize(
    ("executor", "options"),
    [(LoopExecutor, {}), (FastExecutor, {"capturing": lambda: None})],  # which looks at each loss
    ids=["loop", "fast"],
)
def test_a_mild_view_has_a_draw_for_each_step(make, executor, options):
    runner, clients, start = make(executor, **options)
    side = Mild()
    side.shown.clear()
    runner.local_updates([Task(clients[0], start)], side, 3, "training")
    order = stream(SEED, "batches", 3, 0, 0).permutation(21)
    sizes = [6, 6, 6, 3]
    rng = stream(SEED, "augmentation", 3, 0, 0)
    pixels = runner.train.pixels[clients[0].rows[torch.from_numpy(order)]]
    images = apply_mild(pixels, draw_mild(sizes, rng, runner.view.shape))
    expected = normalize(images, runner.view.mean, runner.view.std).split(sizes)
    for one, other in zip(side.shown[:4], expected, strict=True):
        assert torch.equal(one, other)


class Everything(ClientSide):
    """Two networks that learn by turns, two views, a memory, extras, and looks at the model."""

    networks = 2
    name: ClassVar[str] = "everything"

    def epoch(self, client, turn):
        of_both = [turn.outputs("looking", network, "weak").logits for network in (0, 1)]
        losses = cross_entropy(of_both[0] + of_both[1], client.labels)
        # A subset that changes every epoch, at least two samples.
        kept = losses.argsort()[: max(2, len(client) * 2 // 3)].cpu().numpy()
        steps = batches(kept, turn.batch_size, turn.random_stream("batches"))
        share = [turn.random_stream("share").uniform()] * len(steps)
        index = [turn.random_stream("mixup").permutation(len(step)) for step in steps]
        soft = functional.one_hot(client.labels, 4).double()
        extras = {"share": share, "mixup_index": index}
        learns = ("0.", "1.", "", "1.classifier")[turn.number % 4]
        return Epoch(steps, soft, extras, views=("strong", "plain", "weak"), learns=learns)

    def memory(self, client, federation=None):
        return {
            "seen": torch.zeros(len(client)),
            "centre": torch.full((4,), float(client.id)),
            "alike": torch.zeros(()),
        }

    def loss(self, model, batch):
        first, plain, second = batch.views
        batch.memory["alike"] += (first == second).all()
        guess = model.look(plain, 1).logits.softmax(1)
        mixed = batch["share"] * first + (1 - batch["share"]) * first[batch["mixup_index"]]
        one, two = model(mixed, 0), model(second, 1)
        target = 0.5 * batch.target + 0.5 * guess
        batch.memory["seen"][batch.positions] += 1
        batch.memory["centre"].mul_(0.9).add_(guess.mean(0), alpha=0.1)
        pull = (two.features.mean() - batch.memory["centre"].mean()).square()
        return -(target * (one.logits + two.logits).log_softmax(1)).sum(1).mean() + pull


@pytest.mark.parametrize("options", [{}, CAPTURING], ids=["plain", "capturing"])
@pytest.mark.slow
def test_whatever_a_client_side_may_ask_for(make, options):
    torch.set_default_dtype(torch.float64)
    plan = schedule(local_epochs=4, learning_rate=0.02)
    side = Everything()
    results = []
    for executor, given in ((LoopExecutor, {}), (FastExecutor, options)):
        runner, clients, weights = make(executor, side=17, networks=2, plan=plan, **given)
        for round in range(2):
            tasks = [Task(client, weights, side.memory(client)) for client in clients]
            updates = runner.local_updates(tasks, side, round, "training")
            weights = updates[0].weights
        assert runner.usage.fallbacks == []
        # The memory that a task came with is left alone, and every step wrote to the update's.
        assert all(float(task.memory["seen"].sum()) == 0 for task in tasks)
        results.append(updates)
    for one, other in zip(*results, strict=True):
        close(one.weights, other.weights, 1e-8)
        close(one.memory, other.memory, 1e-8)
        assert float(one.memory["alike"]) == 0
        looked = 2 * 4 * len(one.client)  # with both networks, before each epoch
        assert float(one.memory["seen"].sum()) * 3 + looked == one.forward
        assert one.backward * 3 == (one.forward - looked) * 2
        assert counts(one) == counts(other)


class Forgetful(ClientSide):
    """Starts every epoch without momentum, or only the first one."""

    name: ClassVar[str] = "forgetful"

    fresh: bool

    def epoch(self, client, turn):
        steps = np.split(np.arange(12), 2)
        return Epoch(steps, client.labels, views=("plain",), fresh_momentum=self.fresh)


@pytest.mark.parametrize("executor", [LoopExecutor, FastExecutor])
def test_momentum_may_start_anew_in_every_epoch(make, executor):
    """Then two epochs are two local updates of one."""
    ends = []
    for fresh, epochs in ((True, (2,)), (True, (1, 1)), (False, (2,))):
        weights = None
        for count in epochs:
            runner, clients, start = make(executor, plan=schedule(local_epochs=count))
            task = Task(clients[0], weights or start)
            (update,) = runner.local_updates([task], Forgetful(fresh=fresh), 0, "training")
            weights = update.weights
        ends.append(weights)
    close(ends[0], ends[1], 1e-6)
    with pytest.raises(AssertionError):
        close(ends[0], ends[2], 1e-6)


def test_images_of_one_channel_are_shown_as_channels_last():
    images = torch.rand(3, 1, 20, 20)
    shown = channels_last(images)
    assert torch.equal(shown, images)
    output = functional.conv2d(shown, torch.rand(8, 1, 3, 3))
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_parts_are_whole_steps():
    assert list(step_ranges([4, 4, 4, 3], 8)) == [(0, 8), (8, 15)]
    assert list(step_ranges([9, 2, 2], 8)) == [(0, 9), (9, 13)]
    assert list(step_ranges([5], 8)) == [(0, 5)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision(make, precision):
    plan = schedule(precision=precision)
    exact, clients, start = make(LoopExecutor, plan=schedule())
    other, _, _ = make(LoopExecutor, plan=plan)
    one, two = (runner.test_outputs(start, 0).logits for runner in (exact, other))
    assert two.dtype == torch.float32
    assert torch.equal(one, two) == (precision == "float32")
    torch.testing.assert_close(one, two, rtol=0.05, atol=0.05)
    (update,) = other.local_updates([Task(clients[0], start)], ClientSide(), 0, "training")
    assert all(value.dtype != torch.bfloat16 for value in update.weights.values())
    assert math.isfinite(update.loss)


# ---------------------------------------------------------------- every method


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("method", by_name(ROWS, ["fedavg"]))
def test_every_method_on_a_gpu(method, gpu, data, tmp_path, monkeypatch):
    fit_briefly(monkeypatch, 30)  # all fits of these runs have converged after 25
    loop, _ = compare_with_loop(method, data, tmp_path, gpu)
    recorded = json.loads(recorded_runs.FILE.read_text(encoding="utf-8"))[name_of(method)]
    assert recorded_runs.figures_of(loop) == pytest.approx(recorded, rel=1e-6)


@pytest.mark.parametrize("method", by_name(ROWS, ["fedcorr"]))
def test_every_method_goes_on_on_a_gpu_where_a_cpu_left_it(method, data, tmp_path, monkeypatch):
    fit_briefly(monkeypatch, 4)
    spec = spec_of(method, partition=PARTITION)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "after_round", stop_after(3))
        with pytest.raises(Interrupted):
            rounds_of(spec, data, tmp_path, "fast")
    with a_gpu("fake") as (device, options):
        federation = rounds_of(spec, data, tmp_path, "fast", device, **options)
        rounds = federation.records.rounds
        assert all(value.is_cuda for value in federation.weights.values())
    assert not (tmp_path / "run.damaged").exists()
    assert [row["round"] for row in rounds] == [*range(1, len(rounds) + 1)]
    assert np.isfinite(rounds[-1]["test_loss"])


def stop_after(last):
    """A run is asked to end after so many rounds."""

    def after_round(self, rounds, federation):
        if rounds == last:
            self._ask_to_end(signal.SIGTERM, None)

    return after_round


def test_every_registered_method_is_among_them():
    assert {row.get("name") for row in ROWS} >= set(methods())
