"""MaskedOptim (Jiang et al., 2025): FedELC, held near the given labels only where their losses are
small, with a geometric median of the local models.
"""

from __future__ import annotations

import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.coteaching import smallest
from noisyfl.methods.fedelc import FedELC

SMALLEST = 1e-5
"""The least distance that Weiszfeld's algorithm divides by; it also ends at the first step shorter
than this (code).
"""


@fl.METHODS.register("masked_optim")
class MaskedOptim(FedELC):
    """Of a noisy client's batch only the samples with the smallest losses hold their label logits
    near the given labels, and what it sends is between the received model and its own. Each tensor
    of the global model is the geometric median of the local ones', without regard to their sizes.
    """

    reference = (
        "Jiang et al., Robust Federated Learning against Noisy Clients via Masked Optimization, "
        "arXiv 2506.02079, 2025"
    )

    warm_up_rounds: int = fl.option(
        30, doc="rounds before noisy clients are found", at_least=1, share_of=("rounds", 120)
    )
    entropy_weight: float = fl.option(
        0.1, doc="beta: weight of the predictions' entropy", at_least=0
    )
    small_loss_share: float = fl.option(
        0.8, doc="share of a batch, rounded down, that is held near the given labels", at_least=0,
        at_most=1,
    )  # fmt: skip
    received_share: float = fl.option(
        0.2, doc="share of the received model in what a noisy client sends", at_least=0, below=1
    )
    median_steps: int = fl.option(10, doc="most steps of Weiszfeld's algorithm", at_least=1)

    def pull_strength(self, losses: Tensor) -> Tensor:
        """1 for the samples with the smallest losses, else 0."""
        count = fl.round_down(self.small_loss_share * len(losses))
        return smallest(losses, count).to(losses.dtype)

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Merge labels with the local models' predictions as in FedELC, and only then average noisy
        clients' models with the received one.
        """
        super().after_updates(round, updates, federation)
        for update in updates:
            if self.correcting(update.client, round):
                shares = [self.received_share, 1 - self.received_share]
                update.weights = fl.average([federation.weights, update.weights], shares)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class; counters are taken from the first model."""
        models = [update.weights for update in fl.nonempty(updates)]
        medians: fl.Weights = {}
        for name in fl.numbers(models[0]):
            tensors = torch.stack([model[name].reshape(-1) for model in models])
            equal = tensors.new_ones(len(models))
            median, _ = fl.geometric_median(tensors, equal, self.median_steps, SMALLEST, SMALLEST)
            medians[name] = median.view(models[0][name].shape)
        return {**models[0], **medians}
