"""The papers' own numbers, and which of them belongs to which cell of our tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from noisyfl.core.options import BadInput, did_you_mean, not_utf8
from noisyfl.specs.descriptions import Heading, Labels

PAPERS = {
    "fedcni": "FedCNI",
    "fedcorr": "FedCorr",
    "fednoil": "FedNoiL",
    "fedrn": "FedRN",
    "rofl": "RoFL",
}
"""What each paper calls its method."""

KEY = (
    *("paper", "table", "dataset", "setting_scope", "partition", "noise"),
    *("method", "variant", "metric"),
)
"""The label columns, which together identify one published number."""

PRINTED = ("value", "std", "unit", "trials", "converged")
"""Columns that hold what the paper prints."""

LINE = ("setting_scope", "method", "variant")
"""Label columns that identify a line of a printed table."""

SCALES = {"percent": 1.0, "fraction": 100.0, "seconds": 1.0}
"""Units that numbers are published in, each with the factor that makes shares percentages."""


@dataclass(frozen=True)
class Number:
    """A published number.

    Attributes:
        value: in percent if it is a share, else in the unit that it is published in.
        std: the standard deviation in the unit of the value, if the paper gives one.
        starred: the paper prints the maximum, since the runs did not converge.
        decimals: how many decimals of the value the paper prints.
    """

    value: float
    std: float | None
    starred: bool
    decimals: int

    @classmethod
    def of(cls, fields: Labels) -> Number:
        """The number that a row of the file prints, whose texts are given by column."""
        printed = len(fields["value"].partition(".")[2])
        factor = SCALES[fields["unit"]]
        return cls(
            value=float(fields["value"]) * factor,
            std=float(fields["std"]) * factor if fields["std"] else None,
            starred=fields["converged"].lower() == "false",
            decimals=max(0, printed - 2) if fields["unit"] == "fraction" else printed,
        )


@dataclass(frozen=True)
class Published:
    """One row of the file of published numbers.

    Attributes:
        line: its line number in the file, which is used in error messages only.
        fields: its texts by column.
    """

    line: int
    fields: Mapping[str, str]

    @property
    def number(self) -> Number:
        """What the row prints."""
        return Number.of(self.fields)


def read_published(*paths: Path) -> list[Published]:
    """Every row of files of published numbers; those of a paper come from the first that has any.

    Raises:
        BadInput: a file is none of published numbers; names the line.
    """
    found: list[Published] = []
    for path in paths:
        papers = {row.fields["paper"] for row in found}
        found += [row for row in _rows(path) if row.fields["paper"] not in papers]
    return found


def _rows(path: Path) -> list[Published]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        found = list(_read(rows, path))
    except csv.Error as error:
        raise BadInput(f"{path}, line {rows.line_num}: not CSV ({error})") from error
    if not found:
        raise BadInput(f"{path}: got no rows, expected one for each published number")
    lines: dict[tuple[str, ...], int] = {}
    for row in found:
        if row.fields["unit"] not in SCALES:
            known = " or ".join(SCALES)
            got = row.fields["unit"]
            raise BadInput(f"{path}, line {row.line}: unit: got {got!r}, expected {known}")
        most = math.inf if row.fields["unit"] == "seconds" else 100 / SCALES[row.fields["unit"]]
        for column, read, least, largest in (
            ("value", float, 0, most),
            ("std", float, 0, most),
            ("trials", int, 1, math.inf),
        ):
            text = row.fields[column]
            expected = "a number"
            with suppress(ValueError):
                number = read(text) if text or column == "value" else least
                if least <= number <= largest and math.isfinite(number):
                    continue
                expected = f"a finite number of {least} or more"
                if largest < math.inf:
                    expected = f"{least} to {largest:g}, since the unit is {row.fields['unit']}"
            raise BadInput(f"{path}, line {row.line}: {column}: got {text!r}, expected {expected}")
        if row.fields["converged"].lower() not in ("", "true", "false"):
            got = row.fields["converged"]
            raise BadInput(
                f"{path}, line {row.line}: converged: got {got!r}, expected true, false or nothing"
            )
        key = tuple(row.fields[column] for column in KEY)
        if lines.setdefault(key, row.line) != row.line:
            raise BadInput(
                f"{path}: lines {lines[key]} and {row.line} have the same labels "
                f"({', '.join(filter(None, key))}), expected one number for them"
            )
    return found


def _read(rows: Any, path: Path) -> Iterator[Published]:
    """The rows of a reader of CSV; its columns are checked."""
    columns: list[str] = next(rows, [])
    for column in (*KEY, *PRINTED):
        if columns.count(column) != 1:
            got = "no" if column not in columns else "more than one"
            raise BadInput(f"{path}, line 1: got {got} column {column!r}, expected one")
    for values in filter(None, rows):  # a blank line has none
        if len(values) != len(columns):
            raise BadInput(
                f"{path}, line {rows.line_num}: number of values: got {len(values)}, expected "
                f"{len(columns)}, one for each column, even if it is empty"
            )
        yield Published(rows.line_num, dict(zip(columns, values, strict=True)))


def _select(rows: Iterable[Published], labels: Labels, where: str) -> Published | None:
    """The row whose columns have the wanted values, or None; :class:`BadInput` if several fit."""
    found = [row for row in rows if all(row.fields[c] == value for c, value in labels.items())]
    if len(found) > 1:
        differing = [c for c in KEY if len({row.fields[c] for row in found}) > 1]
        raise BadInput(
            f"{where}: got {dict(labels)!r}, expected what fits one row of the published numbers, "
            f"but lines {', '.join(str(row.line) for row in found)} fit; they differ in "
            f"{', '.join(differing)}"
        )
    return found[0] if found else None


def _check_labels(rows: Sequence[Published], labels: Labels, where: str) -> None:
    """Raise :class:`BadInput` if there is no such label column, or no row has its value."""
    for column, value in labels.items():
        known = KEY if column not in KEY else dict.fromkeys(row.fields[column] for row in rows)
        kind = "label column" if column not in KEY else column
        got = column if column not in KEY else value
        if got not in known:
            raise BadInput(
                f"{where}: the published numbers have no {kind} {got!r}{did_you_mean(got, known)} "
                f"(known: {', '.join(known)})"
            )


class Joined(NamedTuple):
    """The published numbers of a table.

    Attributes:
        cells: by row and column, the label columns of the cell's number and the number itself by
            :data:`PRINTED`; where it has none, the labels that would select one, and nothing.
        others: the label columns and :data:`PRINTED` of every number that may stand in the table
            and belongs to none of its cells.
    """

    cells: tuple[tuple[tuple[Labels, Labels], ...], ...]
    others: tuple[Labels, ...]


def join(
    published: Sequence[Published],
    selection: Labels | None,
    rows: Sequence[Heading],
    columns: Sequence[Heading],
    metric: str,
    where: str,
) -> Joined:
    """Find each cell's number by its labels.

    A cell's labels are collected from these sources, of which a later one overrides an earlier one:
    the metric that the cell shows, the table's selection, the row's method and variant, the
    column's own labels, the row's own labels.

    Args:
        selection: the table's; None for a table of no paper.
        metric: the metric of the cells whose row and column name no other.
        where: what the error messages call the table.

    Raises:
        BadInput: several numbers fit a cell, or none has a label that the table asks for.
    """
    known = []
    if selection is not None:
        _check_labels(published, selection, f"{where}.published")
        headings = [*rows, *columns]
        known = _numbers(published, selection, headings)
        for heading in headings:
            _check_labels(known, heading.published or {}, f"{where}: {heading.name!r}: published")
    of_method: dict[str, list[Published]] = {}
    for number in known:
        of_method.setdefault(number.fields["method"], []).append(number)

    def of_cell(row: Heading, column: Heading) -> tuple[Labels, Labels]:
        wanted = {
            "metric": row.metric or column.metric or metric,
            **(selection or {}),
            "method": row.method_name,
            "variant": row.variant,
            **(column.published or {}),
            **(row.published or {}),
        }
        place = f"{where}: row {row.name!r}, column {column.name!r}"
        compared = row.published is not None and column.published is not None
        # A column without runs of its own may have published numbers only if it selects them.
        compared = compared and (column.has_runs or bool(column.published))
        candidates = of_method.get(wanted["method"], [])
        number = _select(candidates, wanted, place) if compared else None
        if number is None:
            return wanted, {}
        return _some(number, KEY), _some(number, PRINTED)

    cells = tuple(tuple(of_cell(row, column) for column in columns) for row in rows)
    placed = {tuple(labels.values()) for line in cells for labels, number in line if number}
    others = [one for one in known if tuple(_some(one, KEY).values()) not in placed]
    return Joined(cells, tuple(_some(one, (*KEY, *PRINTED)) for one in others))


def _some(number: Published, columns: Iterable[str]) -> Labels:
    return {column: number.fields[column] for column in columns}


def _numbers(
    published: Sequence[Published], selection: Labels, headings: Sequence[Heading]
) -> list[Published]:
    """The numbers that may be in a table, of any method."""
    own = [heading.published or {} for heading in headings]
    allowed = {
        key: {value, *(labels[key] for labels in own if key in labels)}
        for key, value in selection.items()
        if key not in LINE
    }
    return [
        row for row in published if all(row.fields[key] in some for key, some in allowed.items())
    ]
