"""A checkpoint's file, and what else may lie in its place."""

import random
from types import SimpleNamespace

import pytest
import torch

from noisyfl.simulation.checkpoint import Checkpoint

KEY = {"spec": "0123", "source": "4567", "torch": "2"}


def federation(value):
    """What a checkpoint reads and writes of a federation, with a value in all of it."""
    return SimpleNamespace(
        executor=SimpleNamespace(device=torch.device("cpu")),
        weights={"weight": torch.full((20, 30), value)},
        state={"centroids": torch.full((3,), value)},
        clients=[
            SimpleNamespace(labels=torch.full((40,), int(value)), state={"losses": [value]})
            for _ in range(3)
        ],
        records=SimpleNamespace(rounds=[{"round": int(value)}], clients=[], slots={}),
    )


def content(of):
    return (
        of.weights["weight"].tolist(),
        of.state["centroids"].tolist(),
        [(client.labels.tolist(), client.state) for client in of.clients],
        (of.records.rounds, of.records.clients, of.records.slots),
    )


@pytest.fixture
def path(tmp_path):
    """A checkpoint after five rounds."""
    path = tmp_path / "run.pt"
    Checkpoint(path, KEY, 0, lambda line: None).after_round(5, federation(2.0))
    return path


def restored(path):
    """A fresh federation after a restore, and what that says."""
    fresh = federation(1.0)
    rounds, line = Checkpoint(path, KEY, 0).restore(fresh)
    return fresh, rounds, line


def test_what_was_saved_is_restored(path):
    fresh, rounds, line = restored(path)
    assert (rounds, line) == (5, "resuming after round 5")
    assert content(fresh) == content(federation(2.0))


def test_a_resumed_run_keeps_on_the_host_what_was_there(path, monkeypatch):
    """Without a GPU: what a file has of the third one lands on the device ``meta``."""
    saved = federation(2.0)
    for client in saved.clients:
        client.state = {"kept on the host": {"0.weight": torch.ones(5)}, "answer": torch.ones(3)}
    on_gpu = [saved.weights["weight"], saved.state["centroids"]]
    on_gpu += [client.state["answer"] for client in saved.clients]
    there = {tensor.data_ptr() for tensor in on_gpu}
    with monkeypatch.context() as patch:
        patch.setattr(
            torch.serialization,
            "location_tag",
            lambda storage: "cuda:3" if storage.data_ptr() in there else "cpu",
        )
        Checkpoint(path, KEY, 0, str).after_round(5, saved)
    fresh = federation(1.0)
    fresh.executor.device = torch.device("meta")
    assert Checkpoint(path, KEY, 0).restore(fresh) == (5, "resuming after round 5")
    assert fresh.weights["weight"].device.type == "meta"
    assert fresh.state["centroids"].device.type == "meta"
    for client in fresh.clients:
        assert client.state["answer"].device.type == "meta"
        assert client.state["kept on the host"]["0.weight"].device.type == "cpu"
        assert client.labels.device.type == "cpu"


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
            assert content(fresh) == content(federation(2.0))
        else:
            refused += 1
            assert line.endswith("starting over")
            assert content(fresh) == content(federation(1.0))
    assert refused > 100


def test_a_bit_of_a_tensor_is_named_and_the_file_set_aside(path):
    whole = bytearray(path.read_bytes())
    whole[whole.index(torch.full((8,), 2.0).numpy().tobytes()) + 3] ^= 1
    path.write_bytes(whole)
    _, rounds, line = restored(path)
    assert rounds == 0
    aside = path.with_suffix(".damaged")
    assert line.startswith("checkpoint damaged (")
    assert line.endswith(f" does not fit its checksum); set aside as {aside}; starting over")
    assert not path.exists()
    assert path.with_suffix(".damaged").read_bytes() == whole


@pytest.mark.parametrize("strange", [[1, 2], {"weights": {}}, "text", {"key": KEY, "rounds": 3}])
def test_a_file_with_something_else_is_set_aside(path, strange):
    torch.save(strange, path)
    fresh, rounds, line = restored(path)
    assert (rounds, "it is not what a run saves" in line) == (0, True)
    assert content(fresh) == content(federation(1.0))
    assert path.with_suffix(".damaged").exists()


@pytest.mark.parametrize("bytes_", [b"", b"half a checkpoint"])
def test_a_file_that_is_no_archive_is_set_aside(path, bytes_):
    path.write_bytes(bytes_)
    _, rounds, line = restored(path)
    assert (rounds, "File is not a zip file" in line) == (0, True)
