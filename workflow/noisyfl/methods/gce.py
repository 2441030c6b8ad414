"""Generalised cross-entropy (Zhang and Sabuncu, 2018): between cross-entropy and MAE."""

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("gce")
class GeneralisedCrossEntropy(fl.ClientSide):
    """L_q = (1 - p^q) / q of the label's probability p (Eq. 6), without the truncated loss."""

    reference = (
        "Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with "
        "Noisy Labels, NeurIPS 2018"
    )

    q: float = fl.option(0.7, doc="towards 0 it is cross-entropy, at 1 MAE", above=0, at_most=1)

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        return (1 - (-self.q * fl.cross_entropy(logits, target)).exp()) / self.q
