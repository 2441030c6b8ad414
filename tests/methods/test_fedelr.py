"""FedELR on digits; its vectors are in conformance."""

import pytest
import torch

from noisy_digits import run_on_digits


@pytest.mark.slow
def test_it_learns_noisy_digits_and_keeps_the_means_of_participants(tmp_path):
    federation, accuracies = run_on_digits("fedelr", tmp_path, rounds=5)
    assert accuracies[-1] > 0.75
    for client in federation.clients:
        means = client.state["targets"].sum(1)
        assert torch.allclose(means, torch.ones_like(means), atol=1e-3)
