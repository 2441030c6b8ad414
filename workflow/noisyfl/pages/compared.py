"""A comparison's table as text."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from noisyfl.analysis.summaries import number
from noisyfl.core.text import aligned
from noisyfl.pages.markdown import escape_markdown, head, row

HEAD = (
    *("method", "test accuracy", "best", "in round", "precision", "recall"),
    *("vs. first", "p", "seconds"),
)

LEGEND = (
    "Test accuracy: mean of a run's last ten evaluations (of the last half, if there are fewer); "
    "mean ± standard deviation over seeds, in percent. Precision and recall: of the samples "
    "selected as clean, in the last ten rounds with a selection. Vs. first: difference in points; "
    "* significant at 5 %, corrected for all rows (Holm)."
)


def comparison_lines(
    summary: pd.DataFrame, notes: Mapping[str, str], seeds: int
) -> list[list[str]]:
    """The cells of a table, line by line, without its head.

    Args:
        summary: as :func:`noisyfl.analysis.compared.summarise` returns it.
        notes: what else is said of a method, by its name; may be empty.
        seeds: how many runs each method should have.
    """
    return [_line(cells, notes.get(cells["method"], ""), seeds) for _, cells in summary.iterrows()]


def as_text(summary: pd.DataFrame, notes: Mapping[str, str], seeds: int) -> str:
    """The table in aligned columns."""
    lines: list[list[object]] = [[*HEAD]]
    lines += [[*line] for line in comparison_lines(summary, notes, seeds)]
    return "\n".join(aligned(lines))


def as_markdown(summary: pd.DataFrame, notes: Mapping[str, str], seeds: int, setting: str) -> str:
    """The table as Markdown, with the setting and a legend below it."""
    lines = [
        row([escape_markdown(cell) for cell in line])
        for line in comparison_lines(summary, notes, seeds)
    ]
    return "\n".join(
        [*head(HEAD), *lines, "", escape_markdown(f"{LEGEND} Setting: {setting}."), ""]
    )


def _line(cells: pd.Series, note: str, seeds: int) -> list[str]:
    there = 0 if math.isnan(cells["runs"]) else int(cells["runs"])
    remarks = [note] if note else []
    if there < seeds:
        remarks.append(f"{there} of {seeds} seeds")
    if there and cells["diverged"]:
        remarks.append(f"{int(cells['diverged'])} diverged")
    spread = number(cells["std"])
    difference, p = cells["difference"], cells["p"]
    return [
        cells["method"] + (f" [{', '.join(remarks)}]" if remarks else ""),
        number(cells["accuracy"]) + (f" ± {spread}" if spread else ""),
        *(number(cells["best"]), number(cells["best_round"], 0)),
        *(number(cells["precision"]), number(cells["recall"])),
        "" if math.isnan(difference) else f"{difference:+.1f}",
        "" if math.isnan(p) else f"{p:.3f}{'*' if bool(cells['significant']) else ''}",
        number(cells["seconds"], 0),
    ]
