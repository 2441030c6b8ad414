"""Active passive loss (Ma et al., 2020): a normalised loss plus one that symmetric noise cannot
mislead.
"""

import math
from typing import ClassVar, Literal

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("active_passive")
class ActivePassive(fl.ClientSide):
    """alpha L(label) / (the sum of L over all classes), with cross-entropy or the focal loss as L,
    plus beta MAE or beta RCE, which are 1 - p and -A (1 - p) of the label's probability p.
    """

    reference = (
        "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"
    )

    active: Literal["cross_entropy", "focal"] = fl.option(
        "cross_entropy", doc="loss that is normalised"
    )
    passive: Literal["mae", "rce"] = fl.option("rce", doc="loss that is added")
    alpha: float = fl.option(1.0, doc="weight of the active loss; 10 on CIFAR-100", at_least=0)
    beta: float = fl.option(
        1.0, doc="weight of the passive loss; 0.1 on CIFAR-100, 10 on MNIST with rce", at_least=0
    )
    gamma: float = fl.option(0.5, doc="exponent of 1 - p in the focal loss", at_least=0)
    label_floor: float = fl.option(
        1e-4,
        doc="what a label's zeros are raised to in rce (code): A is its logarithm",
        above=0,
        below=1,
    )

    variants: ClassVar = {
        "nce_mae": {"passive": "mae"},
        "nfl_mae": {"active": "focal", "passive": "mae"},
        "nfl_rce": {"active": "focal"},
    }

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        by_class = -logits.log_softmax(1)
        if self.active == "focal":
            by_class = (1 - (-by_class.detach()).exp()) ** self.gamma * by_class
        active = by_class.gather(1, target[:, None])[:, 0] / by_class.sum(1)
        passive = 1 - (-fl.cross_entropy(logits, target)).exp()
        scale = -math.log(self.label_floor) if self.passive == "rce" else 1.0
        return self.alpha * active + self.beta * scale * passive
