"""The layout that a run takes where nothing was measured."""

import pytest
import torch

from noisyfl.simulation import fast, layout
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.layout import suits_channels_last
from noisyfl.simulation.usage import Usage
from recorded_graphs import RecordedGraphs
from small_executors import made

IMAGES = torch.zeros(6, 1, 8, 8)


def model():
    return made(torch.device("cpu"), FastExecutor, "cnn", 8, 1, channels_last=False)[0].networks


def refused(work):
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


@pytest.mark.parametrize(
    ("precision", "contiguous", "last", "chosen"),
    [
        ("float32", 1.0, 0.97, False),
        ("float32", 1.0, 0.90, True),
        ("tf32", 0.97, 1.0, True),
        ("bfloat16", 0.90, 1.0, False),
    ],
)
def test_the_usual_layout_is_left_for_one_that_is_clearly_faster(
    monkeypatch, precision, contiguous, last, chosen
):
    times = {False: contiguous, True: last}
    monkeypatch.setattr(layout, "_seconds", lambda *given: times[given[-1]])
    usage = Usage()
    assert suits_channels_last(model(), IMAGES, precision, None, usage) is chosen
    assert usage.fallbacks == []


@pytest.mark.parametrize("capture", [None, RecordedGraphs()])
def test_a_trial_leaves_the_model_as_it_is(capture):
    networks, usage = model(), Usage()
    before = {name: value.clone() for name, value in networks.state_dict().items()}
    suits_channels_last(networks, IMAGES, "float32", capture, usage)
    assert not networks.channels_last
    assert all(weight.grad is None for weight in networks.parameters())
    assert all(value.equal(before[name]) for name, value in networks.state_dict().items())
    assert usage.fallbacks == []


def test_a_trial_that_fails_is_written_down():
    usage = Usage()
    assert suits_channels_last(model(), IMAGES, "tf32", refused, usage)
    assert usage.fallbacks == [
        "layouts could not be tried, and the usual one is taken: RuntimeError: operation not "
        "permitted when stream is capturing"
    ]


def test_a_gpu_is_asked_unless_the_layout_is_given(monkeypatch):
    asked = []

    class OnAGpu(FastExecutor):
        def __init__(self, *given, **options):
            super().__init__(*given[:-1], torch.device("cuda"), **options)

        def _new_slot(self, networks):
            return None

    def suits(networks, images, precision, capture, usage):
        asked.append((tuple(images.shape), precision, type(capture)))
        return True

    monkeypatch.setattr(fast, "suits_channels_last", suits)
    cpu = torch.device("cpu")
    for given, expected in ((None, True), (False, False)):
        options = {"capturing": RecordedGraphs, "channels_last": given}
        runner, _, _ = made(cpu, OnAGpu, "cnn", 8, 1, **options)
        assert runner.networks.channels_last is expected
    assert asked == [((6, 1, 8, 8), "float32", RecordedGraphs)]
