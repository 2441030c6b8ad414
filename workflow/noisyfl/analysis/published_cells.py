"""All published numbers in one file, with ours beside them: a view of the tables' frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from noisyfl.analysis.cells import Cell
from noisyfl.analysis.frame import LABELS, cells_of, read_frames
from noisyfl.analysis.verdicts import NOT_RUN
from noisyfl.core.artifacts import replacing
from noisyfl.core.spreadsheet import as_text, from_text
from noisyfl.specs.published import KEY, read_published

OURS = {
    **{name: name for name in ("shown_in", "row", "column")},
    **{"ours": "mean", "ours_std": "std", "ours_trials": "trials", "ours_starred": "starred"},
    "ours_as_published": "as_published",
    **{name: name for name in ("difference", "verdict", "runs")},
}
"""The columns beside those of the published numbers, and what :attr:`Cell.row` calls them."""


def write_cells(frames: Iterable[Path], published: Path, cells: Path) -> None:
    """Write the published numbers with ours, in the order of the published ones.

    A published number that no cell of the tables shows has no number of ours, and the verdict
    ``not run``; one that several cells show has a row for each. Ours is in the unit of the
    published number, except that shares are always in percent; ``ours_as_published`` says whether
    it was made exactly in the paper's setting. Names that a spreadsheet would run have an
    apostrophe in front, see :mod:`noisyfl.core.spreadsheet`.

    Args:
        frames: the files of the tables' frames, see :mod:`noisyfl.analysis.frame`.
        published: the file of the papers' own numbers.
        cells: the file that gets the rows.
    """
    numbers = pd.DataFrame([row.fields for row in read_published(published)])
    frame = read_frames(frames)
    shown = frame[frame["trained"].astype(bool) & frame["published"].notna()]
    shown = shown.assign(shown_in=shown["experiment"] + "/" + shown["table"])
    rows = [Cell(rows).row for line in cells_of(shown) for rows in line]
    ours = pd.DataFrame(rows, dtype=object).reindex(columns=[*LABELS, *OURS.values()])
    ours.columns = pd.Index([*KEY, *OURS])
    both = numbers.merge(ours, on=list(KEY), how="left", validate="one_to_many")
    both = both.fillna({"ours_trials": 0, "verdict": NOT_RUN})
    with replacing(cells) as draft:
        both.map(as_text).to_csv(draft, index=False, lineterminator="\n")


def read_cells(cells: Path) -> list[dict[str, str]]:
    """The rows that :func:`write_cells` wrote, as texts by column."""
    with cells.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [{name: from_text(text) for name, text in row.items()} for row in rows]
