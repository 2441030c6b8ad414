"""FedLSR's loss: as the official code says of small numbers, and with probabilities by hand."""

import pytest
import torch
from test_robust_losses import LABELS, LOGITS, batch_of, client_of, turn

from noisyfl.simulation.outputs import Outputs
from vectors import method

OTHER = torch.tensor([[0.5, 1.0, -0.5], [0.3, 0.9, -0.3], [1.0, -1.0, 0.5], [0.2, 1.5, 0.0]])


class InTurn:
    """Answers one view after the other."""

    def __init__(self, *logits):
        self.logits = list(logits)

    def __call__(self, images, network=0):
        return Outputs(self.logits.pop(0), torch.empty(0))


def loss(gamma, **options):
    batch = batch_of(share=torch.tensor(0.3), gamma=torch.tensor(gamma))
    batch.views = (batch.images, batch.images)
    return method("fedlsr", **options).loss(InTurn(LOGITS, OTHER), batch)


@pytest.mark.parametrize(
    ("gamma", "expected"), [(0.0, 1.6607645), (0.1, 1.6696106), (0.4, 1.6961491)]
)
def test_the_loss_is_the_official_codes(gamma, expected):
    """Recorded: Sprinter1999/FedELC, b5a8563, fl_models/update.py, LocalUpdateFedLSR.forward_pass
    (the same arithmetic as Sprinter1999/FedLSR's notebook), with the mixture's share 0.3, gamma_e
    0.6 and an inverse temperature of 3.
    """
    assert float(loss(gamma)) == pytest.approx(expected, abs=1e-5)


def test_probabilities_by_hand():
    first, second = LOGITS.softmax(1), OTHER.softmax(1)
    mixture = (0.3 * first + 0.7 * second).square()
    sharpened = mixture / mixture.sum(1, keepdim=True)
    expected = -sharpened[range(4), LABELS].log().mean()
    told = [(3 * logits).softmax(1).clamp(1e-6) for logits in (LOGITS, OTHER)]
    for part in told:
        expected = expected - 0.5 * 0.6 * (part * part.log()).sum(1).mean()
    found = loss(0.0, loss_form="cross_entropy")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_gamma_grows_and_shares_are_drawn():
    side = method("fedlsr", ramp_rounds=4, gamma=0.8)
    epochs = [side.epoch(client_of(20), turn(round)) for round in (0, 1, 4, 9)]
    assert [epoch.extras["gamma"][0] for epoch in epochs] == pytest.approx([0, 0.2, 0.8, 0.8])
    assert len({share for epoch in epochs for share in epoch.extras["share"]}) == 16
    assert epochs[0].views == ("plain", "mild")
