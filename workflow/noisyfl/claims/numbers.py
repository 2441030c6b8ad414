"""Numbers with labels: the function of a claim computes with them and compares them.

Arithmetic pairs numbers whose shared labels agree, so that ``accuracy["fedcorr"] -
accuracy["fedavg"]`` is a difference in each setting in which both have a number.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from noisyfl.analysis.statistics import (
    correlation,
    draws_of_correlation,
    draws_of_deviation_over_clients,
    draws_of_mean,
)
from noisyfl.claims.comparisons import Comparison, Operation, all_true, text
from noisyfl.claims.findings import Case
from noisyfl.claims.labels import (
    CLIENT_LABELS,
    WORK,
    Label,
    Place,
    fits,
    groups_of_rows,
    pair_rows,
)
from noisyfl.core.options import BadInput, find


class Entry(NamedTuple):
    """One number with its labels.

    Attributes:
        labels: the labels that select it, by name.
        values: float64 [1 + draws]: the number, and draws of what it might be as well, given its
            spread over trials. NaN where there is no number.
        cell: where it stands.
    """

    labels: Mapping[str, Label]
    values: np.ndarray
    cell: Place


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers and the labels that tell them apart.

    Attributes:
        labels: one row per number, one column per label.
        values: float64 [numbers, 1 + draws], see :class:`Entry`.
        cells: for each number, the cells that it is computed from.
        known: whether numbers of this kind can be had at all; no paper prints what is in its
            figures.
    """

    labels: pd.DataFrame
    values: np.ndarray
    cells: tuple[frozenset[Place], ...]
    known: bool = True

    @classmethod
    def of(cls, found: Sequence[Entry], by: Sequence[str], where: str) -> Numbers:
        """Collect numbers by some of their labels; a number that lacks one of these is left out.

        Raises:
            BadInput: two numbers have the same labels.
        """
        found = [number for number in found if all(name in number.labels for name in by)]
        rows = [[number.labels[name] for name in by] for number in found]
        labels = pd.DataFrame(rows, columns=list(by), dtype=object)
        if (same := labels.duplicated()).any():
            first = ", ".join(f"{k}={v}" for k, v in labels[same].iloc[0].items())
            raise BadInput(f"{where}: several numbers have the same labels, {first or 'none'}")
        draws = max((len(number.values) for number in found), default=1)
        values = [np.broadcast_to(number.values, draws) for number in found]
        cells = tuple(frozenset([number.cell]) for number in found)
        return cls(labels, np.array(values).reshape(len(found), draws), cells)

    @classmethod
    def unknown(cls, by: Sequence[str]) -> Numbers:
        """An empty stand-in for numbers of a kind that cannot be had."""
        return cls(pd.DataFrame(columns=list(by), dtype=object), np.empty((0, 1)), (), False)

    @property
    def names(self) -> list[str]:
        """The names of the labels."""
        return list(map(str, self.labels.columns))

    def at(self, **labels: Any) -> Numbers:
        """The numbers whose labels fit, see :func:`noisyfl.claims.labels.fits`.

        A label for which one value is given is dropped. If a list is given, all of its values must
        be there: a setting that lacks one of them is left out.

        Raises:
            BadInput: the numbers have no such label.
        """
        found = self
        for name, value in labels.items():
            chosen = [fits(label, value) for label in found._column(name)]
            found = found._rows(np.flatnonzero(chosen))
            if isinstance(value, list):
                whole = [rows for rows in found._groups([name]) if len(rows) == len(value)]
                found = found._rows(sorted(itertools.chain(*whole)))
            elif isinstance(value, str | int | float):
                found = found._without(name)
        return found

    def __getitem__(self, value: Any) -> Numbers:
        """The numbers whose first label fits, as :meth:`at` selects them."""
        return self.at(**{self.names[0]: value})

    # -- number by number

    def __add__(self, other: Numbers | float) -> Numbers:
        return self._with(other, np.add)

    def __sub__(self, other: Numbers | float) -> Numbers:
        return self._with(other, np.subtract)

    def __mul__(self, other: Numbers | float) -> Numbers:
        return self._with(other, np.multiply)

    __rmul__ = __mul__

    def __truediv__(self, other: Numbers | float) -> Numbers:
        return self._with(other, np.divide)

    def __abs__(self) -> Numbers:
        return self._replace(np.abs(self.values))

    def rounded(self) -> Numbers:
        """Round to whole numbers, halves up."""
        return self._replace(np.floor(self.values + 0.5))

    def __gt__(self, other: Numbers | float) -> Cases:
        return self._compare(other, ">")

    def __ge__(self, other: Numbers | float) -> Cases:
        return self._compare(other, "≥")

    def __lt__(self, other: Numbers | float) -> Cases:
        return self._compare(other, "<")

    def __le__(self, other: Numbers | float) -> Cases:
        return self._compare(other, "≤")

    def between(self, low: float, high: float) -> Cases:
        """Compare with two bounds, both included."""
        return (self >= low) & (self <= high)

    def about(self, value: float, within: float) -> Cases:
        """Compare with a number that a text gives, to within a tolerance."""
        return self.between(value - within, value + within)

    # -- many numbers to one, over the labels that are named, or over all labels

    def max(self, *over: str) -> Numbers:
        """The largest number; unknown if one of the numbers is."""
        return self._reduce(np.max, over)

    def min(self, *over: str) -> Numbers:
        """The smallest number; unknown if one of the numbers is."""
        return self._reduce(np.min, over)

    def mean(self, *over: str) -> Numbers:
        """The mean; unknown if one of the numbers is. Over clients, or pairs of them, it may be off
        by as much as these differ.
        """
        return self._reduce(np.mean, over, draws_of_mean)

    def sum(self, *over: str) -> Numbers:
        """The sum; unknown if one of the numbers is."""
        return self._reduce(np.sum, over)

    def std(self, *over: str) -> Numbers:
        """The standard deviation; unknown if one of the numbers is. See :meth:`mean`."""
        return self._reduce(np.std, over, draws_of_deviation_over_clients)

    # -- curves: numbers along rounds, batches, or another label with increasing values

    def end(self) -> Numbers:
        """The last number of each curve."""
        work = self._work
        last = [rows[work[rows].argmax()] for rows in self._groups([WORK])]
        return self._rows(last)._without(WORK)

    def last(self, extent: float) -> Numbers:
        """The end of each curve, of this much of its label: ``extent`` percent of all rounds."""
        work = self._work
        ends = [rows[work[rows] > work[rows].max() - extent] for rows in self._groups([WORK])]
        return self._rows(itertools.chain(*ends))

    def smooth(self, extent: float) -> Numbers:
        """The moving average of each curve: the mean of a number and those shortly before it.

        The mean is over ``extent`` percent of all rounds, or at the start of a curve as many as
        there are.
        """
        work, values = self._work, np.empty(self.values.shape)
        for rows in self._groups([WORK]):
            for row in rows:
                # A little less, since labels are rounded to thousandths.
                recent = (work[rows] <= work[row]) & (work[rows] > work[row] - extent + 0.002)
                values[row] = self.values[rows[recent]].mean(axis=0)
        return self._replace(values)

    def reach(self, level: Numbers) -> Numbers:
        """Where on its label a curve first reaches its level; infinite if it never does.

        Each curve has a level of its own.
        """
        curve, bound = _pair(self, level)
        at = np.where(curve.values >= bound.values, curve._work[:, None], np.inf)
        unknown = np.isnan(curve.values) | np.isnan(bound.values)
        return curve._replace(np.where(unknown, np.nan, at)).min(WORK)

    # -- measures of the same clients, or of the same pairs of clients

    def pearson(self, other: Numbers) -> Numbers:
        """Pearson's correlation; unknown for fewer than three values, or if a side is constant.

        Its draws are those of Fisher's z, for as many clients as there are.
        """
        return self._correlate(other, "pearson")

    def spearman(self, other: Numbers) -> Numbers:
        """Spearman's rank correlation; unknown in the same cases as :meth:`pearson`."""
        return self._correlate(other, "spearman")

    def _correlate(self, other: Numbers, method: Literal["pearson", "spearman"]) -> Numbers:
        left, right = _pair(self, other)
        both = left._replace(np.column_stack([left.values[:, 0], right.values[:, 0]]))
        over = [name for name in both.names if name in CLIENT_LABELS]

        def of_group(pairs: np.ndarray, axis: int) -> np.ndarray:
            x, y = pairs[~np.isnan(pairs).any(axis=1)].T
            return draws_of_correlation(
                correlation(x, y, method), _clients_of(len(x), over), method
            )

        return both._reduce(of_group, over)

    # -- parts of the methods above

    def _column(self, name: str) -> pd.Series:
        find(dict.fromkeys(self.names), name, "label", "a claim")
        return self.labels[name]

    @property
    def _work(self) -> np.ndarray:
        return self._column(WORK).to_numpy(dtype=float)

    def _rows(self, rows: Iterable[int]) -> Numbers:
        chosen = np.array([*rows], dtype=int)
        labels = self.labels.iloc[chosen].reset_index(drop=True)
        cells = tuple(self.cells[row] for row in chosen)
        return Numbers(labels, self.values[chosen], cells, self.known)

    def _without(self, *labels: str) -> Numbers:
        return dataclasses.replace(self, labels=self.labels.drop(columns=list(labels)))

    def _replace(self, values: np.ndarray) -> Numbers:
        return dataclasses.replace(self, values=values)

    def _with(self, other: Numbers | float, operation: Operation) -> Numbers:
        left, right = _pair(self, other)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = operation(left.values, right.values)
        cells = tuple(map(frozenset.union, left.cells, right.cells))
        return Numbers(left.labels, values, cells, left.known)

    def _compare(self, other: Numbers | float, sign: str) -> Cases:
        left, right = _pair(self, other)
        comparison = Comparison(left.values, sign, right.values)
        cells = tuple(map(frozenset.union, left.cells, right.cells))
        return Cases(left.labels, (comparison,), cells, left.known)

    def _groups(self, over: Sequence[str]) -> list[np.ndarray]:
        return groups_of_rows(self.labels, over)

    def _reduce(
        self,
        how: Callable[..., np.ndarray],
        over: Sequence[str],
        of_clients: Callable[[np.ndarray, int], np.ndarray] | None = None,
    ) -> Numbers:
        """Make one number of each group of numbers that differ only in some labels.

        Args:
            how: to reduce the values of a group along ``axis`` 0.
            over: the labels; all if there are none.
            of_clients: how to reduce the values of so many clients instead, if they differ in a
                label of clients.
        """
        over = over or self.names
        for name in over:
            self._column(name)
        groups = self._groups(over)
        if of_clients and set(over) & set(CLIENT_LABELS):
            values = [
                of_clients(self.values[rows, 0], _clients_of(len(rows), over)) for rows in groups
            ]
        else:
            values = [how(self.values[rows], axis=0) for rows in groups]
        first = self._rows(rows[0] for rows in groups)._without(*over)
        cells = tuple(frozenset().union(*(self.cells[row] for row in rows)) for rows in groups)
        array = np.array(values) if groups else np.empty((0, 1))
        return dataclasses.replace(first, values=array, cells=cells)


@dataclass(frozen=True, eq=False)
class Cases:
    """A comparison in every setting in which there are numbers for it.

    Attributes:
        labels: one row per case, one column per label.
        comparisons: the comparisons, which must all hold.
        cells: for each case, the cells that it rests on.
        known: see :class:`Numbers`.
    """

    labels: pd.DataFrame
    comparisons: tuple[Comparison, ...]
    cells: tuple[frozenset[Place], ...]
    known: bool = True

    def __and__(self, other: Cases) -> Cases:
        """Both conditions, in each setting that both have."""
        labels, left, right = pair_rows(self.labels, other.labels)
        comparisons = [
            Comparison(part.left[rows], part.sign, part.right[rows])
            for parts, rows in ((self.comparisons, left), (other.comparisons, right))
            for part in parts
        ]
        cells = tuple(self.cells[a] | other.cells[b] for a, b in zip(left, right, strict=True))
        return Cases(labels, tuple(comparisons), cells, self.known and other.known)

    @property
    def truth(self) -> np.ndarray:
        """float64 [cases, 1 + draws]: 1 where all comparisons hold, 0 where one fails, else NaN."""
        truths = np.broadcast_arrays(*(part.truth for part in self.comparisons))
        return all_true(np.stack(truths), axis=0)

    def every(self, *over: str) -> Numbers:
        """1 where all cases hold, 0 where one fails, with any outcome of the others."""
        truth = Numbers(self.labels, self.truth, self.cells, self.known)
        return truth._reduce(all_true, over)

    def decide(self) -> tuple[Case, ...]:
        """Judge each case by itself; it is named by the labels in which the cases differ."""
        differing = [name for name in self.labels if self.labels[name].nunique() > 1]
        named = self.labels[differing].to_numpy().tolist()
        outcomes = zip(*(part.decide() for part in self.comparisons), strict=True)
        cases = []
        for n, (labels, each) in enumerate(zip(named, outcomes, strict=True)):
            # Each comparison is decided by itself: of two bounds that are nearer to each other than
            # the draws lie apart, most draws miss one, though neither is missed for sure.
            holds = False if False in each else None if None in each else True
            # If one comparison fails, it does not matter that another is unknown.
            least = np.min if holds is None else np.nanmin
            cases.append(
                Case(
                    label=", ".join(map(text, labels)),
                    numbers=" and ".join(part.words(n) for part in self.comparisons),
                    margin=float(least([part.margin(n) for part in self.comparisons])),
                    holds=holds,
                    cells=tuple(sorted(self.cells[n])),
                )
            )
        return tuple(cases)


def _clients_of(count: int, over: Sequence[str]) -> int:
    """How many clients there are in so many numbers: n of them make n(n - 1)/2 pairs."""
    return round((1 + math.sqrt(1 + 8 * count)) / 2) if "pair" in over else count


def _pair(left: Numbers, right: Numbers | float) -> tuple[Numbers, Numbers]:
    """Bring both sides to the same labels; a plain number is repeated for each row."""
    if not isinstance(right, Numbers):
        values = np.full((len(left.labels), 1), float(right))
        return left, Numbers(left.labels, values, (frozenset(),) * len(left.labels))
    labels, rows, other_rows = pair_rows(left.labels, right.labels)
    joint: dict[str, Any] = {"labels": labels, "known": left.known and right.known}
    return (
        dataclasses.replace(left._rows(rows), **joint),
        dataclasses.replace(right._rows(other_rows), **joint),
    )
