"""Where the numbers of claims come from: what is printed, and ours in its place.

Their labels are described in :mod:`noisyfl.claims.labels`; the label ``converged`` is 1 or 0 where
it is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisyfl.analysis.published_cells import read_cells
from noisyfl.claims.labels import Place, cell_labels
from noisyfl.claims.numbers import Entry, Numbers
from noisyfl.claims.query import Query
from noisyfl.specs.published import KEY, read_published

DRAWS = 1000
"""How many draws say what a number might be as well, given its spread."""

Source = Callable[[Query], Iterable[Entry]]


class Side:
    """One side of the numbers that claims are held against: the papers', or ours.

    Args:
        sources: by the kind of :class:`Query`; this side has no numbers of other kinds.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources

    def numbers(self, query: Query, where: str) -> Numbers:
        """The numbers of a query.

        Raises:
            BadInput: two numbers have the same labels.
        """
        if query.kind not in self.sources:
            return Numbers.unknown(query.by)
        found = list(self.sources[query.kind](query))
        lists = {key: value for key, value in query.where.items() if isinstance(value, list)}
        return Numbers.of(found, query.by, where).at(**lists)


def published(path: Path, known: Collection[tuple[str, ...]] | None = None) -> Side:
    """The papers' own numbers: as tables print them, shares in percent, and as texts give them.

    Args:
        path: the file of published numbers.
        known: by their labels in the order of :data:`noisyfl.specs.published.KEY`, the printed
            numbers to take as known; None for all.
    """
    found: list[Entry] = []
    for row in read_published(path):
        value, std, starred = math.nan, math.nan, None
        if known is None or tuple(row.fields[name] for name in KEY) in known:
            value, std = row.value, math.nan if row.std is None else row.std
            starred = {"true": False, "false": True}.get(row.fields["converged"].lower())
        found += _entries_of(row.fields, np.array([value]), np.array([std]), starred)
    return Side({"cells": _by_labels(found), "quotes": _from_text})


def our_cells(path: Path) -> list[Entry]:
    """Our numbers in the place of the printed ones.

    If several cells show the same number, the cell in the paper's own table counts.

    Args:
        path: the file of published numbers with ours, see :mod:`noisyfl.analysis.published_cells`.
    """
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in read_cells(path):
        key = tuple(row[name] for name in KEY)
        if key not in cells or row["shown_in"] == f"{row['paper']}/{row['table']}":
            cells[key] = row
    trials: defaultdict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
    for row in cells.values():
        trials[_column(row)].append((float(row["ours_std"] or "nan"), int(row["ours_trials"])))
    spreads = {column: Spread.pooled(of_cells) for column, of_cells in trials.items()}
    found: list[Entry] = []
    for seed, row in enumerate(cells.values()):
        mean, std = (float(row[key] or "nan") for key in ("ours", "ours_std"))
        starred = row["ours_starred"] == "True" if row["ours"] and row["ours_starred"] else None
        count = int(row["ours_trials"])
        values = spreads[_column(row)].draws(mean, std, count, seed)
        found += _entries_of(row, values, deviations(std, count, seed), starred)
    return found


def ours(cells: Sequence[Entry], artifacts: Mapping[str, Source]) -> Side:
    """Our numbers: those in the place of printed ones, and those that only runs have."""
    return Side({"cells": _by_labels(cells), **artifacts})


@dataclass(frozen=True)
class Spread:
    """How far trials of the cells of a column lie apart, all of its cells taken together.

    Attributes:
        std: the pooled standard deviation.
        freedom: its degrees of freedom; 0 if no cell has several trials.
    """

    std: float = 0.0
    freedom: int = 0

    @classmethod
    def pooled(cls, cells: Iterable[tuple[float, int]]) -> Spread:
        """Pool the standard deviations of cells, each with its number of trials."""
        squares, freedom = 0.0, 0
        for std, trials in cells:
            if trials > 1 and not math.isnan(std):
                squares, freedom = squares + (trials - 1) * std**2, freedom + trials - 1
        return cls(math.sqrt(squares / freedom), freedom) if freedom else cls()

    def draws(self, mean: float, std: float, trials: int, seed: int) -> np.ndarray:
        """A mean over trials, and draws of what it might be over others, float64 [1 + draws].

        The draws are from Student's t distribution, scaled by the standard error of the pooled
        standard deviation, or of the cell's own if that is larger: a few trials may agree by
        chance. If no cell has several trials the mean is taken as it is.

        Args:
            mean: the mean over the cell's trials.
            std: the standard deviation over them; NaN if it is not known.
            trials: how many they are.
            seed: the seed of the draws.
        """
        if not (self.freedom and trials):
            return np.full(1 + DRAWS, mean)
        error = np.fmax(self.std, std) / math.sqrt(trials)
        draws = np.random.default_rng(seed).standard_t(self.freedom, size=DRAWS)
        return np.append(mean, mean + error * draws)


def deviations(std: float, trials: int, seed: int) -> np.ndarray:
    """A standard deviation, and draws of what that of all trials might be, float64 [1 + draws].

    Args:
        std: over the trials of a cell; NaN if it is not known.
        trials: how many they are.
        seed: the seed of the draws.
    """
    if math.isnan(std) or trials < 2:
        return np.full(1 + DRAWS, std)
    squares = np.random.default_rng(seed).chisquare(trials - 1, size=DRAWS)
    return np.append(std, std * np.sqrt((trials - 1) / squares))


def _entries_of(
    row: Mapping[str, str], values: np.ndarray, std: np.ndarray, starred: bool | None
) -> Iterator[Entry]:
    """What is known of a cell, one number per measure: value, std and converged."""
    converged = math.nan if starred is None else float(not starred)
    labels = {**cell_labels(row), "converged": converged}
    line = " ".join(filter(None, (row["method"], row["variant"], row["setting_scope"])))
    setting = ", ".join((row["dataset"], row["partition"], row["noise"]))
    shown = (row.get("shown_in"), row.get("row"), row.get("column"))
    cell = Place(
        *(a or b for a, b in zip(shown, (str(labels["table"]), line, setting), strict=True))
    )
    for measure, known in (
        ("value", values),
        ("std", std),
        ("converged", np.array([converged])),
    ):
        yield Entry({**labels, "measure": measure}, known, cell)


def _column(row: Mapping[str, str]) -> tuple[str, ...]:
    """The column that a cell stands in."""
    return row["shown_in"], row["column"], row["metric"]


def _by_labels(numbers: Sequence[Entry]) -> Source:
    return lambda query: [number for number in numbers if query.fits(number.labels)]


def _from_text(query: Query) -> Iterator[Entry]:
    (label,) = query.by
    for name, value in (query.numbers or {}).items():
        yield Entry({label: name}, np.array([float(value)]), Place("", name, ""))
