"""All published numbers in one file, with ours beside them: a view of the tables' frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from noisyfl.analysis.cells import Cell
from noisyfl.analysis.frame import LABELS, cells_of, read_frames
from noisyfl.analysis.verdicts import NOT_RUN
from noisyfl.core.artifacts import replacing
from noisyfl.core.spreadsheet import as_text
from noisyfl.specs.published import KEY, read_published

OURS = [
    *("shown_in", "row", "column"),
    *("ours", "ours_std", "ours_trials", "ours_starred", "ours_as_published"),
    *("difference", "verdict", "runs"),
]
"""The columns that are added to those of the published numbers."""


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
    found = [_ours(Cell(rows)) for line in cells_of(shown) for rows in line]
    ours = pd.DataFrame(found, columns=[*KEY, *OURS], dtype=object)
    told = numbers.merge(ours, on=list(KEY), how="left", validate="one_to_many")
    told = told.fillna({"ours_trials": 0, "verdict": NOT_RUN})
    with replacing(cells) as draft:
        told.map(as_text).to_csv(draft, index=False, lineterminator="\n")


def _ours(cell: Cell) -> dict[str, Any]:
    """The row of a cell, under the label columns of its published number."""
    facts, ours, off = cell.facts, cell.summary, cell.difference
    return {
        **dict(zip(KEY, (facts[label] for label in LABELS), strict=True)),
        "shown_in": f"{facts['experiment']}/{facts['table']}",
        "row": facts["row"],
        "column": facts["column"],
        "ours": ours and round(ours.mean, 6),
        "ours_std": None if ours is None or ours.std is None else round(ours.std, 6),
        "ours_trials": ours.trials if ours else 0,
        "ours_starred": bool(ours and ours.starred),
        "ours_as_published": cell.as_published,
        "difference": None if off is None else round(off, 6),
        "verdict": cell.verdict,
        "runs": " ".join(cell.runs),
    }
