"""Each method beside FedAvg: what its runs reached, and which differences are clear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtr  # scipy.stats takes a second to import

from noisyfl.analysis.room import BASELINE
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import best, mean_last_10
from noisyfl.specs.descriptions import TableDescription

CLEAR = 0.05
"""The chance, of all comparisons together (Holm), at which a difference counts as clear."""

Place = tuple[int, int]
"""The numbers of a row and a column."""

ROUNDS = 10
"""Rounds over which a method's judgement of labels is averaged: a single one has few clients."""

SHARES = (
    *("label_precision", "label_recall"),
    *("noise_detection_precision", "noise_detection_recall"),
)
"""Columns of ``clients``: how right a method is of what it takes for clean, and for noisy."""


def measure(runs: Sequence[Run]) -> pd.DataFrame:
    """What the runs of a cell reached, without those that diverged.

    Returns:
        a row for each run, by its seed; NaN where a run has no value:

        ==============  ==========================================================================
        ``accuracy``    the mean test accuracy of the last ten evaluations, in percent; the
                        table's statistic is the same
        ``best``        the highest test accuracy of an evaluation, in percent
        ``best_round``  after how many rounds that was
        ``precision``   the share of right labels among those that the method learns as clean, in
                        percent, in the last :data:`ROUNDS` rounds that have one
        ``base``        the share of right labels among all that were divided in these rounds, in
                        percent: given ones, or what a method has made of them
        ``recall``      the share of the right labels that the method learns as clean, in percent
        ``pseudo``      the share of its pseudo-labels that is right, in percent
        ``backward``    samples through the network backwards, over the whole run
        ==============  ==========================================================================
    """
    rows = {}
    for run in runs:
        if run.diverged:
            continue
        rounds, accuracies = run.series("test_accuracy")
        rows[run.spec["seed"]] = {
            "accuracy": 100 * mean_last_10(accuracies.tolist()).value,
            "best": 100 * best(accuracies.tolist()).value,
            "best_round": rounds[accuracies.argmax()],
            "precision": 100 * _last_mean(run.values("label_precision")),
            "base": 100 * _base(run),
            "recall": 100 * _last_mean(run.values("label_recall")),
            "pseudo": 100 * _last_mean(run.values("pseudo_label_accuracy")),
            "backward": run.counted["samples_backward"].sum(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _base(run: Run) -> float:
    """The share of right labels among all that were divided, in the rounds of the precision.

    Of a client with the share b of right labels, precision p and recall r of those taken for clean,
    and recall s of those taken for noisy: p = r b / (r b + (1 - s) (1 - b)), which is solved for b.
    Where nothing wrong is taken for clean, b follows in the same way from the precision q of those
    taken for noisy. It stays open where all is told apart.
    """
    rounds = run.clients["round"]
    unknown = np.full(len(rounds), np.nan)
    p, r, q, s = (run.clients.get(name, unknown) for name in SHARES)
    with np.errstate(invalid="ignore"):
        by_clean = p * (1 - s) / (r * (1 - p) + p * (1 - s))
        by_noisy = (1 - q) / (1 - q * r)
    right = np.where(np.isnan(by_clean), by_noisy, by_clean)
    right = np.where(np.isnan(s), 1.0, np.where(np.isnan(r), 0.0, right))
    known = ~np.isnan(p) & ~np.isnan(right)
    counted = run.counted["round"]
    means = np.full(len(counted), np.nan)
    for number in np.unique(rounds[known]):
        means[counted == number] = right[known & (rounds == number)].mean()
    return _last_mean(means)


def _last_mean(values: np.ndarray) -> float:
    """The mean of the last :data:`ROUNDS` values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)][-ROUNDS:]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True)
class Against:
    """A method beside the baseline, over the seeds that both have.

    Attributes:
        gains: points ahead of the baseline, by the number of the column.
        clear: the columns in which that is a clear difference.
    """

    gains: Mapping[int, float]
    clear: Set[int]

    @property
    def ahead(self) -> int:
        """The number of settings in which the method is ahead."""
        return sum(gain > 0 for gain in self.gains.values())

    @property
    def clearly_ahead(self) -> int:
        """The number of settings in which it is clearly ahead."""
        return sum(self.gains[c] > 0 for c in self.clear)

    @property
    def clearly_behind(self) -> int:
        """The number of settings in which it is clearly behind."""
        return sum(self.gains[c] < 0 for c in self.clear)

    @property
    def equal(self) -> bool:
        """Whether it equals the baseline to the last digit in all settings."""
        return not any(self.gains.values())

    def extremes(self) -> list[int]:
        """The column in which it gains most and, if there are several, that in which it loses."""
        ordered = sorted(self.gains, key=self.gains.__getitem__, reverse=True)
        return [ordered[0], *ordered[1:][-1:]]


@dataclass(frozen=True)
class Differences:
    """How far methods are ahead of the baseline, and which of that is clear.

    Attributes:
        points: ahead of the baseline by seed, where both have it, by row and column.
        deviations: the standard deviation of a trial's difference, by the number of the column:
            pooled over all methods, of which each alone has few trials. Only where one has several.
        tested: how many mean differences are held against such a deviation.
        chances: of each of these, the chance of a mean at least so far from zero.
        clear: the rows and columns whose mean difference is clear by a t-test with that deviation.
    """

    points: Mapping[Place, pd.Series]
    deviations: Mapping[int, float]
    tested: int
    chances: Mapping[Place, float]
    clear: Set[Place]

    def mean(self, place: Place) -> float:
        """The mean difference of a cell, in points."""
        return float(self.points[place].mean())


def differences(accuracies: Mapping[Place, pd.Series], baseline: int) -> Differences:
    """Hold every row against the baseline's.

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
    chances: dict[Place, float] = {}
    for c in level:
        column = {r: each for (r, place), each in points.items() if place == c}
        deviation, free = _pooled(column.values())
        if not free:
            continue
        deviations[c] = deviation
        for r, each in column.items():
            chances[r, c] = _chance(float(each.mean()), deviation / len(each) ** 0.5, free)
    return Differences(points, deviations, len(chances), chances, holm(chances, CLEAR))


def _pooled(column: Iterable[pd.Series]) -> tuple[float, float]:
    """The standard deviation of a trial's difference from the baseline, pooled over methods, and
    its degrees of freedom; 0 of each if no method has several trials.

    The baseline's luck on a seed is in the differences of all methods. So the variance has a shared
    part, which as many trials tell as there are seeds, and one of each method's own; the degrees of
    freedom of their sum are Satterthwaite's (Biometrics Bulletin, 1946).

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


class Measurements:
    """The measures of a table's cells, beside the row of the baseline.

    Attributes:
        cells: by row and column, see :func:`measure`; without cells of which no run ended well.
        seeds: of the runs of each cell, diverged ones too, by row and column.
        baseline: the number of the baseline's row.
        differences: of all other rows from it.
    """

    def __init__(self, table: TableDescription, runs: Mapping[str, Run]) -> None:
        """Measure the runs of a table, of which one row is the baseline's.

        Raises:
            ValueError: no row is the baseline's.
        """
        self.baseline = [row.method_name for row in table.rows].index(BASELINE)
        found = {
            (r, c): [runs[run] for run in cell]
            for r, row in enumerate(table.runs)
            for c, cell in enumerate(row)
            if cell
        }
        measures = {place: measure(some) for place, some in found.items()}
        self.cells = {place: cell for place, cell in measures.items() if len(cell)}
        self.seeds = {place: {run.spec["seed"] for run in some} for place, some in found.items()}
        accuracies = {place: cell["accuracy"] for place, cell in self.cells.items()}
        self.differences = differences(accuracies, self.baseline)

    def row(self, number: int) -> dict[int, pd.DataFrame]:
        """A row's cells, by the number of the column."""
        return {c: cell for (r, c), cell in self.cells.items() if r == number}

    def against(self, number: int) -> Against:
        """A row beside the baseline, in the columns in which they share a seed."""
        found = self.differences
        gains = {c: found.mean((r, c)) for r, c in found.points if r == number}
        return Against(gains, {c for c in gains if (number, c) in found.clear})


def _chance(mean: float, error: float, free: float) -> float:
    """The chance of a mean at least so far from zero, by its standard error and how many degrees
    of freedom that has.
    """
    if mean == 0:
        return 1.0
    return float(2 * stdtr(free, -abs(mean) / error)) if error else 0.0


def holm(chances: Mapping[Place, float], level: float) -> set[Place]:
    """What is significant at a level of all of these together (Holm, Scandinavian Journal of
    Statistics, 1979): the smallest chances, each below its share of the level.
    """
    found: set[Place] = set()
    for place in sorted(chances, key=chances.__getitem__):
        if chances[place] > level / (len(chances) - len(found)):
            break
        found.add(place)
    return found
