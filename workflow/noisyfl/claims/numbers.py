"""Numbers with labels: the function of a claim computes with them and compares them.

Arithmetic pairs numbers whose shared labels agree, so that ``accuracy["fedcorr"] -
accuracy["fedavg"]`` is a difference in each setting in which both have a number.
"""

from __future__ import annotations

import itertools
import math
import operator
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
from noisyfl.claims.findings import Case, Comparison, Operation, decide, text
from noisyfl.claims.labels import OWN_LABELS, WORK, Label, Place, fits
from noisyfl.core.options import BadInput, find

EMPTY = np.empty(0, dtype=int)
"""The indices of no rows."""

CLIENT_LABELS = (*OWN_LABELS["clients"], *OWN_LABELS["pairs"])
"""Labels that tell clients, or pairs of clients, apart: a correlation is over these."""


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
            chosen = np.flatnonzero([fits(label, value) for label in found._column(name)])
            single = [name] if isinstance(value, str | int | float) else []
            found = found._rows(chosen, found.labels.drop(columns=single))
            if isinstance(value, list):
                whole = [rows for rows in found._groups([name]) if len(rows) == len(value)]
                found = found._rows(np.sort(np.concatenate([EMPTY, *whole])), found.labels)
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
        return self._reduce(self._over_clients(draws_of_mean, np.mean, over), over)

    def sum(self, *over: str) -> Numbers:
        """The sum; unknown if one of the numbers is."""
        return self._reduce(np.sum, over)

    def std(self, *over: str) -> Numbers:
        """The standard deviation; unknown if one of the numbers is. See :meth:`mean`."""
        return self._reduce(self._over_clients(draws_of_deviation_over_clients, np.std, over), over)

    # -- curves: numbers along rounds, batches, or another label with increasing values

    def end(self) -> Numbers:
        """The last number of each curve."""
        work = self._column(WORK).to_numpy(dtype=float)
        chosen = [rows[[work[rows].argmax()]] for rows in self._groups([WORK])]
        return self._rows(np.concatenate([EMPTY, *chosen]), self.labels)._reduce(np.max, (WORK,))

    def last(self, extent: float) -> Numbers:
        """The end of each curve, of this much of its label: ``extent`` percent of all rounds."""
        work = self._column(WORK).to_numpy(dtype=float)
        chosen = [rows[work[rows] > work[rows].max() - extent] for rows in self._groups([WORK])]
        return self._rows(np.concatenate([EMPTY, *chosen]), self.labels)

    def smooth(self, extent: float) -> Numbers:
        """The moving average of each curve: the mean of a number and those shortly before it.

        The mean is over ``extent`` percent of all rounds, or at the start of a curve as many as
        there are.
        """
        work, values = self._column(WORK).to_numpy(dtype=float), np.empty(self.values.shape)
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
        work = curve.labels[WORK].to_numpy(dtype=float)[:, None]
        at = np.where(curve.values >= bound.values, work, np.inf)
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

    def _over_clients(
        self,
        of_clients: Callable[[np.ndarray, int], np.ndarray],
        of_others: Callable[..., np.ndarray],
        over: Sequence[str],
    ) -> Callable[..., np.ndarray]:
        """How to reduce numbers over these labels, or over all: as numbers of clients if these are
        among them.
        """
        over = over or self.names
        if not set(over) & set(CLIENT_LABELS):
            return of_others

        def how(values: np.ndarray, axis: int) -> np.ndarray:
            return of_clients(values[:, 0], _clients_of(len(values), over))

        return how

    def _correlate(self, other: Numbers, method: Literal["pearson", "spearman"]) -> Numbers:
        left, right = _pair(self, other)
        both = left._replace(np.stack([left.values[:, 0], right.values[:, 0]], axis=1))
        over = [name for name in both.names if name in CLIENT_LABELS]

        def how(pairs: np.ndarray, axis: int) -> np.ndarray:
            found = correlation(pairs[:, 0], pairs[:, 1], method)
            count = int((~np.isnan(pairs).any(axis=1)).sum())
            return draws_of_correlation(found, _clients_of(count, over), method)

        return both._reduce(how, over)

    # -- parts of the methods above

    def _column(self, name: str) -> pd.Series:
        find(dict.fromkeys(self.names), name, "label", "a claim")
        return self.labels[name]

    def _rows(self, rows: np.ndarray, labels: pd.DataFrame) -> Numbers:
        cells = tuple(self.cells[row] for row in rows)
        labels = labels.iloc[rows].reset_index(drop=True)
        return Numbers(labels, self.values[rows], cells, self.known)

    def _replace(self, values: np.ndarray) -> Numbers:
        return Numbers(self.labels, values, self.cells, self.known)

    def _with(self, other: Numbers | float, operation: Operation) -> Numbers:
        left, right = _pair(self, other)
        cells = tuple(map(operator.or_, left.cells, right.cells))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = operation(left.values, right.values)
        return Numbers(left.labels, values, cells, left.known and right.known)

    def _compare(self, other: Numbers | float, sign: str) -> Cases:
        left, right = _pair(self, other)
        cells = tuple(map(operator.or_, left.cells, right.cells))
        comparisons = (Comparison(left.values, sign, right.values),)
        return Cases(left.labels, comparisons, cells, left.known and right.known)

    def _groups(self, over: Iterable[str]) -> list[np.ndarray]:
        """The rows of each group of numbers that differ only in these labels."""
        chosen = [name for name in self.names if name not in set(over)]
        if not chosen:
            return [np.arange(len(self.labels))] if len(self.labels) else []
        groups = map(np.asarray, self.labels.groupby(chosen, sort=False).indices.values())
        return sorted(groups, key=lambda rows: int(rows[0]))

    def _reduce(self, how: Callable[..., np.ndarray], over: Sequence[str]) -> Numbers:
        over = over or self.names
        for name in over:
            self._column(name)
        groups = self._groups(over)
        labels = self.labels.drop(columns=list(over))
        labels = labels.iloc[[rows[0] for rows in groups]].reset_index(drop=True)
        values = [how(self.values[rows], axis=0) for rows in groups]
        cells = tuple(frozenset().union(*(self.cells[row] for row in rows)) for rows in groups)
        array = np.array(values) if groups else np.empty((0, 1))
        return Numbers(labels, array, cells, self.known)


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
        labels, left, right = _pairs(self.labels, other.labels)
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
        false = np.logical_or.reduce([truth == 0 for truth in truths])
        return np.where(false, 0.0, np.minimum.reduce(truths))

    def every(self, *over: str) -> Numbers:
        """1 where all cases hold, 0 where one fails, with any outcome of the others."""
        truth = Numbers(self.labels, self.truth, self.cells, self.known)
        return truth._reduce(_all_true, over)

    def decide(self) -> tuple[Case, ...]:
        """Judge each case by itself; it is named by the labels in which the cases differ."""
        telling = [name for name in self.labels if self.labels[name].nunique() > 1]
        named = self.labels[telling].to_numpy().tolist()
        cases = []
        for n, labels in enumerate(named):
            holds = decide([part.truth[n] for part in self.comparisons])
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


def _all_true(truths: np.ndarray, axis: int) -> np.ndarray:
    return np.where((truths == 0).any(axis), 0.0, truths.min(axis))


def _pairs(left: pd.DataFrame, right: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Pair rows that agree in the shared labels: all labels of each pair, and both sides' rows."""
    shared = [name for name in left if name in right]
    how: dict[str, Any] = {"on": shared} if shared else {"how": "cross"}
    sides = [side.assign(**{key: range(len(side))}) for side, key in ((left, " l"), (right, " r"))]
    merged = sides[0].merge(sides[1], **how)
    one, other = (merged[key].to_numpy(dtype=int) for key in (" l", " r"))
    # The labels keep the order of the side that has more of them.
    names = sorted((list(left), list(right)), key=len, reverse=True)
    return merged[list(dict.fromkeys(itertools.chain(*names)))], one, other


def _pair(left: Numbers, right: Numbers | float) -> tuple[Numbers, Numbers]:
    """Bring both sides to the same labels; a plain number is repeated for each row."""
    if not isinstance(right, Numbers):
        values = np.full((len(left.labels), 1), float(right))
        return left, Numbers(left.labels, values, (frozenset(),) * len(left.labels))
    labels, *rows = _pairs(left.labels, right.labels)
    known = left.known and right.known
    one, other = (
        Numbers(labels, side.values[at], tuple(side.cells[row] for row in at), known)
        for side, at in zip((left, right), rows, strict=True)
    )
    return one, other
