"""Mean absolute error (Ghosh et al., 2017): a loss that symmetric label noise cannot mislead."""

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("mae")
class MeanAbsoluteError(fl.ClientSide):
    """Sum over the classes of |softmax - one-hot label|, which is 2 (1 - p) of the label's
    probability p.
    """

    reference = (
        "Ghosh et al., Robust Loss Functions under Label Noise for Deep Neural Networks, AAAI 2017"
    )

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        return 2 * (1 - (-fl.cross_entropy(logits, target)).exp())
