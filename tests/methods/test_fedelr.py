"""FedELR's running mean, beside ELR's; its vectors are in conformance."""

import math

import pytest
import torch

from noisy_digits import run_on_digits
from noisyfl.simulation.outputs import Outputs
from noisyfl.simulation.updates import Batch
from vectors import method


def mean_after(name, saids):
    """The running mean of a sample of two classes, after these logits in turn."""
    memory = {"targets": torch.zeros(1, 2)}
    for said in saids:
        batch = Batch((torch.tensor([said]),), torch.tensor([0]), torch.tensor([1]), {}, memory)
        method(name).loss(lambda images: Outputs(images, images), batch)
    return memory["targets"][0].tolist()


def test_the_running_mean_is_nearly_what_was_said_last():
    first, last = [20.0, 0.0], [0.0, 20.0]
    assert mean_after("fedelr", [first, last]) == pytest.approx([0.09, 0.9], abs=1e-3)
    assert mean_after("elr", [first, last]) == pytest.approx([0.21, 0.3], abs=1e-3)


def test_its_regulariser_weighs_two():
    logits, memory = torch.zeros(1, 2), {"targets": torch.tensor([[0.5, 0.5]])}
    batch = Batch((logits,), torch.tensor([0]), torch.tensor([1]), {}, memory)
    found = method("fedelr").loss(lambda images: Outputs(images, images), batch)
    assert found.item() == pytest.approx(math.log(2) + 2 * math.log(1 - 0.5))


@pytest.mark.slow
def test_it_learns_noisy_digits_and_keeps_the_means_of_participants(tmp_path):
    federation, accuracies = run_on_digits("fedelr", tmp_path, rounds=5)
    assert accuracies[-1] > 0.75
    for client in federation.clients:
        means = client.state["targets"].sum(1)
        assert torch.allclose(means, torch.ones_like(means), atol=1e-3)
