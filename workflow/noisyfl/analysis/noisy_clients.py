"""FedCorr's scores of clients, and the mixture that splits clients by a score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from noisyfl.analysis.clients import last_values
from noisyfl.analysis.runs import Run
from noisyfl.core.options import BadInput
from noisyfl.methods.estimators.mixture import TwoComponents, fit_two

SCORES = ("lid", "cumulative_lid")
"""Columns of ``clients`` with FedCorr's scores of each client."""


class Split(NamedTuple):
    """Clients split by a score.

    Attributes:
        mixture: the one mixture that is fitted to the scores.
        noisy: bool [clients], which clients are flagged as noisy.
    """

    mixture: TwoComponents
    noisy: np.ndarray


def split(scores: np.ndarray) -> Split:
    """Call those clients noisy whose scores belong to the component of the higher mean.

    If all scores are equal, no client is flagged as noisy.

    Args:
        scores: float64 [clients], all finite.

    Raises:
        ValueError: a score is not finite.
    """
    problem = torch.as_tensor(scores, dtype=torch.float64)[None]
    mixture = fit_two(problem)
    return Split(mixture, ~mixture.low(problem)[0].numpy())


def correctly_flagged(scores: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Where :func:`split` calls a client rightly: float64 [clients], NaN if a score is missing.

    Args:
        scores: float64 [clients].
        level: [clients], the noise level; a client is noisy if any of its labels is wrong.
    """
    if not np.isfinite(scores).all():
        return np.full(len(scores), np.nan)
    return (split(scores).noisy == (level > 0)).astype(float)


def lid_scores_of(run: Run, clients: int) -> dict[str, np.ndarray]:
    """The scores of every client at the end of the last iteration of pre-processing.

    Returns:
        For each name in :data:`SCORES`, float64 [clients].

    Raises:
        BadInput: the run has no such scores, or not those of all clients.
    """
    if not set(SCORES) <= set(run.clients):
        raise BadInput(f"{run.files.clients}: no LID scores, expected a run of fedcorr")
    found = {name: last_values(run, name, clients) for name in SCORES}
    if any(np.isnan(values).any() for values in found.values()):
        raise BadInput(f"{run.files.clients}: no LID scores of all {clients} clients")
    return found
