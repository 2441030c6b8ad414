"""Bootstrapping (Reed et al., 2015): a label is mixed with the prediction."""

from typing import ClassVar, Literal

from torch import Tensor

import noisyfl.method as fl

BETA = {"soft": 0.95, "hard": 0.8}
"""The paper's beta for each form of the prediction."""


@fl.METHODS.register("bootstrapping")
class Bootstrapping(fl.ClientSide):
    """Cross-entropy with beta label + (1 - beta) prediction in the place of a label.

    The prediction is the softmax output (``soft``, Eq. 6), whose part of the loss is then the
    entropy, through both factors of which a gradient goes; or its largest class (``hard``, Eq. 8).
    """

    reference = (
        "Reed et al., Training Deep Neural Networks on Noisy Labels with Bootstrapping, "
        "ICLR 2015 workshop"
    )

    form: Literal["soft", "hard"] = fl.option("hard", doc="what the prediction is")
    beta: float | None = fl.option(
        None, doc="share of the label; null: 0.95 if soft, 0.8 if hard", at_least=0, at_most=1
    )

    variants: ClassVar = {"soft": {"form": "soft"}}

    def losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """See the class."""
        beta = BETA[self.form] if self.beta is None else self.beta
        if self.form == "hard":
            own = fl.cross_entropy(logits, logits.argmax(1))
        else:
            log_probability = logits.log_softmax(1)
            own = -(log_probability.exp() * log_probability).sum(1)
        return beta * fl.cross_entropy(logits, target) + (1 - beta) * own
