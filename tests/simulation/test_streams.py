"""Slots on streams of their own: nothing races, and a wait that is missing is found."""

import math

import pytest
import torch

from noisyfl.runs.train import EXECUTORS
from noisyfl.simulation import slot
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.rounds import simulate
from small_runs import CLIENT_SIDES, by_name, federation_of, spec_of
from streams import Stream, Streams

OFTEN = ("rofl", "scaffold")


class OnStreams(FastExecutor):
    """On a CPU, with slots that believe to have streams."""

    def _new_slot(self, networks):
        made = super()._new_slot(networks)
        made._stream = Stream()
        return made


def races(method, digits, tmp_path, monkeypatch):
    """Of a few rounds."""
    monkeypatch.setitem(EXECUTORS, "fast", OnStreams)
    spec = spec_of(method)
    federation, server, client = federation_of(
        spec, digits, tmp_path, "fast", slots=3, capturing=lambda: None
    )
    with Streams(monkeypatch) as streams:
        simulate(federation, server, client, Checkpoint(tmp_path / "run.pt", {}, math.inf), str)
    return streams.found


@pytest.mark.parametrize("method", by_name(CLIENT_SIDES, OFTEN))
def test_no_method_races(method, digits, tmp_path, monkeypatch):
    assert races(method, digits, tmp_path, monkeypatch) == set()


@pytest.mark.parametrize("missing", ["open", "close"])
def test_a_missing_wait_is_found(missing, digits, tmp_path, monkeypatch):
    monkeypatch.setattr(slot.StreamSlot, missing, lambda self: None)
    assert races("fedavg", digits, tmp_path, monkeypatch)


def test_streams_are_told_apart(monkeypatch):
    one, other = Stream(), Stream()
    with Streams(monkeypatch) as streams:
        with torch.cuda.stream(one):
            values = torch.ones(3)
        with torch.cuda.stream(other):
            values + 1
        assert streams.found == {"add reads what another stream may still be writing"}
        streams.found.clear()
        with torch.cuda.stream(one):
            values.add_(1)
        assert streams.found == {"add_ writes what another stream may still be using"}
        streams.found.clear()
        one.wait_stream(other)
        other.wait_stream(one)
        with torch.cuda.stream(other):
            values + 1
        assert streams.found == set()
        del values
        with torch.cuda.stream(one):
            torch.ones(3)
        assert streams.found == {"ones is given memory that another stream may still be using"}
