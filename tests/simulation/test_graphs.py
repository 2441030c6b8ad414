"""Captured steps: when there are any, what they are held against, and what happens if they fail."""

import dataclasses
import itertools
import math
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from noisyfl.checks.recorded_graphs import RecordedGraphs
from noisyfl.methods import METHODS
from noisyfl.runs.train import EXECUTORS
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.executor import LoopExecutor, NoRoom
from noisyfl.simulation.fast import FastExecutor, distribute
from noisyfl.simulation.graphs import Replay, differing
from noisyfl.simulation.rounds import retry_in_smaller_groups, simulate
from noisyfl.simulation.updates import Task
from small_executors import close, counts, made, schedule
from small_runs import CLIENT_SIDES, VARIED, by_name, federation_of, name_of, spec_of

CPU = torch.device("cpu")


def fast(**options):
    plan = schedule(**options.pop("plan", {}))
    return made(CPU, FastExecutor, "cnn", 8, 1, plan=plan, capturing=RecordedGraphs, **options)


def train(runner, clients, start, side, rounds=1, memory=lambda client: {}):
    """The weights after some rounds of all clients, each from the same model."""
    updates = []
    for round in range(rounds):
        tasks = [Task(client, start, memory(client)) for client in clients]
        updates = runner.local_updates(tasks, side, round, "training")
    return updates


# ---------------------------------------------------------------- when a step is captured


def test_a_step_is_captured_once_it_has_come_often_enough():
    runner, clients, start = fast(slots=1, plan={"local_epochs": 3})
    side = ClientSide()
    train(runner, [clients[1]], start, side)
    assert runner.usage.fallbacks == []
    # Two steps of six samples an epoch: one runs as it is, the other five are replayed.
    assert (runner.usage.eager, runner.usage.captured) == (1, 5)
    # Client 0 brings a step of three samples an epoch too, the first of which runs as it is.
    train(runner, [clients[0]], start, side)
    assert (runner.usage.eager, runner.usage.captured) == (2, 5 + 9 + 2)


def test_a_slot_profits_from_what_others_have_warmed_up():
    runner, clients, start = fast(slots=2, plan={"local_epochs": 3})
    side = ClientSide()
    train(runner, [clients[1]], start, side, rounds=2)
    assert runner.usage.eager == 1
    train(runner, [clients[1], clients[1]], start, side)
    # The new slot's first step gives it the libraries' workspaces, and the key is known.
    assert runner.usage.eager == 2
    assert runner.usage.fallbacks == []


def test_a_step_that_is_not_repeatable_is_not_captured():
    class Other(ClientSide):
        name: ClassVar[str] = "other"

        def epoch(self, client, turn):
            return dataclasses.replace(super().epoch(client, turn), repeatable=False)

    runner, clients, start = fast(slots=1, plan={"local_epochs": 3})
    train(runner, [clients[1]] * 3, start, Other())
    assert runner.usage.captured == 0


@pytest.mark.parametrize("plan", [{}, {"momentum": 0.0}, {"momentum": 0.0, "optimizer": "adam"}])
def test_what_a_step_does_not_read_makes_no_new_graph(plan):
    """Local epochs and rates change from round to round; a rate is read where it lies."""

    class Longer(ClientSide):
        name: ClassVar[str] = "longer"

        def local_schedule(self, round, schedule):
            rate = schedule.learning_rate / (1 + round)
            return schedule.model_copy(update={"local_epochs": 1 + round, "learning_rate": rate})

    runner, clients, start = fast(slots=1, plan=plan)
    update = train(runner, [clients[1]], start, Longer(), rounds=5)[0]
    assert runner.usage.fallbacks == []
    assert runner.usage.eager == 1
    assert len(runner.usage.runs) == 1
    loop, clients, start = made(CPU, LoopExecutor, "cnn", 8, 1, plan=schedule(**plan))
    plain = train(loop, [clients[1]], start, Longer(), rounds=5)[0]
    close(update.weights, plain.weights, 1e-4)


def test_the_largest_clients_come_first_and_slots_have_equally_much_to_do():
    assert distribute([5, 9, 1, 7, 2, 6], 2) == [[1, 0, 2], [3, 5, 4]]
    assert distribute([3, 3], 2) == [[0], [1]]
    assert distribute([4, 4, 4], 1) == [[0, 1, 2]]


# ---------------------------------------------------------------- few steps run as they are


class Counted(FastExecutor):
    """Counts how steps are launched, and takes none."""

    def _new_slot(self, networks):
        slot = super()._new_slot(networks)
        slot._descend = lambda side, batch, learns: None
        slot._captured_step = lambda capture, key, side, batch, learns: replay_of(slot, key)
        slot._check = lambda replay, *_: count(self.usage)
        return slot


def replay_of(slot, key):
    replay = Replay({}, lambda: None)
    slot._graphs.add(key, replay)
    return replay


def count(usage):
    usage.captured += 1


MANY_ROUNDS = {
    "rounds": 27,
    "participation": 0.25,
    "local_epochs": 5,
    "batch_size": 20,
    "learning_rate": 0.05,
    "decay_every": 14,
    "evaluate_every": 27,
}
# Its second pass has as many samples as their losses say, unless there is no such pass.
REPEATABLE = [
    {**row, "own_forward": False} if row.get("name") == "selfie" else row for row in CLIENT_SIDES
]


# The clean and the other samples of a batch end in any two sizes, most of which come early.
ROUNDS = {"dividemix-fedrn": 40}


@pytest.mark.parametrize("method", by_name(REPEATABLE, [], VARIED))
def test_few_steps_run_as_they_are(method, data, tmp_path, monkeypatch):
    """Of 16 clients of unequal sizes, over 27 or 40 rounds."""
    monkeypatch.setitem(EXECUTORS, "fast", Counted)
    monkeypatch.setattr(torch, "_foreach_copy_", lambda *_: None)
    rounds = ROUNDS.get(name_of(method), MANY_ROUNDS["rounds"])
    plan = {**MANY_ROUNDS, "rounds": rounds, "evaluate_every": rounds}
    spec = spec_of(method, partition="dirichlet(alpha=0.5, clients=16)", schedule=plan)
    federation, server, client = federation_of(
        spec, data, tmp_path, "fast", slots=16, capturing=RecordedGraphs
    )
    simulate(federation, server, client, Checkpoint(tmp_path / "run.pt", {}, math.inf), str)
    usage = federation.executor.usage
    assert usage.eager + usage.captured > 500
    assert usage.eager < 0.05 * (usage.eager + usage.captured)


# ---------------------------------------------------------------- what is planted is found


def one_client(side, memory=lambda client: {}, rounds=3):
    """The usage, and the weights beside those of the loop."""
    ends = []
    for executor, options in (
        (FastExecutor, {"slots": 1, "capturing": RecordedGraphs}),
        (LoopExecutor, {}),
    ):
        runner, clients, start = made(
            CPU, executor, "cnn", 8, 1, plan=schedule(local_epochs=3), **options
        )
        ends.append((runner.usage, train(runner, [clients[1]], start, side(), rounds, memory)[0]))
    (usage, update), (_, plain) = ends
    assert counts(update) == counts(plain)
    return usage, update, plain


class ReadsOnTheHost(ClientSide):
    """Its loss needs a number that the host has to wait for."""

    name: ClassVar[str] = "reads_on_the_host"

    def loss(self, model, batch):
        return super().loss(model, batch) * (1 + batch.images.mean().item())


class BakesIn(ClientSide):
    """Its loss has a number that Python has computed, another one each time."""

    name: ClassVar[str] = "bakes_in"

    times: ClassVar = Counter()

    def loss(self, model, batch):
        self.times["loss"] += 1
        return super().loss(model, batch) * (1 + self.times["loss"] / 10)


class MovesItsBuffer(ClientSide):
    """Its loss puts another tensor where its memory was."""

    name: ClassVar[str] = "moves_its_buffer"

    def loss(self, model, batch):
        batch.memory["seen"] = batch.memory["seen"] + 1
        return super().loss(model, batch)


def test_a_host_read_in_a_loss_is_found():
    usage, update, plain = one_client(ReadsOnTheHost)
    (line,) = usage.fallbacks
    assert line.startswith("a step of reads_on_the_host on 6x1x8x8 images cannot be captured")
    assert "_local_scalar_dense" in line
    assert line.endswith("such work is no longer replayed")
    assert usage.captured == 0
    close(update.weights, plain.weights, 1e-4)


def test_a_value_that_python_has_baked_in_is_found():
    usage, _, _ = one_client(BakesIn)
    (line,) = usage.fallbacks
    assert "of a step of bakes_in on 6x1x8x8 images ends with other weights" in line
    assert usage.captured <= 1


def test_a_buffer_that_moves_is_found():
    usage, update, plain = one_client(MovesItsBuffer, lambda client: {"seen": torch.zeros(())})
    (line,) = usage.fallbacks
    assert "ends with other memory than the work itself" in line
    close(update.weights, plain.weights, 1e-4)
    assert update.memory == plain.memory


def test_a_step_that_fails_leaves_the_others_captured():
    side = METHODS.build("fedavg", "test")
    runner, clients, start = fast(slots=1, plan={"local_epochs": 4})
    capture, wrong = RecordedGraphs(), []

    def fails_once(work):
        if not wrong:
            wrong.append(work)
            raise RuntimeError("CUDA error: operation not permitted\nmore")
        return capture(work)

    runner._slots[0]._capture = fails_once
    updates = train(runner, [clients[0]], start, side, rounds=2)
    assert runner.usage.fallbacks == [
        "a step of fedavg on 6x1x8x8 images cannot be captured as a CUDA graph (CUDA error: "
        "operation not permitted); such work is no longer replayed"
    ]
    # Of three whole steps and one of three samples an epoch, the latter are captured.
    assert runner.usage.captured == 8 - 1
    assert runner.facts() == {
        "precision": "float32",
        "layout": "contiguous",
        "slots": 1,
        "captured_steps": 8 - 1,
        "eager_steps": 24 + 1,
        "fallbacks": runner.usage.fallbacks,
    }
    loop, clients, start = made(CPU, LoopExecutor, "cnn", 8, 1, plan=schedule(local_epochs=4))
    close(updates[0].weights, train(loop, [clients[0]], start, side, 2)[0].weights, 1e-4)


class Beside(RecordedGraphs):
    """Replays end beside the work itself, each in its own place or all in the same one."""

    def __init__(self, places):
        self.places, self.weights = iter(places), []

    def __call__(self, work):
        again = super().__call__(work)

        def replay():
            again()
            for weight in self.weights:
                weight.data.mul_(1 + next(self.places))

        return replay


@pytest.mark.parametrize(("places", "found"), [([0.01, 0.02], False), ([0.01, 0.01], True)])
def test_a_replay_may_tremble(places, found):
    runner, clients, start = fast(slots=1, plan={"local_epochs": 3})
    slot = runner._slots[0]
    slot._capture = Beside(itertools.cycle(places))
    slot._capture.weights = list(slot.model.weights.values())[:1]
    train(runner, [clients[1]], start, ClientSide())
    assert bool(runner.usage.fallbacks) == found


def test_outcomes_differ_where_a_share_of_the_change_does():
    before = {"weights": [torch.ones(3), torch.zeros(2)], "memory": []}
    after = {"weights": [torch.ones(3) * 1.01, torch.full((2,), 1e-9)], "memory": []}
    near = {"weights": [torch.ones(3) * 1.010005, torch.zeros(2)], "memory": []}
    far = {"weights": [torch.ones(3) * 1.0102, torch.full((2,), 1e-9)], "memory": []}
    assert differing(before, after, near, near, 1e-3) == []
    assert differing(before, after, far, far, 1e-3) == ["weights"]
    assert differing(before, after, far, after, 1e-3) == []  # as far as that, it trembles
    lost = {"weights": [torch.full((3,), torch.nan), torch.zeros(2)], "memory": []}
    assert differing(before, lost, lost, lost, 1e-3) == []
    for again in (lost, after):
        assert differing(before, after, lost, again, 1e-3) == ["weights"]


@pytest.mark.slow
def test_dropout_is_replayed_as_it_falls():
    runner, clients, start = made(
        CPU, FastExecutor, "cnn9", 28, 1, plan=schedule(local_epochs=4), capturing=RecordedGraphs
    )
    train(runner, [clients[2]], start, ClientSide())
    assert runner.usage.fallbacks == []
    assert runner.usage.captured == 4 - 1


# ---------------------------------------------------------------- a device without room


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (torch.AcceleratorError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
    ],
)
def test_only_a_lack_of_memory_is_answered_with_smaller_groups(error, repeated):
    said, errors = [], [error]

    def work():
        if errors:
            raise errors.pop()
        return "done"

    federation = SimpleNamespace(
        snapshot=lambda: lambda: None, executor=SimpleNamespace(use_less_memory=said.append)
    )
    with nullcontext() if repeated else pytest.raises(type(error)):
        assert retry_in_smaller_groups(federation, work) == "done"
    assert said == ([str(error)] if repeated else [])


@pytest.mark.slow
def test_a_round_without_room_is_repeated_by_half_as_many_slots(data, tmp_path):
    spec = spec_of("fedprox")
    ends = []
    for room in (2, 6):
        federation, server, client = federation_of(spec, data, tmp_path, "fast", slots=6)
        executor = federation.executor
        train_in = executor.local_updates

        def local_updates(tasks, *rest, executor=executor, room=room, train_in=train_in):
            if min(len(tasks), executor._most_slots) > room:
                train_in(tasks, *rest)
                raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 MiB")
            return train_in(tasks, *rest)

        executor.local_updates = local_updates
        simulate(federation, server, client, Checkpoint(tmp_path / "run.pt", {}, math.inf), str)
        ends.append(federation)
    small, large = ends
    assert small.executor.usage.fallbacks == [
        "no room for 3 clients at once, 1 from now on: CUDA out of memory. Tried to allocate 20.00 "
        "MiB"
    ]
    assert small.executor.facts()["slots"] == 1
    assert all(torch.equal(value, large.weights[k]) for k, value in small.weights.items())
    for one, other in zip(small.records.rounds, large.records.rounds, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_one_client_without_room_ends_the_run():
    runner, _, _ = fast(slots=1)
    with pytest.raises(NoRoom, match="no room on the device for one client at a time: asked 20"):
        runner.use_less_memory("asked 20 of 10")
