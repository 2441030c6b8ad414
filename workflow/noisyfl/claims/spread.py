"""What a number of ours might be as well: draws from its spread over trials or clients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from noisyfl.core.randomness import stream

DRAWS = 1000
"""How many draws say what a number might be as well, given its spread."""


SHARES = ("label_", "noise_detection_", "noise_ratio", "open_set_", "pseudo_label_")
"""How metrics begin that are shares of labels or of detections."""


@dataclass(frozen=True)
class Spread:
    """How far trials of the cells of a group lie apart, all of its cells taken together.

    Attributes:
        std: the pooled standard deviation.
        freedom: its degrees of freedom; 0 if no cell has several trials.
    """

    std: float = 0.0
    freedom: int = 0

    @classmethod
    def pool(cls, cells: Iterable[tuple[float, int]]) -> Spread:
        """Pool the standard deviations of cells, each with its number of trials."""
        squares, freedom = 0.0, 0
        for std, trials in cells:
            if trials > 1 and not math.isnan(std):
                squares, freedom = squares + (trials - 1) * std**2, freedom + trials - 1
        return cls(math.sqrt(squares / freedom), freedom) if freedom else cls()

    def errors(self, metric: str, std: float, trials: int, rng: np.random.Generator) -> np.ndarray:
        """How far a mean over trials may be off, float64 [1 + draws], of which the first is 0.

        The draws are from Student's t distribution, scaled by the standard error of the pooled
        standard deviation, or of the cell's own if that is larger: a few trials may agree by
        chance. If no cell of the group has several trials the mean is taken as it is, since papers
        print accuracies and times of single trials, too; but a share of labels or detections of a
        single trial may then be anything.

        Args:
            metric: what the mean is of, see :data:`noisyfl.analysis.metrics.METRICS`.
            std: the standard deviation over the trials; NaN if it is not known.
        """
        if self.freedom and trials:
            error = np.fmax(self.std, std) / math.sqrt(trials)
            return np.append(0.0, error * rng.standard_t(self.freedom, size=DRAWS))
        unknown = metric.startswith(SHARES) and trials == 1
        return np.append(0.0, np.full(DRAWS, math.nan if unknown else 0.0))


def mean_over(values: np.ndarray, count: int) -> np.ndarray:
    """A mean, and draws of what it may be over other clients, float64 [1 + draws].

    The draws are from Student's t distribution. Two means over the same clients are drawn
    independently, as correlations are (:func:`fisher`).

    Args:
        values: of clients, or of pairs of clients; NaN leaves everything open.
        count: how many clients there are; a single one leaves everything open.
    """
    mean = float(values.mean())
    if math.isnan(mean) or count < 2:
        return np.append(mean, np.full(DRAWS, np.nan))
    draws = _stream(mean, count).standard_t(count - 1, size=DRAWS)
    return np.append(mean, mean + values.std(ddof=1) / math.sqrt(count) * draws)


def std_over(values: np.ndarray, count: int) -> np.ndarray:
    """A standard deviation over clients, or pairs of them, and draws of what it may be over other
    clients, float64 [1 + draws]; see :func:`mean_over`.
    """
    std = float(values.std())
    if math.isnan(std) or count < 2:
        return np.append(std, np.full(DRAWS, np.nan))
    return deviations(std, count, _stream(std, count))


def deviations(std: float, trials: int, rng: np.random.Generator) -> np.ndarray:
    """A standard deviation, and draws of what that of all trials might be, float64 [1 + draws].

    Args:
        std: over the trials of a cell; NaN if it is not known.
    """
    if math.isnan(std) or trials < 2:
        return np.full(1 + DRAWS, std)
    squares = rng.chisquare(trials - 1, size=DRAWS)
    return np.append(std, std * np.sqrt((trials - 1) / squares))


def fisher(found: float, count: int, method: Literal["pearson", "spearman"]) -> np.ndarray:
    """A correlation, and draws of what it may be over other clients, float64 [1 + draws].

    Fisher's z is drawn from a normal distribution of variance 1 / (n - 3), and of
    (1 + r² / 2) / (n - 3) for ranks (Bonett and Wright, Psychometrika, 2000). Two correlations over
    the same clients are drawn independently, so that their difference is decided more seldom than
    it could be.

    Args:
        found: the correlation; NaN if it is unknown.
        count: over how many clients; three or fewer leave everything open.
    """
    if math.isnan(found):
        return np.full(1 + DRAWS, found)
    rng = _stream(found, count)
    if count <= 3:
        return np.append(found, rng.uniform(-1, 1, DRAWS))
    variance = (1 + (found**2 / 2 if method == "spearman" else 0)) / (count - 3)
    draws = np.arctanh(np.clip(found, -1 + 1e-12, 1 - 1e-12)) + math.sqrt(variance) * (
        rng.standard_normal(DRAWS)
    )
    return np.append(found, np.tanh(draws))


def _stream(found: float, count: int) -> np.random.Generator:
    """Always the same draws for a number over clients, and others for every other number."""
    return stream(0, "over clients", repr(found), count)
