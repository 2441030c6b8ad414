"""ARFL (Fu et al., 2019): local models far from a robust line through all count for less."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import noisyfl.method as fl

AT_ONCE = 2**22
"""The most slopes between two clients' values that are held in memory at once: some 100 MiB."""

FEWEST = 3
"""The fewest clients through whose values a line is laid."""


@fl.METHODS.register("arfl")
class ARFL(fl.ServerSide):
    """Residual-based reweighting (IRLS), as the official code computes it.

    In each coordinate, buffers included, a repeated-median line is laid through the clients' values
    over their ranks. The residuals give each value a confidence; a value with next to none is
    replaced by the line's. The confidences of a client, summed over all coordinates, weight its
    model. Sizes count for nothing. Local models that are not finite are left out.
    """

    reference = (
        "Fu et al., Attack-Resistant Federated Learning with Residual-based Reweighting, "
        "arXiv 1912.11464, 2019"
    )
    cost = fl.Cost(effort=1.5)
    least_participants = FEWEST

    interval: float = fl.option(
        2.0, doc="lambda: width of the interval in which a residual costs no confidence", above=0
    )
    threshold: float = fl.option(
        0.1, doc="delta: confidence below which a value is replaced by the line's", at_least=0
    )

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """See the class; the plain mean where fewer than three clients are left."""
        counted = fl.nonempty(updates)
        names = fl.numbers(federation.weights)
        finite = [u for u in counted if bool(fl.flat(u.weights, names).isfinite().all())]
        if len(finite) < FEWEST:
            return fl.plain_mean(finite or counted)
        models = torch.stack([fl.flat(update.weights, names) for update in finite])
        totals = torch.zeros(len(models), dtype=torch.float64, device=models.device)
        for part in models.split(max(1, AT_ONCE // len(models) ** 2), dim=1):
            values, confidence = reweighted(part.T, self.interval, self.threshold)
            part.copy_(values.T)
            totals += confidence.double().sum(0)
        shares = shares_of(totals)
        for update, share in zip(finite, shares.tolist(), strict=True):
            federation.report(update.client, aggregation_weight=share)
        mean = (models * shares[:, None].to(models.dtype)).sum(0)
        return fl.replaced(finite[0].weights, mean, names)


def reweighted(values: Tensor, interval: float, threshold: float) -> tuple[Tensor, Tensor]:
    """Replace the outliers in some coordinates, and measure how far each value is trusted.

    Args:
        values: [coordinates, clients], at least three clients.
        interval: lambda.
        threshold: delta.

    Returns:
        The values, outliers replaced, and the confidences times their standard deviation over the
        clients, so that a coordinate in which all are trusted equally does not count. Both are
        [coordinates, clients].
    """
    count = values.shape[1]
    ranks = torch.arange(count, dtype=values.dtype, device=values.device)
    ordered, clients = values.sort(dim=1, stable=True)
    slope = repeated_median_slope(ordered)
    line = fl.middle(ordered)[:, None] + slope[:, None] * (ranks - (count - 1) / 2)
    residual = (ordered - line).abs()
    spread = fl.middle(residual.sort(1).values[:, 1:])
    scale = 1.4826 * (1 + 5 / (count - 1)) * spread + 1e-7
    centred = ranks - ranks.mean()
    leverage = 1 / count + centred.square() / centred.square().sum()
    limit = interval * math.sqrt(2 / count) * (1 - leverage).sqrt()
    # A residual of 0 gives an infinite ratio, and full confidence.
    confidence = (limit / (residual / scale[:, None])).clamp(max=1)
    restricted = torch.where(confidence < threshold, line, ordered)
    confidence = confidence * confidence.std(1, keepdim=True)
    # From the order of the values back to that of the clients.
    return (
        torch.empty_like(values).scatter_(1, clients, restricted),
        torch.empty_like(values).scatter_(1, clients, confidence),
    )


def repeated_median_slope(ordered: Tensor) -> Tensor:
    """[coordinates]: the median over i of the median over j of (y_j - y_i) / (j - i).

    Args:
        ordered: [coordinates, clients], ascending; its ranks are the regressor.
    """
    count = ordered.shape[1]
    ranks = torch.arange(count, device=ordered.device)
    others = torch.stack([ranks[ranks != rank] for rank in range(count)])
    slopes = (ordered[:, others] - ordered[:, :, None]) / (others - ranks[:, None])
    return fl.middle(fl.middle(slopes))


def shares_of(totals: Tensor) -> Tensor:
    """Each client's share in the mean, [clients]: its squared total, scaled so that they sum to 1.

    All shares are equal if no coordinate tells the clients apart.
    """
    largest = totals.max()
    squared = torch.where(largest > 0, totals / largest.clamp(min=1e-300), 1.0).square()
    return squared / squared.sum()
