"""Label smoothing (Szegedy et al., 2016): every class gets a share of the target."""

from torch import Tensor
from torch.nn import functional

import noisyfl.method as fl


@fl.METHODS.register("label_smoothing")
class LabelSmoothing(fl.ClientSide):
    """Cross-entropy with (1 - epsilon) one-hot + epsilon / classes in the place of a label."""

    reference = (
        "Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016, "
        "Section 7; for label noise: Lukasik et al., Does Label Smoothing Mitigate Label Noise?, "
        "ICML 2020"
    )

    epsilon: float = fl.option(0.1, doc="share that all classes are given", at_least=0, at_most=1)

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        return functional.cross_entropy(
            logits, target, reduction="none", label_smoothing=self.epsilon
        )
