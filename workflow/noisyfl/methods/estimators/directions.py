"""Mixtures of directions: von Mises-Fisher clusters on a sphere, and a background.

z and z' [width] are a sample's directions in two views. A cluster g has a direction mu_g, a
concentration kappa_g and a share beta_g, the background a share pi; B [classes, clusters] says
where the samples of each class lie. The host never waits for any of it, so a loss may use it.

- Concentration of directions in d dimensions whose mean has length R: R (d - R^2) / (1 - R^2).
- Responsibilities: gamma_g in proportion to (beta_g exp(r kappa_g mu_g . z))^(1/T), that of the
  background to pi^(1/T); all sum to 1. r is the concentration of z and z' over its running median,
  from 0.2 to 2. The clusters' normalising constants are left out, as in FedRG's code.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from noisyfl.simulation.estimates import product

PARTS = ("directions", "concentrations", "shares", "background", "evidence", "median")
"""Names of the tensors of a mixture, see :func:`first_mixture`."""

CONCENTRATION = (0.5, 100.0)
"""Smallest and largest concentration of a cluster."""

BACKGROUND = (0.001, 0.2)
"""Smallest and largest share of the background."""

RATIO = (0.2, 2.0)
"""Smallest and largest r."""

Mixture = Mapping[str, Tensor]


def first_mixture(clusters: int, like: Tensor, rng: np.random.Generator) -> dict[str, Tensor]:
    """A mixture before its first step.

    Args:
        like: [classes, width], whose dtype and device it has.
        rng: draws the directions.

    Returns:
        ``directions`` [clusters, width], ``concentrations`` [clusters], ``shares`` [clusters];
        ``background``, its share; ``evidence`` [classes, clusters], B; and ``median``, the running
        one of the concentrations of two views, 0 before the first step.
    """
    drawn = torch.from_numpy(rng.normal(size=(clusters, like.shape[1]))).to(like)
    return {
        "directions": unit(drawn),
        "concentrations": like.new_full((clusters,), 5.0),
        "shares": like.new_full((clusters,), 1 / clusters),
        "background": like.new_full((), 0.05),
        "evidence": like.new_full((len(like), clusters), 1 / len(like)),
        "median": like.new_zeros(()),
    }


def responsibilities(
    mixture: Mixture, first: Tensor, second: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """How much each cluster explains of each sample, [n, clusters], and the background [n]; and the
    median, which moves first.

    Args:
        mixture: see :func:`first_mixture`.
        first: [n, width], z.
        second: [n, width], z'.
        temperature: T.
    """
    agreement = concentration(((first + second) / 2).norm(dim=1), first.shape[1])
    before = mixture["median"]
    median = agreement.sort().values[(len(agreement) - 1) // 2]
    median = torch.where(before > 0, 0.9 * before + 0.1 * median, median)
    ratio = (agreement / (median + 1e-8)).clamp(*RATIO)
    each = product(first, mixture["directions"].T) * mixture["concentrations"]
    each = each * ratio[:, None] + (mixture["shares"] + 1e-12).log()
    background = (mixture["background"] + 1e-12).log().expand(len(first), 1)
    joint = (torch.cat([background, each], dim=1) / temperature).softmax(1)
    return joint[:, 1:], joint[:, 0], median


def scores(mixture: Mixture, gamma: Tensor, labels: Tensor) -> Tensor:
    """[n], from 0 to 1: how far samples of responsibilities [n, clusters] lie where those of their
    labels [n] do.
    """
    return (mixture["evidence"][labels] * gamma).sum(1)


def moved(
    mixture: Mixture,
    first: Tensor,
    gamma: Tensor,
    background: Tensor,
    counts_of_class: Tensor,
    *,
    momentum: float,
    cluster_prior: float,
    class_prior: float,
) -> dict[str, Tensor]:
    """A mixture, but for its median, after a step.

    Args:
        mixture: before the step.
        first: [n, width], z.
        gamma: [n, clusters]; with ``background`` [n] they sum to 1.
        background: see ``gamma``.
        counts_of_class: [n, classes], for how much a sample counts in each class's row of B.
        momentum: how far it moves towards what the samples say.
        cluster_prior: samples that are added to all clusters' counts, and a tenth of it to the
            background's.
        class_prior: samples that are added to each entry of B.
    """
    sums, counts, beyond = product(gamma.T, first), gamma.sum(0), background.sum()
    length = sums.norm(dim=1) / (counts + 1e-8)
    few, total = cluster_prior / len(counts), counts.sum()
    evidence = product(counts_of_class.T, gamma) + class_prior
    towards = {
        "directions": unit(sums),
        "concentrations": concentration(length, first.shape[1]).clamp(*CONCENTRATION),
        "shares": (counts + few) / (total + cluster_prior),
        "background": (beyond + 0.1 * cluster_prior) / (total + beyond + 0.1 * cluster_prior),
        "evidence": evidence / evidence.sum(1, keepdim=True),
    }
    new = {name: mixture[name].lerp(value, momentum) for name, value in towards.items()}
    new["directions"] = unit(new["directions"])
    new["background"] = new["background"].clamp(*BACKGROUND)
    # Without a sample that counts, B stays as it is.
    evidence = new["evidence"] / new["evidence"].sum(1, keepdim=True)
    new["evidence"] = torch.where((counts_of_class > 0).any(), evidence, mixture["evidence"])
    return new


def unit(vectors: Tensor) -> Tensor:
    """Vectors [n, width] scaled to length 1; those of zeros stay so."""
    return vectors / (vectors.norm(dim=1, keepdim=True) + 1e-8)


def concentration(length: Tensor, width: int) -> Tensor:
    """The concentration of directions in ``width`` dimensions whose mean has a length."""
    length = length.clamp(1e-6, 1 - 1e-6)
    return length * (width - length.square()) / (1 - length.square())
