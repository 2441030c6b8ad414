"""Symmetric cross-entropy (Wang et al., 2019): cross-entropy of both, labels and predictions."""

import math

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("sce")
class SymmetricCrossEntropy(fl.ClientSide):
    """alpha CE + beta RCE, where reverse cross-entropy is -A (1 - p) of the label's probability p,
    since log 0 is set to A < 0 (Eqs. 5 to 7).
    """

    reference = (
        "Wang et al., Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019"
    )

    alpha: float = fl.option(0.1, doc="weight of cross-entropy; 6 on CIFAR-100", at_least=0)
    beta: float = fl.option(
        1.0, doc="weight of reverse cross-entropy; 0.1 on CIFAR-100", at_least=0
    )
    label_floor: float = fl.option(
        1e-4, doc="what a label's zeros are raised to (code): A is its logarithm", above=0, below=1
    )

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        forward = fl.cross_entropy(logits, target)
        reverse = -math.log(self.label_floor) * (1 - (-forward).exp())
        return self.alpha * forward + self.beta * reverse
