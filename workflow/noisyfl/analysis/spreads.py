"""How far the trials of cells lie apart, and what other seeds would give.

A trial's number differs between seeds by what all runs have in common that begin with the same
weights and learn from the same noisy partition, and by what is a method's own. Both standard
deviations are pooled over cells, as each has few seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to import

from noisyfl.analysis.statistics import DRAWS, LEVEL
from noisyfl.core.randomness import stream

LEAST_FREEDOM = 2
"""The degrees of freedom from which on a pooled standard deviation is taken as known."""


@dataclass(frozen=True)
class Spread:
    """A standard deviation between seeds, pooled over cells.

    Attributes:
        freedom: its degrees of freedom; 0 if it is unknown.
    """

    std: float = 0.0
    freedom: int = 0

    def half_width(self, error: float) -> float:
        """Half the width of an interval, from its standard error; NaN if the spread is unknown."""
        if not self.freedom:
            return math.nan
        return float(stdtrit(self.freedom, 1 - LEVEL / 2)) * error


class Spreads(NamedTuple):
    """How far the trials of cells lie apart that start from the same: in a seed, they begin with
    the same weights and learn from the same noisy partition. What they have in common because of
    that cancels where they are compared.

    Attributes:
        shared: what they have in common in a seed.
        own: what each method has by itself.
        luck: by how much each seed is better than others, by the seed; empty for several starts,
            and where no two methods have two seeds in common.
    """

    shared: Spread = Spread()
    own: Spread = Spread()
    luck: Mapping[int, float] = MappingProxyType({})

    @classmethod
    def pool(cls, starts: Sequence[Sequence[Mapping[int, float]]]) -> Spreads:
        """Estimate both parts by the squares that are left without the methods' means, and without
        the seeds' as well (Henderson's third method, Biometrics, 1953).

        If no two methods have two seeds in common, all is ``own``.

        Args:
            starts: the cells of each, as the values of their trials by seed; a cell with a single
                trial tells nothing.
        """
        within, left, luck = np.zeros(2), np.zeros(2), {}
        for alike in starts:
            several = [cell for cell in alike if len(cell) > 1]
            values = np.array([value for cell in several for value in cell.values()])
            names = np.array([seed for cell in several for seed in cell])
            methods = np.repeat(np.eye(len(several)), [len(cell) for cell in several], axis=0)
            seeds = np.unique(names)
            both = np.hstack([methods, (names[:, None] == seeds).astype(float)])
            within += _least_squares(values, methods)[1:]
            means, *squares = _least_squares(values, both)
            left += squares
            if len(starts) == 1 and left[1]:
                of_seeds = means[len(several) :]
                luck = dict(zip(seeds.tolist(), (of_seeds - of_seeds.mean()).tolist(), strict=True))
        freedom = round(within[1] - left[1])
        if not left[1]:
            return cls(own=Spread(math.sqrt(within[0] / freedom), freedom)) if freedom else cls()
        own = Spread(math.sqrt(left[0] / left[1]), round(left[1]))
        variance = (within[0] - left[0] - freedom * own.std**2) / within[1]
        return cls(Spread(math.sqrt(max(variance, 0.0)), freedom), own, luck)

    @classmethod
    def of_smallest(cls, groups: Sequence[Spreads]) -> Spreads:
        """Each part from the first group in which it is known well enough, or else the last one.

        Args:
            groups: the first is of cells that start from the same, and has the luck of their seeds.
        """
        shared, own = (
            next((one for one in part if one.freedom >= LEAST_FREEDOM), part[-1])
            for part in zip(*((group.shared, group.own) for group in groups), strict=True)
        )
        return cls(shared, own, groups[0].luck)

    def error(self, trials: Mapping[int, float]) -> float:
        """The standard error of a cell's mean, without what a seed has in common: by the deviation
        of its trials if that is larger than the pooled one, as a few may agree by chance.

        Args:
            trials: their values by seed; NaN if these tell nothing.
        """
        alone = [value - self.luck.get(seed, 0.0) for seed, value in trials.items()]
        std = np.std(alone, ddof=1) if len(alone) > 1 else 0.0
        return float(np.fmax(self.own.std, std)) / math.sqrt(len(trials))

    def draws(
        self, trials: Mapping[int, float], start: Sequence[str], cell: Sequence[str]
    ) -> np.ndarray:
        """How far the mean of a cell may be off, float64 [draws], from Student's t distribution.

        Args:
            trials: their values by seed; NaN if these tell nothing.
            start: names what the cells start from that have a part in common in a seed.
            cell: names the cell.
        """
        own = stream(0, "cell", *cell).standard_t(self.own.freedom, size=DRAWS)
        common = [stream(0, "seed", seed, *start).standard_normal(DRAWS) for seed in trials]
        freedom = max(self.shared.freedom, 1)
        scale = np.sqrt(freedom / stream(0, "scale", *start).chisquare(freedom, size=DRAWS))
        shared = self.shared.std * scale * np.mean(common, axis=0)
        return self.error(trials) * own + shared


def _least_squares(values: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, float, int]:
    """The means of values, the sum of squares that they leave, and its degrees of freedom.

    Args:
        values: [n].
        means: [n, means], 1 where a value belongs to a mean, else 0.
    """
    fitted, _, rank, _ = np.linalg.lstsq(means, values)
    return fitted, float(((values - means @ fitted) ** 2).sum()), len(values) - int(rank)
