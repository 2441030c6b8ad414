"""A comparison's table as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from noisyfl.analysis.summaries import number
from noisyfl.core.text import aligned
from noisyfl.pages.markdown import escape_markdown, head, row

HEAD = (
    *("method", "test accuracy", "best", "in round", "precision", "recall"),
    *("vs. first", "p", "seconds"),
)

ACCURACY = (
    "Test accuracy: mean of a run's last ten evaluations (of the last half, if there are fewer); "
    "mean ± standard deviation over seeds, in percent."
)

LEGEND = (
    f"{ACCURACY} Precision and recall: of the samples selected as clean, in the last ten rounds "
    "with a selection. Vs. first: difference in points; * significant at 5 %, corrected for all "
    "rows (Holm)."
)

LEGEND_OF_SETTINGS = (
    f"{ACCURACY} *: the difference from the first row is significant at 5 %, corrected for all "
    "cells (Holm)."
)


@dataclass(frozen=True)
class ComparisonTable:
    """The table of a comparison: of one setting everything, of several the accuracies.

    Attributes:
        summary: as :func:`noisyfl.analysis.compared.summarise` returns it.
        notes: what else is said of a method, by its name; may be empty.
        seeds: how many runs each method should have in a setting.
    """

    summary: pd.DataFrame
    notes: Mapping[str, str]
    seeds: int

    @property
    def legend(self) -> str:
        """What the table shows."""
        return LEGEND if self._has_one_setting else LEGEND_OF_SETTINGS

    def as_text(self) -> str:
        """The table in aligned columns."""
        return "\n".join(aligned([[*line] for line in [self._head, *self._lines]]))

    def as_markdown(self, setting: str) -> str:
        """The table as Markdown, with the setting in words and a legend below it."""
        lines = [row([escape_markdown(cell) for cell in line]) for line in self._lines]
        legend = escape_markdown(f"{self.legend} Setting: {setting}.")
        return "\n".join([*head(tuple(map(escape_markdown, self._head))), *lines, "", legend, ""])

    @property
    def _has_one_setting(self) -> bool:
        return self.summary["setting"].nunique() == 1

    @property
    def _head(self) -> Sequence[str]:
        return HEAD if self._has_one_setting else ["method", *self.summary["setting"].unique()]

    @property
    def _lines(self) -> list[list[str]]:
        if self._has_one_setting:
            return [self._line(cells) for _, cells in self.summary.iterrows()]
        return [
            [
                self._named(str(method), []),
                *(self._cell(cells) for _, cells in of_method.iterrows()),
            ]
            for method, of_method in self.summary.groupby("method", sort=False)
        ]

    def _line(self, cells: pd.Series) -> list[str]:
        difference, p = cells["difference"], cells["p"]
        return [
            self._named(cells["method"], self._remarks(cells)),
            _accuracy(cells),
            *(number(cells["best"]), number(cells["best_round"], 0)),
            *(number(cells["precision"]), number(cells["recall"])),
            "" if math.isnan(difference) else f"{difference:+.1f}",
            "" if math.isnan(p) else f"{p:.3f}{_star(cells)}",
            number(cells["seconds"], 0),
        ]

    def _cell(self, cells: pd.Series) -> str:
        remarks = self._remarks(cells)
        return _accuracy(cells) + _star(cells) + (f" [{', '.join(remarks)}]" if remarks else "")

    def _named(self, method: str, remarks: Sequence[str]) -> str:
        said = [*filter(None, [self.notes.get(method, "")]), *remarks]
        return method + (f" [{', '.join(said)}]" if said else "")

    def _remarks(self, cells: pd.Series) -> list[str]:
        there = 0 if math.isnan(cells["runs"]) else int(cells["runs"])
        remarks = [f"{there} of {self.seeds} seeds"] if there < self.seeds else []
        if there and cells["diverged"]:
            remarks.append(f"{int(cells['diverged'])} diverged")
        return remarks


def _accuracy(cells: pd.Series) -> str:
    spread = number(cells["std"])
    return number(cells["accuracy"]) + (f" ± {spread}" if spread else "")


def _star(cells: pd.Series) -> str:
    return "*" if cells["significant"] is True else ""
