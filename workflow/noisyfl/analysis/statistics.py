"""What a few seeds can tell of a comparison, and the verdicts of tables, claims and evidence.

- A difference between methods that share seeds is tested by :func:`differences`: a paired t-test
  with a pooled standard deviation, or the method's own if that is larger, corrected by Holm.
- A published number's cell has :class:`noisyfl.analysis.spreads.Spreads`.
- A number computed from several others, as in a claim, has draws from t distributions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import fdtrc, stdtr  # scipy.stats takes a second to import

from noisyfl.analysis.summaries import Summary
from noisyfl.core.randomness import stream
from noisyfl.specs.published import Number

LEVEL = 0.05
"""The level of all tests."""

ORACLE = "oracle"
"""The method that learns from clean samples alone; its lead over the baseline is the headroom."""

DRAWS = 4000
"""How many draws show what a number might also be, given its spread."""

# ---------------------------------------------------------------- verdicts

SUPPORTED, MOSTLY, PARTLY, HARDLY, NOT_SUPPORTED, UNDECIDED = VERDICTS = (
    "supported",
    "mostly supported",
    "partly supported",
    "hardly supported",
    "not supported",
    "undecided",
)
"""Whether numbers support a published number, a lead or a claim."""

NOT_RUN, DIVERGED, OTHER_SCALE = "not run", "diverged", "other scale"
"""Why a number has no verdict."""

SIGNS = {**dict(zip(VERDICTS, "✓≈≈✗✗?", strict=True)), DIVERGED: "⚡"}
"""The sign of each verdict that has one."""

GRADES = ((0.8, MOSTLY), (0.2, PARTLY), (math.nextafter(0, 1), HARDLY), (0, NOT_SUPPORTED))
"""The verdict where not enough cases hold, by the least share of the decided ones that do."""

POINTS = 2.0
"""Percentage points that replace the published spread over trials where the paper prints none."""

SHARE = 0.1
"""The same for a number that is not a percentage, as a share of that number."""

PARTLY_SPREADS = 3.0
"""How many published spreads a number may be off that is partly supported."""


def verdict_on_number(
    published: Number | None,
    ours: Summary | None,
    unit: str,
    as_published: bool,
    diverged: bool,
) -> str:
    """Whether our mean supports a published number; empty where there is none.

    It does if it is off by at most the published spread plus its own standard error, and partly if
    it is off by at most three published spreads plus that error. A single trial of ours is taken to
    spread as the paper's trials do. Otherwise the reason why there is no verdict.

    Args:
        published: the paper's number, whose spread, if there is one, is over trials.
        ours: our number over the trials that did not diverge; its spread too.
        unit: of both, a key of :data:`noisyfl.analysis.metrics.FACTORS`; shares are in percent.
        as_published: whether ours was made exactly in the paper's setting.
        diverged: whether most of our trials diverged.
    """
    if published is None:
        return ""
    if ours is None and not diverged:
        return NOT_RUN
    if not as_published:
        return OTHER_SCALE
    if ours is None or diverged:
        return DIVERGED
    off = abs(ours.mean - published.value)
    spread = published.std or (POINTS if unit == "percent" else SHARE * abs(published.value))
    trial = published.std if ours.std is None else ours.std
    error = (trial or 0.0) / math.sqrt(ours.trials)
    if off <= spread + error:
        return SUPPORTED
    return PARTLY if off <= PARTLY_SPREADS * spread + error else NOT_SUPPORTED


def verdict_on_cases(hold: int, fail: int, share: float = 1.0) -> str:
    """The verdict on a statement that holds in some of its decided cases and fails in others.

    Args:
        share: the share of them in which it must hold.
    """
    if hold >= share * (hold + fail):
        return SUPPORTED
    return next(verdict for least, verdict in GRADES if hold / (hold + fail) >= least)


class Headroom(NamedTuple):
    """How much a method can gain in a setting.

    Attributes:
        points: the oracle's lead over the baseline.
        deviation: the standard deviation of such a lead between seeds; 0 if it is unknown.
    """

    points: float
    deviation: float

    @property
    def suffices(self) -> bool:
        """Whether it exceeds two standard deviations between seeds."""
        return self.points > 2 * self.deviation


def verdict_on_lead(lead: float, error: float, headroom: Headroom | None) -> str:
    """The verdict on whether a method is better than the baseline.

    Args:
        lead: of our runs, in points.
        error: half the width of its interval; NaN if it is unknown.
        headroom: None if it is unknown.
    """
    if not abs(lead) > error or (headroom and not headroom.suffices):
        return UNDECIDED
    return SUPPORTED if lead > 0 else NOT_SUPPORTED


# ---------------------------------------------------------------- methods on the same seeds

Position = tuple[int, int]
"""The numbers of a row and a column."""


@dataclass(frozen=True)
class Differences:
    """How much better methods are than the baseline, and which differences are significant.

    Attributes:
        points: better than the baseline by seed, where both have it, by row and column.
        deviations: the standard deviation of a seed's difference, by the number of the column:
            pooled over all methods, of which each alone has few seeds. Only where one has several.
        chances: the p-value of each mean difference in these columns.
        significant: the rows and columns that differ significantly, all comparisons together.
    """

    points: Mapping[Position, pd.Series]
    deviations: Mapping[int, float]
    chances: Mapping[Position, float]
    significant: Set[Position]

    def mean(self, place: Position) -> float:
        """The mean difference of a cell, in points."""
        return float(self.points[place].mean())


def differences(accuracies: Mapping[Position, pd.Series], baseline: int) -> Differences:
    """Compare every row with the baseline's.

    Args:
        accuracies: in percent by seed, by row and column.
        baseline: the number of its row.
    """
    level = {c: cell for (r, c), cell in accuracies.items() if r == baseline}
    pairs = {
        (r, c): (cell - level[c]).dropna()
        for (r, c), cell in accuracies.items()
        if r != baseline and c in level
    }
    points = {place: found for place, found in pairs.items() if len(found)}
    deviations: dict[int, float] = {}
    chances: dict[Position, float] = {}
    for c in level:
        column = {r: each for (r, place), each in points.items() if place == c}
        deviation, freedom = _pooled(column.values())
        if not freedom:
            continue
        deviations[c] = deviation
        for r, each in column.items():
            own = float(np.fmax(deviation, each.std()))
            known = freedom
            if own > deviation and fdtrc(len(each) - 1, freedom, (own / deviation) ** 2) < LEVEL:
                known = len(each) - 1  # it varies more than the others do
            chances[r, c] = p_value(float(each.mean()), own / len(each) ** 0.5, known)
    return Differences(points, deviations, chances, holm(chances))


def _pooled(column: Iterable[pd.Series]) -> tuple[float, float]:
    """The standard deviation of a seed's difference from the baseline, pooled over methods, and its
    degrees of freedom; 0 of each if no method has several seeds.

    The baseline's luck on a seed is in the differences of all methods. So the variance has a shared
    part, estimated from as many values as there are seeds, and one of each method's own; the
    degrees of freedom of their sum are Satterthwaite's (Biometrics Bulletin, 1946).

    Args:
        column: for each method its differences by seed.
    """
    apart = pd.DataFrame({n: each - each.mean() for n, each in enumerate(column) if len(each) > 1})
    count = int(apart.notna().sum().sum())
    free = count - apart.shape[1]
    if free <= 0:
        return 0.0, 0.0
    squares = float(apart.pow(2).sum().sum())
    sizes = apart.notna().sum(axis=1)
    of_seeds = float((apart.mean(axis=1).pow(2) * sizes).sum())
    # A seed that few methods have counts for little: as many as there would be of equal size.
    seeds = float(count**2 / sizes.pow(2).sum()) - 1
    methods = count / (seeds + 1)
    own_free = free - seeds
    shared = of_seeds / seeds / methods
    own = (squares - of_seeds) / own_free * (1 - 1 / methods) if own_free else 0.0
    variance = shared + own
    if not variance:
        return 0.0, float(free)
    uncertain = shared**2 / seeds + (own**2 / own_free if own_free else 0.0)
    return variance**0.5, variance**2 / uncertain


def p_value(mean: float, error: float, freedom: float) -> float:
    """The chance of a mean at least so far from zero, by its standard error (two-sided t-test)."""
    if mean == 0:
        return 1.0
    return float(2 * stdtr(freedom, -abs(mean) / error)) if error else 0.0


def holm(chances: Mapping[Position, float]) -> set[Position]:
    """What is significant, all of these together (Holm, Scandinavian Journal of Statistics, 1979):
    the smallest p-values, each below its share of :data:`LEVEL`.
    """
    found: set[Position] = set()
    for place in sorted(chances, key=chances.__getitem__):
        if chances[place] > LEVEL / (len(chances) - len(found)):
            break
        found.add(place)
    return found


# ---------------------------------------------------------------- draws of computed numbers


def draws_of_mean(values: np.ndarray, count: int) -> np.ndarray:
    """A mean, and draws of what it may be over other clients, float64 [1 + draws].

    The draws are from Student's t distribution. Two means over the same clients are drawn
    independently, as correlations are (:func:`draws_of_correlation`).

    Args:
        values: of clients, or of pairs of clients; NaN leaves everything open.
        count: how many clients there are; a single one leaves everything open.
    """
    mean = float(values.mean())
    if math.isnan(mean) or count < 2:
        return np.append(mean, np.full(DRAWS, np.nan))
    draws = _stream(mean, count).standard_t(count - 1, size=DRAWS)
    return np.append(mean, mean + values.std(ddof=1) / math.sqrt(count) * draws)


def draws_between_rounds(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How far each value of a curve may be off by itself, float64 [values, 1 + draws], of which the
    first is 0.

    The draws are normal. Their standard deviation follows from how far each value lies from the
    mean of the values before and after it, which a steady rise does not change.

    Args:
        values: of a curve, float64 [values]; with fewer than three the draws are 0.
    """
    bends = np.diff(values, 2)  # of the variance of a value, each has 1 + 4 + 1
    std = math.sqrt(np.mean(bends**2) / 6) if bends.size else 0.0
    draws = rng.normal(0.0, std, (len(values), DRAWS))
    return np.insert(draws, 0, 0.0, axis=1)


def draws_of_deviation(std: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """A standard deviation, and draws of what that of all trials might be, float64 [1 + draws].

    Args:
        std: over so many trials, or clients; NaN if it is unknown.
    """
    if math.isnan(std) or count < 2:
        return np.full(1 + DRAWS, std)
    squares = rng.chisquare(count - 1, size=DRAWS)
    return np.append(std, std * np.sqrt((count - 1) / squares))


def draws_of_deviation_over_clients(values: np.ndarray, count: int) -> np.ndarray:
    """A standard deviation over clients, or pairs of them, and draws of what it may be over other
    clients, float64 [1 + draws]; see :func:`draws_of_mean`.
    """
    std = float(values.std())
    if math.isnan(std) or count < 2:
        return np.append(std, np.full(DRAWS, np.nan))
    return draws_of_deviation(std, count, _stream(std, count))


def correlation(x: np.ndarray, y: np.ndarray, method: Literal["pearson", "spearman"]) -> float:
    """Pearson's correlation, or Spearman's of ranks, of the pairs in which both have a value.

    Args:
        x: [n], NaN where there is no value; y too.

    Returns:
        NaN for fewer than three pairs, or if all values of one side are equal.
    """
    pairs = pd.DataFrame({"x": x, "y": y}).dropna()
    if len(pairs) < 3 or pairs.nunique().min() < 2:
        return float("nan")
    return float(pairs["x"].corr(pairs["y"], method=method))


def draws_of_correlation(
    found: float, count: int, method: Literal["pearson", "spearman"]
) -> np.ndarray:
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
