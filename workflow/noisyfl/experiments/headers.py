"""A table's rows and columns as its YAML writes them, and what each overrides of the setting."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from noisyfl.core.options import BadInput, find
from noisyfl.experiments.experiment import Column, RowEntry
from noisyfl.experiments.setting import merge
from noisyfl.specs.catalogue import is_bound
from noisyfl.specs.descriptions import Heading


@dataclass(frozen=True, kw_only=True)
class Header(Heading):
    """A row or a column, and what it overrides of the setting.

    Attributes:
        place: where it stands in the file.
        method: of a row, its method; of a column, options that it adds to every row's method.
        method_in: of a row, by setting: the method in that setting, where it differs.
        overrides: the part of the setting that it overrides.
        setting: the name of the setting that it has instead of the table's.
    """

    place: str
    method_in: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    setting: str | None = None

    def heading(self) -> Heading:
        """The part of it that a table's or figure's description has."""
        return Heading(**{f.name: getattr(self, f.name) for f in fields(Heading)})


def rows_of(entries: Sequence[RowEntry], where: str) -> list[Header]:
    """A table's rows; :class:`BadInput` if two have the same name."""
    return distinct([_header(row, f"{where}[{n}]") for n, row in enumerate(entries)], where)


def columns_of(entries: Sequence[Column | Sequence[Column]], where: str) -> list[Header]:
    """A table's columns: as listed, or the product of several lists, the outermost list first.

    Raises:
        BadInput: two columns have the same name, or one averages columns without runs of that name,
            or is to be computed from others in a product.
    """
    columns, axes = [], []
    for n, part in enumerate(entries):
        if isinstance(part, Column):
            columns.append(_header(part, f"{where}[{n}]"))
        else:
            axes.append([_header(one, f"{where}[{n}][{m}]") for m, one in enumerate(part)])
    for column in itertools.chain(*axes):
        if not column.has_runs:
            key = "mean_of" if column.mean_of else "average_rank"
            raise BadInput(
                f"{column.place}.{key}: got it in a product of columns, expected it in a list"
            )
    columns += [_joined(parts) for parts in itertools.product(*axes) if parts]
    distinct(columns, where)
    averaged = [column.name for column in columns if column.has_runs]
    for column in columns:
        check_known(averaged, column.mean_of, "column", f"{where}: {column.name!r}: mean_of")
    by_name = {column.name: column for column in columns}
    return [_as_averaged(column, by_name) for column in columns]


def _as_averaged(column: Header, by_name: Mapping[str, Header]) -> Header:
    """A column that averages others with their metric and statistic; others as they are.

    Raises:
        BadInput: these differ from each other, or from what the column gives.
    """
    given: dict[str, Any] = {}
    for key in ("metric", "statistic") if column.mean_of else ():
        found = {getattr(by_name[name], key) for name in column.mean_of}
        if len(found) > 1 or getattr(column, key) not in (None, *found):
            words = ", ".join(sorted(one or "the table's" for one in found))
            raise BadInput(
                f"{column.place}.mean_of: got columns whose {key} is {words}, expected the same "
                "for all, and for their mean"
            )
        given[key] = found.pop()
    return replace(column, **given)


def check_known(known: Iterable[str], names: Iterable[str], kind: str, where: str) -> None:
    """Raise :class:`BadInput` if one of some names, which stand at ``where``, is not known."""
    there = dict.fromkeys(known)
    for name in names:
        find(there, name, kind, where)


def _header(entry: RowEntry | Column, where: str) -> Header:
    given: dict[str, Any] = {
        key: getattr(entry, key)
        for key in {one.name for one in fields(Header)} & type(entry).model_fields.keys()
    }
    # Where a row or a column gives none, it is the table's.
    given |= {key: given[key] or None for key in ("setting", "metric", "statistic")}
    given |= {
        "name": f"{entry.group}, {entry.name}" if entry.group else entry.name,
        "label": entry.name,
        "place": where,
        "overrides": entry.with_.as_given(),
        "mean_of": tuple(given.get("mean_of", ())),
    }
    if isinstance(entry, RowEntry) and entry.ranked is None:
        given["ranked"] = not is_bound(entry.method, where)
    return Header(**given)


def _joined(parts: Sequence[Header]) -> Header:
    """One column of a product. A single value is taken from the innermost part that has one."""

    def last(key: str) -> Any:
        return next((getattr(p, key) for p in reversed(parts) if getattr(p, key) is not None), None)

    def merged(key: str) -> dict[str, Any]:
        return {k: v for part in parts for k, v in (getattr(part, key) or {}).items()}

    compared = all(part.published is not None for part in parts)
    return Header(
        name=", ".join(part.name for part in parts),
        place=parts[-1].place,
        label=parts[-1].label,
        group=", ".join(part.name for part in parts[:-1]),
        method=merged("method") or None,
        overrides=merge(*(part.overrides for part in parts)),
        setting=last("setting"),
        published=merged("published") if compared else None,
        metric=last("metric"),
        statistic=last("statistic"),
        x=last("x"),
    )


def distinct(headers: list[Header], where: str) -> list[Header]:
    """The rows or columns; :class:`BadInput` if two have the same name."""
    names = [header.name for header in headers]
    for twice in {name for name in names if names.count(name) > 1}:
        raise BadInput(f"{where}: two are called {twice!r}, expected names to differ")
    return headers


def shown_places(
    headers: Sequence[Header], headings: Sequence[Heading], chosen: list[str], where: str
) -> list[int]:
    """The numbers of a table's rows or columns that a figure shows.

    If the scale keeps a part of the table, these are the wanted ones that are left; if none are
    left, all that the table keeps.

    Args:
        headers: those of the experiment's file that have runs.
        headings: those that the scale keeps.
        chosen: the names of those to be shown; none: all that have runs.
        where: ``chosen`` stands; it ends with a key such as ``rows``.
    """
    names = [heading.name for heading in headings]
    known = [header.name for header in headers]
    check_known(known, chosen, where.rpartition(".")[2].removesuffix("s"), where)
    left = [name for name in chosen if name in names] or known
    return [names.index(name) for name in left if name in names]
