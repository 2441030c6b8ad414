"""FedDecorr (Shi et al., ICLR 2023): the features of a batch are to be uncorrelated."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

import noisyfl.method as fl

LEAST_VARIANCE = 1e-8
"""Added to a feature's variance before it is divided by (official code)."""


@fl.METHODS.register("feddecorr")
class FedDecorr(fl.ClientSide):
    """Cross-entropy + beta ||K||_F^2 / d^2, where K is the correlation matrix of the d features of
    a batch.

    The features of the n images, the input of the last layer, are shifted to mean 0 and scaled to
    variance 1, each over the batch: Z, [n, d]. Then K = Z^T Z / n. The code's penalty differs, see
    the option ``penalty``.
    """

    reference = (
        "Shi et al., Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous "
        "Federated Learning, ICLR 2023"
    )

    beta: float = fl.option(0.1, doc="weight of the penalty", at_least=0)
    penalty: Literal["correlations", "products"] = fl.option(
        "correlations",
        doc="correlations: the mean square of K (paper); products: that of Z^T Z off the diagonal, "
        "divided by n (code), which is about n times as large",
    )

    variants: ClassVar = {"official": {"penalty": "products"}}

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """See the class. A batch of one image has no correlations."""
        outputs = model(batch.images)
        supervised = fl.cross_entropy(outputs.logits, batch.target).mean()
        if len(batch.images) == 1:
            return supervised
        return supervised + self.beta * self.correlation(outputs.features)

    def correlation(self, features: Tensor) -> Tensor:
        """The penalty, a scalar.

        Args:
            features: [n, d] of at least two images.
        """
        count, width = features.shape
        centred = features - features.mean(0)
        scaled = centred / (LEAST_VARIANCE + features.var(0)).sqrt()
        squares = (scaled.T @ scaled).square()
        if self.penalty == "correlations":
            return squares.mean() / count**2
        beside = squares.sum() - squares.diagonal().sum()
        return beside / (width * (width - 1)) / count
