"""Slots on streams of their own: nothing races. That a wait that is missing is found, see
test_planted_defects.py.
"""

import pytest
import torch

from gpu_checks import check_streams
from noisyfl.checks.fake_gpu import DEVICE, FakeGpu
from small_runs import CLIENT_SIDES, VARIED, by_name
from streams import Race, Streams


@pytest.mark.parametrize("method", by_name(CLIENT_SIDES, [], VARIED))
def test_no_method_races(method, data, tmp_path, monkeypatch):
    check_streams(method, data, tmp_path, monkeypatch)


def test_streams_are_told_apart():
    with FakeGpu() as gpu, Streams(gpu):
        one, other = torch.cuda.Stream(), torch.cuda.Stream()

        with torch.cuda.stream(one):
            values = torch.ones(3, device=DEVICE)
        with torch.cuda.stream(other), pytest.raises(Race, match=r"add reads .* be writing"):
            values + 1
        with pytest.raises(Race, match=r"_to_copy reads .* be writing"):
            values.tolist()
        other.wait_stream(one)
        with torch.cuda.stream(other):
            values + 1
        with torch.cuda.stream(one), pytest.raises(Race, match=r"add_ writes .* be using"):
            values.add_(1)
        del values
        with torch.cuda.stream(one), pytest.raises(Race, match=r"is given memory .* be using"):
            torch.ones(3, device=DEVICE)


def test_who_waits_for_a_stream_may_go_on():
    with FakeGpu() as gpu, Streams(gpu):
        one, other = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(one):
            values = torch.ones(3, device=DEVICE)
        other.wait_stream(one)
        with torch.cuda.stream(other):
            values.add_(1)
        one.wait_stream(other)
        with torch.cuda.stream(one):
            values.add_(1)
            del values
            assert torch.ones(3, device=DEVICE).tolist() == [1, 1, 1]
