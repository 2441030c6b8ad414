"""Defects of the path on a GPU, each planted alone: the check that is named beside it fails."""

import inspect
import textwrap
from collections import Counter

import pytest
import torch

from gpu_checks import (
    check_method,
    check_normalized,
    check_pixels,
    check_products,
    check_streams,
)
from noisyfl.checks.small_run import Failed
from noisyfl.data.augmentation import augment
from noisyfl.simulation import fast, losses
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.losses import cross_entropy
from noisyfl.simulation.optimizer import Optimizer
from noisyfl.simulation.slot import StreamSlot

pytestmark = pytest.mark.slow


def edited(owner, name, line, other):
    """What plants a function of which one line reads otherwise."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(line) == 1, f"{name} no longer has the line {line}"
    space = dict(inspect.unwrap(function).__globals__)
    exec("from __future__ import annotations\n" + source.replace(line, other), space)
    return owner, name, space[name]


def read_on_the_host(self, logits, target):
    return cross_entropy(logits, target) * (1 + logits.detach().mean().item())


def on_the_host(self, logits, target):
    return cross_entropy(logits, target) * torch.ones(len(target), device="cpu")


def count_in_python(self, logits, target, times=Counter()):  # noqa: B006  (that is the defect)
    times["loss"] += 1
    return cross_entropy(logits, target) * (1 + times["loss"] / 10)


OTHERS_WORK = "another stream may still be"
DEFECTS = {
    "a round that does not wait for what came before": (
        (StreamSlot, "open", lambda slot: None),
        (check_streams, "fedavg", OTHERS_WORK),
    ),
    "a round that nothing waits for": (
        (StreamSlot, "close", lambda slot: None),
        (check_streams, "fedavg", OTHERS_WORK),
    ),
    "temporary tensors that do not wait for the slot": (
        edited(StreamSlot, "_on_default_stream", "self.close()", "pass"),
        (check_streams, "fedavg", OTHERS_WORK),
    ),
    "a slot that does not wait for temporary tensors": (
        edited(StreamSlot, "_on_default_stream", "self.open()", "pass"),
        (check_streams, "fedavg", OTHERS_WORK),
    ),
    "an evaluation that returns its graph's own tensors": (
        edited(
            StreamSlot,
            "outputs",
            "Outputs(replay.result.logits.clone(), replay.result.features.clone())",
            "replay.result",
        ),
        (check_method, "fedavg", "test_"),
    ),
    "a distance without biases": (
        edited(
            losses,
            "squared_distance_at_once",
            "list(weights)",
            "[name for name in weights if 'bias' not in name]",
        ),
        (check_method, "fedprox", "not close"),
    ),
    "pixels over a number of Python's": (
        edited(augment, "normalize", "div_(full)", "div_(255)"),
        (check_pixels, "", "grey levels are others"),
    ),
    "TF32 left on": (
        edited(LoopExecutor, "__init__", 'schedule.precision == "tf32"', "True"),
        (check_products, "", "they are .* off"),
    ),
    "batches that are left on the host": (
        (fast, "to_device", lambda tensor, device: tensor),
        (check_method, "fedavg", "synchronizing .* places on the host"),
    ),
    "extras that are left on the host": (
        (FastExecutor, "_all_steps", lambda executor, values: [*map(torch.as_tensor, values)]),
        (check_method, "mixup", "synchronizing|same device"),
    ),
    "batches that the host waits for": (
        (fast, "to_device", lambda tensor, device: tensor.to(device)),
        (check_method, "fedavg", "synchronizing .* a copy from one device to the other"),
    ),
    "a graph that keeps the labels of its capture": (
        edited(
            StreamSlot,
            "step",
            "replay.load(inputs)",
            'replay.load({**inputs, "target": replay.inputs["target"]})',
        ),
        (check_method, "fedavg", "ends with other weights|not close"),
    ),
    "numbers that are all the first step's": (
        edited(FastExecutor, "_batches", "values[step] for", "values[0] for"),
        (check_method, "josrc", "not close"),
    ),
    "memory as long as the first client's": (
        edited(
            FastExecutor,
            "launch",
            "1 << (longest - 1).bit_length()",
            "len(tasks[0].client)",
        ),
        (check_method, "elr", "size of tensor"),
    ),
    "a loss that the host reads": (
        (ClientSide, "losses", read_on_the_host),
        (check_method, "fedavg", "synchronizing .*: _local_scalar_dense at .*test_planted"),
    ),
    "a loss that mixes devices": (
        (ClientSide, "losses", on_the_host),
        (check_method, "fedavg", "same device.* mul at"),
    ),
    "a number of Python's that is another one in each step": (
        (ClientSide, "losses", count_in_python),
        (check_method, "fedavg", "ends with other weights"),
    ),
    "a learning rate that stays that of the capture": (
        edited(
            Optimizer,
            "_sgd",
            "torch._foreach_mul(gradients, self.rate)",
            "torch._foreach_mul(gradients, self.schedule.learning_rate)",
        ),
        (check_method, "fedavg", "ends with other weights|not close"),
    ),
    "a check without the buffers of batch normalisation": (
        edited(StreamSlot, "_mutable_tensors", '"buffers": list(self.networks.buffers()),', ""),
        (check_normalized, "fedavg", "not close"),
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect, data, tmp_path, monkeypatch):
    (owner, name, other), (check, method, message) = DEFECTS[defect]
    monkeypatch.setattr(owner, name, other)
    with pytest.raises((AssertionError, RuntimeError, Failed), match=message):
        check({"name": method}, data, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "check", [check_normalized, check_pixels, check_products], ids=lambda c: c.__name__
)
def test_the_other_checks_hold(check, data, tmp_path, monkeypatch):
    """The rest is held to in test_executors.py and test_streams.py, for every method."""
    check({"name": "fedavg"}, data, tmp_path, monkeypatch)
