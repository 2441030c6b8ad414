"""Tables in pages that are filled in from the declarations.

A comment in a page says what the table under it shows. Some columns, known by their headers, are
then written from the declarations. All other columns are the author's, and stay with their row:

======================  =========================================  ==============================
comment                 rows                                       columns that are written
======================  =========================================  ==============================
``options: fedcorr``    every option of the component              option, default, alternatives,
                                                                   what it decides
``variants: fedcorr``   every variant of the method                variant, sets
``defaults``            the author's; written only in those that   default, alternatives
                        begin with *`option` of `component`*
``components``          partitions, label noises and so on         key, components
``methods``             every family of methods                    family, methods
======================  =========================================  ==============================
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.registry import Component, Registry
from noisyfl.core.typed import choices_of, type_of
from noisyfl.experiments.config import PUBLISHED
from noisyfl.experiments.editor_schemas import COMMON
from noisyfl.experiments.setting import REGISTRIES
from noisyfl.methods import METHODS
from noisyfl.simulation.client_side import Side
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import methods, summary
from noisyfl.specs.published import read_published

MARK = re.compile(r"<!-- (options|variants|defaults|components|methods)(?:: (\w+))? -->")

Row = dict[str, str]
"""A table's row: cells by header."""


def fill(text: str, where: str) -> str:
    """A page's text, with the tables under its comments written anew.

    Args:
        text: Markdown.
        where: what the error messages call it.

    Raises:
        BadInput: a comment has no table under it, or names something that is not declared.
    """
    lines = text.split("\n")
    written: list[str] = []
    while lines:
        line = lines.pop(0)
        written.append(line)
        mark = MARK.fullmatch(line)
        if mark is None:
            continue
        while lines and not lines[0]:
            written.append(lines.pop(0))
        table = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
        if len(table) < 2:
            raise BadInput(f"{where}: {line}: expected a table under it, its header at least")
        del lines[: len(table)]
        headers = _cells(table[0])
        rows = [dict(zip(headers, _cells(row), strict=True)) for row in table[2:]]
        written += table[:2]
        for row in _rows(mark[1], mark[2], rows, f"{where}: {line}"):
            cells = [row.get(header, "") for header in headers]
            written.append("|" + "".join(f" {cell} |" if cell else " |" for cell in cells))
    return "\n".join(written)


def _rows(kind: str, name: str | None, rows: Sequence[Row], where: str) -> Iterable[Row]:
    """The rows of a table: generated cells, and the author's other cells of the same rows."""
    if kind == "defaults":
        return [{**row, **_declared_cells(row, where)} for row in rows]
    if kind == "components":
        made = [components_row(key, registry) for key, registry in REGISTRIES.items()]
    elif kind == "methods":
        made = method_rows()
    elif kind == "options":
        declared = declaration(name or "", where)
        made = [option_row(declared, option) for option in declared.model_fields]
    else:
        declared = declaration(name or "", where)
        made = [variant_row(declared, variant) for variant in declared.variants]
    own = {first(row): row for row in rows}
    return [{**own.get(first(row), {}), **row} for row in made]


def declaration(name: str, where: str) -> type[Component]:
    """The class of a method, a partition, the schedule and so on."""
    known: dict[str, type[Component]] = {"schedule": Schedule, **METHODS.classes}
    for registry in REGISTRIES.values():
        known = {**registry.classes, **known}
    if name in known:
        return known[name]
    raise BadInput(f"{where}: nothing is called {name!r}")


def option_row(declared: type[Component], option: str) -> Row:
    """What an option's declaration says, by header."""
    does = (declared.model_fields[option].description or "").replace("|", r"\|")
    return {
        "option": f"`{option}`",
        "default": default_of(declared, option),
        "alternatives": alternatives(declared, option),
        "what it decides": does,
        "meaning": does,
    }


def default_of(declared: type[Component], option: str) -> str:
    """The default in words; if it is a share of something, also what it is a share of."""
    if declared.model_fields[option].is_required():
        return "required"
    default = declared.defaults()[option]
    if share := declared.extras("share_of").get(option):
        measure, whole = share
        return f"{literal(default)} of {whole:g} {measure.replace('_', ' ')}"
    return "empty" if default == "" else literal(default).strip('"')


def alternatives(declared: type[Component], option: str) -> str:
    """What an option may be besides its default: the values, or *any*."""
    field = declared.model_fields[option]
    values = (True, False) if type_of(field) is bool else choices_of(field)
    if values is None:
        return "any"
    return ", ".join(f"`{literal(v)}`".replace('"', "") for v in values if v != field.default)


def variant_row(declared: type[Component], variant: str) -> Row:
    """A variant and the options that it sets."""
    options = declared.variants[variant]
    sets = ", ".join(f"`{key}={literal(value)}`" for key, value in options.items())
    return {"variant": f"`{variant}`", "sets": sets}


def components_row(key: str, registry: Registry) -> Row:
    """All components of a kind with their options, as they are written in a configuration."""
    called = []
    for name, declared in sorted(registry.classes.items()):
        defaults = {key: python_literal(value) for key, value in declared.defaults().items()}
        options = [
            f"{option}={defaults.get(option, '...')}"
            for option in declared.model_fields
            if option not in COMMON
        ]
        called.append(f"`{name}({', '.join(options)})`" if options else f"`{name}`")
    return {"key": f"`{key}`", "components": ", ".join(called)}


def families() -> dict[str, list[type[Side]]]:
    """The methods by family: those of the papers that are reproduced, and the others by side."""
    papers = {line.fields["paper"] for line in read_published(PUBLISHED)}
    found: dict[str, list[type[Side]]] = {
        "the reproduced papers' own": [],
        "on clients: what is learnt from noisy labels, and how": [],
        "on the server: who takes part, and what models count": [],
        "on both": [],
    }
    own, clients, servers, both = found.values()
    for declared in methods().values():
        if declared.name in papers:
            own.append(declared)
        elif declared.is_client and declared.is_server:
            both.append(declared)
        else:
            (clients if declared.is_client else servers).append(declared)
    return found


def method_rows() -> list[Row]:
    """The methods of each family, with their sources."""
    rows = []
    for family, members in families().items():
        heads = {one.name: summary(one.name).split(":")[0] for one in members}
        listed = ", ".join(f"`{name}`: {head}" for name, head in heads.items())
        rows.append({"family": family, "methods": listed.replace(", `", "; `")})
    return rows


def pages(root: Path) -> dict[Path, str]:
    """The pages of a repository that have such comments, and the text that they should have."""
    found = {}
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = path.read_text()
        if any(MARK.fullmatch(line) for line in text.split("\n")):
            found[path] = fill(text, path.relative_to(root).as_posix())
    return found


def _declared_cells(row: Mapping[str, str], where: str) -> Row:
    """The default and the alternatives of a row *`option` of `component`, `component`*."""
    named = re.match(r"(`\w+`(?:, `\w+`)*) of (`\w+`(?:, `\w+`)*)$", next(iter(row.values())))
    if named is None:
        return {}
    made = set()
    for component in re.findall(r"\w+", named[2]):
        declared = declaration(component, where)
        for name in re.findall(r"\w+", named[1]):
            if name not in declared.model_fields:
                raise BadInput(f"{where}: {component} has no option {name!r}")
            made.add((default_of(declared, name), alternatives(declared, name)))
    if len(made) != 1:
        raise BadInput(f"{where}: {named[0]}: expected options with one default, got {made}")
    ((default, others),) = made
    return {"default": default, "alternatives": others}


def first(row: Mapping[str, str]) -> str:
    """The first cell of a row, by which the row is known."""
    return next(iter(row.values()))


def _cells(line: str) -> list[str]:
    """The cells of a line of a table; ``\\|`` is no border."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def literal(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value, ensure_ascii=False)


def python_literal(value: Any) -> str:
    """A value as it is written in a component's text, ``name(key=value)``."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
