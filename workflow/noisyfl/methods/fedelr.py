"""FedELR (Pu et al., Neural Networks 2025): early-learning regularisation on every client."""

from __future__ import annotations

from typing import ClassVar

import noisyfl.method as fl
from noisyfl.methods.elr import EarlyLearning


@fl.METHODS.register("fedelr")
class FedELR(EarlyLearning):
    """ELR's loss, with a running mean that is nearly the last epoch's prediction, so that clients
    stay in the early phase of their training, in which models of clients agree.
    """

    reference = (
        "Pu et al., FedELR: When Federated Learning Meets Learning with Noisy Labels, "
        "Neural Networks 2025"
    )
    revision = 1

    target_momentum: float = fl.option(
        0.1, doc="beta: what the running mean keeps in an epoch", at_least=0, below=1
    )
    weight: float = fl.option(2.0, doc="lambda, of the regulariser", at_least=0)

    variants: ClassVar = {}
