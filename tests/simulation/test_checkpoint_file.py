"""A checkpoint's file, and what else may lie in its place."""

import errno
import math
import os
import random
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from noisyfl.checks.fake_gpu import DEVICE, FakeGpu
from noisyfl.simulation.checkpoint import Checkpoint, Interrupted
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.rounds import NOT_EVALUATED
from small_executors import schedule

KEY = {"spec": "0123", "source": "4567", "torch": "2"}


CLIENTS, ROUNDS = 3, 5


def federation(value):
    """A federation with a value in all that a checkpoint saves, after five rounds."""
    part = SimpleNamespace(
        samples=np.arange(40), given_label=np.full(40, value), true_label=np.full(40, value)
    )
    made = Federation(
        SimpleNamespace(clients=[part] * CLIENTS),
        schedule(participation=0.67),
        0,
        SimpleNamespace(device=torch.device("cpu")),
        {
            "0.classifier.weight": torch.full((4, 30), float(value)),
            "0.batches": torch.tensor(value),
        },
    )
    made.state = {"centroids": torch.full((3,), float(value))}
    for client in made.clients:
        client.state = {"losses": [value]}
    for round in range(ROUNDS):
        made.report(made.clients[value], loss=float(value))
        made.close_round(round, "training", 2, [], (value, value), NOT_EVALUATED, float(value))
    return made


def content(of):
    return (
        {name: value.tolist() for name, value in of.weights.items()},
        of.state["centroids"].tolist(),
        [(client.labels.tolist(), client.state) for client in of.clients],
        (repr(of.records.rounds), of.records.clients, of.records.counted),  # repr: NaN equals NaN
    )


@pytest.fixture
def path(tmp_path):
    """A checkpoint after five rounds."""
    path = tmp_path / "run.pt"
    Checkpoint(path, KEY, 0, lambda line: None).after_round(ROUNDS, federation(2))
    return path


def restored(path):
    """A fresh federation after a restore, and what that says."""
    fresh = federation(1)
    rounds, line = Checkpoint(path, KEY, 0).restore(fresh)
    return fresh, rounds, line


def test_what_was_saved_is_restored(path):
    fresh, checkpoint = federation(1), Checkpoint(path, KEY, 0)
    fresh.records.counted = 99
    assert checkpoint.restore(fresh) == (ROUNDS, "resuming after round 5")
    assert checkpoint.rounds_saved == ROUNDS
    assert content(fresh) == content(federation(2))


def test_a_run_that_ends_within_a_round_goes_on_from_before_it(tmp_path):
    path, under_way = tmp_path / "run.pt", federation(2)
    checkpoint = Checkpoint(path, KEY, math.inf)

    def ended_round():
        under_way.state["noted"] = 1
        under_way.clients[0].state["losses"] = [9]
        under_way.report(under_way.clients[0], loss=9.0)
        under_way.close_round(ROUNDS, "training", 2, [], (9, 9), NOT_EVALUATED, 9.0)
        checkpoint._ask_to_end(signal.SIGTERM, None)

    with pytest.raises(Interrupted), checkpoint.guard(ROUNDS, under_way):
        ended_round()
    fresh, rounds, _ = restored(path)
    assert (rounds, content(fresh)) == (ROUNDS, content(federation(2)))


def test_a_run_asked_to_end_right_after_a_checkpoint_does_not_write_it_again(path, monkeypatch):
    def fail(*arguments):
        raise AssertionError("written again")

    saved = federation(2)
    before, resumed = Checkpoint(path, KEY, 0, str), Checkpoint(path, KEY, 0)
    before.after_round(ROUNDS, saved)
    resumed.restore(saved)
    monkeypatch.setattr(torch, "save", fail)
    for checkpoint in (before, resumed):
        with pytest.raises(Interrupted, match="after round 5"), checkpoint.guard(ROUNDS, saved):
            checkpoint._ask_to_end(signal.SIGTERM, None)


class Pickled:
    """Is pickled as a call of something, with a state."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments, *(() if state is None else (state,)))

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("crafted", "named"),
    [
        # A dtype of objects that is said to hold none: bytes of the file would become pointers.
        (
            Pickled(np.dtype, "O8", False, True, state=(3, "|", None, None, None, -1, -1, 0)),
            "numpy.dtype",
        ),
        (np.arange(3), r"numpy._core.multiarray._reconstruct"),
        (Pickled(os.mkdir, "harm"), "posix.mkdir"),
    ],
)
def test_a_crafted_checkpoint_is_set_aside(path, crafted, named, tmp_path, monkeypatch):
    """Whatever torch is asked to do."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.chdir(tmp_path)
    torch.save({"key": KEY, "rounds": crafted}, path)
    _, rounds, line = restored(path)
    assert rounds == 0
    assert line.startswith(f"checkpoint damaged (it refers to {named}; expected nothing but ")
    assert not (tmp_path / "harm").exists()


def test_a_run_of_other_plugins_starts_over(path):
    fresh = federation(1)
    rounds, line = Checkpoint(path, {**KEY, "plugin mine": "89"}, 0).restore(fresh)
    assert rounds == 0
    assert line.startswith("checkpoint of another plugin mine set aside as ")


HERE, THERE = ({"device": name, "torch": "2.11"} for name in ("x86_64 CPU, 2 cores", "NVIDIA H200"))


def test_a_run_goes_on_on_another_machine_and_says_so(tmp_path):
    path = tmp_path / "run.pt"
    for machine, rounds, earlier in (
        (THERE, 0, []),
        (THERE, ROUNDS, []),
        (HERE, ROUNDS, [{**THERE, "rounds": ROUNDS}]),
        (HERE, ROUNDS, [{**THERE, "rounds": ROUNDS}]),
        (THERE, ROUNDS, [{**THERE, "rounds": ROUNDS}, {**HERE, "rounds": ROUNDS}]),
    ):
        made = federation(1)
        checkpoint = Checkpoint(path, KEY, 0, machine=machine)
        found, line = checkpoint.restore(made)
        assert (found, checkpoint.earlier) == (rounds, earlier)
        checkpoint.after_round(ROUNDS, federation(2))
    there = "trained elsewhere until then (x86_64 CPU, 2 cores, 2.11)"
    assert line == f"resuming after round {ROUNDS}, {there}"


def test_checkpoints_take_a_twentieth_of_the_time(tmp_path, monkeypatch):
    clock, saved = [0.0], []

    def save(content, draft):
        saved.append(clock[0])
        clock[0] += 3.0
        draft.touch()

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(torch, "save", save)
    checkpoint, made = Checkpoint(tmp_path / "run.pt", KEY, 10), federation(2)
    while clock[0] < 200:
        checkpoint.after_round(ROUNDS, made)
        clock[0] += 1.0
    assert saved == [10, 73, 136, 199]  # after ten seconds, and then after sixty


def test_a_resumed_run_keeps_on_the_host_what_was_there(path, monkeypatch):
    """Without a GPU: what a file has of the third one lands on the device ``meta``."""
    saved = federation(2)
    for client in saved.clients:
        client.state = {"kept on the host": {"0.weight": torch.ones(5)}, "answer": torch.ones(3)}
    on_gpu = [saved.state["centroids"]]
    on_gpu += [client.state["answer"] for client in saved.clients]
    there = {tensor.data_ptr() for tensor in on_gpu}
    with monkeypatch.context() as patch:
        patch.setattr(
            torch.serialization,
            "location_tag",
            lambda storage: "cuda:3" if storage.data_ptr() in there else "cpu",
        )
        Checkpoint(path, KEY, 0, str).after_round(ROUNDS, saved)
    fresh = federation(1)
    fresh.executor.device = torch.device("meta")
    assert Checkpoint(path, KEY, 0).restore(fresh) == (ROUNDS, "resuming after round 5")
    assert fresh.state["centroids"].device.type == "meta"
    for client in fresh.clients:
        assert client.state["answer"].device.type == "meta"
        assert client.state["kept on the host"]["0.weight"].device.type == "cpu"
        assert client.labels.device.type == "cpu"


def test_what_a_cpu_saved_is_moved_to_the_gpu_but_for_the_ledger(path):
    saved, shared = federation(2), torch.ones(3)
    for client in saved.clients:
        client.state = {"nested": [{"shared": shared}], "count": 2}
    saved.records.ledger = SimpleNamespace(state={"looks": torch.ones(4)})
    Checkpoint(path, KEY, 0, str).after_round(ROUNDS, saved)
    with FakeGpu():
        fresh = federation(1)
        fresh.executor.device = DEVICE
        fresh.records.ledger = SimpleNamespace(state={})
        assert Checkpoint(path, KEY, 0).restore(fresh) == (ROUNDS, "resuming after round 5")
        kept = [client.state["nested"][0]["shared"] for client in fresh.clients]
        labels = [client.labels for client in fresh.clients]
        moved = [*fresh.weights.values(), fresh.state["centroids"], *labels, *kept]
        assert all(tensor.is_cuda for tensor in moved)
        assert all(tensor is kept[0] for tensor in kept)
        assert not fresh.records.ledger.state["looks"].is_cuda


@pytest.mark.slow
def test_no_flipped_bit_goes_on_with_other_numbers(path):
    """Those in the archive's padding and in its list of files may do no harm."""
    whole, rng = path.read_bytes(), random.Random(3)
    refused = 0
    for _ in range(300):
        flipped = bytearray(whole)
        flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        fresh, rounds, line = restored(path)
        if rounds:
            assert content(fresh) == content(federation(2))
        else:
            refused += 1
            assert line.endswith("starting over")
            assert content(fresh) == content(federation(1))
    assert refused > 100


def test_a_bit_of_a_tensor_is_named_and_the_file_set_aside(path):
    whole = bytearray(path.read_bytes())
    whole[whole.index(torch.full((8,), 2.0).numpy().tobytes()) + 3] ^= 1
    path.write_bytes(whole)
    _, rounds, line = restored(path)
    assert rounds == 0
    aside = path.with_suffix(".damaged")
    assert line.startswith("checkpoint damaged (")
    assert line.endswith(f" does not match its checksum); set aside as {aside}; starting over")
    assert not path.exists()
    assert path.with_suffix(".damaged").read_bytes() == whole


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ESTALE, "Stale file handle"),
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: unspecified launch failure"),
    ],
)
def test_an_error_of_the_machine_leaves_the_checkpoint_where_it_is(path, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", fail)
        with pytest.raises(type(error)):
            restored(path)
    assert restored(path)[1] == ROUNDS


@pytest.mark.parametrize("bytes_", [b"", b"half a checkpoint"])
def test_a_file_that_is_no_archive_is_set_aside(path, bytes_):
    path.write_bytes(bytes_)
    _, rounds, line = restored(path)
    assert (rounds, "File is not a zip file" in line) == (0, True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("labels", [torch.zeros(40)] * 2, "its labels are those of other clients"),
    ],
)
def test_what_does_not_fit_the_federation_is_set_aside(path, name, value, words):
    torch.save({**torch.load(path, weights_only=True), name: value}, path)
    fresh, rounds, line = restored(path)
    assert (rounds, line.endswith("starting over")) == (0, True)
    assert words in line
    assert content(fresh) == content(federation(1))
    assert path.with_suffix(".damaged").exists()
    assert not path.exists()


def fails_after_restoring(path, error):
    """What a round says that ends in an error right after a restore."""
    lines = []
    fresh = federation(1)
    checkpoint = Checkpoint(path, KEY, 0, lines.append)
    assert checkpoint.restore(fresh)[0] == ROUNDS
    with pytest.raises(type(error)), checkpoint.guard(ROUNDS, fresh):
        raise error
    return lines


@pytest.mark.parametrize(
    "error",
    [
        KeyError("of a method"),
        OSError("Stale file handle"),
        MemoryError(),
        Interrupted(),
    ],
)
def test_a_round_that_fails_leaves_the_checkpoint(path, error):
    assert fails_after_restoring(path, error) == []
    assert restored(path)[1] == ROUNDS


def test_a_signal_within_torchs_code_is_no_error_of_torchs(path, monkeypatch):
    """load_state_dict makes errors of its own of any ``Exception`` while it copies."""
    checkpoint, network = Checkpoint(path, KEY, 0, lambda line: None), torch.nn.Linear(2, 1)
    fresh, weights = federation(1), network.state_dict()
    checkpoint.restore(fresh)

    def signalled(self, other):
        checkpoint._ask_to_end(signal.SIGTERM, None)

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "copy_", signalled)
        with pytest.raises(Interrupted), checkpoint.guard(ROUNDS, fresh):
            network.load_state_dict(weights)
    assert restored(path)[1] == ROUNDS
