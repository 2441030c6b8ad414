"""What the declarations say, as tables: in pages, under comments that name what they list.

=====================  =======================================
comment                rows
=====================  =======================================
``options: schedule``  every option of a component
``components``         partitions, label noises and so on
``methods``            every family of methods
``statuses``           every method, and how sure it is
=====================  =======================================
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisyfl.core.options import BadInput, Declaration, Option
from noisyfl.core.registry import Registry
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.experiments.config import PUBLISHED
from noisyfl.methods import METHODS
from noisyfl.models import MODELS
from noisyfl.pages.reasons import method_reasons
from noisyfl.simulation.schedule import SCHEDULES
from noisyfl.specs.catalogue import MethodDeclaration, methods
from noisyfl.specs.published import read_published

COMPONENTS = {
    "partition": PARTITIONS,
    "label_noise": LABEL_NOISES,
    "noise_level": NOISE_LEVELS,
    "model": MODELS,
}
"""By key of a setting, the components that may stand there."""

COMMON = ("clients", "samples")
"""Options that every partition has."""

MARK = re.compile(r"(<!-- (options|components|methods|statuses)(?:: (\w+))? -->\n\n)(?:\|.*\n)*")
"""A comment, and the table under it."""


def fill(text: str, where: str) -> str:
    """A page's text, with the tables under its comments written anew.

    Args:
        text: Markdown.
        where: what the error messages call it.

    Raises:
        BadInput: a comment names something that is not declared.
    """

    def written(found: re.Match) -> str:
        return found[1] + "".join(f"{line}\n" for line in listed(found[2], found[3], where))

    return MARK.sub(written, text)


def listed(kind: str, name: str | None, where: str) -> list[str]:
    """The lines of the table that a comment asks for.

    Args:
        kind: the comment's word.
        name: the component that it names, if any.
        where: what the error messages call the page.
    """
    if kind == "options":
        rows = [option_row(option) for option in declaration(name or "", where).options]
        return table(("option", "default", "meaning"), [(row[0], row[1], row[3]) for row in rows])
    if kind == "components":
        made = [components_row(key, registry) for key, registry in COMPONENTS.items()]
        return table(("key", "components"), made)
    if kind == "methods":
        return table(("family", "methods"), method_rows())
    return table(("method", "status", "source"), status_rows())


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|"]
    for row in rows:
        cells = [" ".join(cell.split()).replace("|", r"\|") for cell in row]
        lines.append("|" + "".join(f" {cell} |" if cell else " |" for cell in cells))
    return lines


def declaration(name: str, where: str) -> Declaration:
    """What a method, a partition, a schedule and so on declares."""
    for registry in (METHODS, SCHEDULES, *COMPONENTS.values()):
        if name in registry.names():
            return registry.declarations()[name]
    raise BadInput(f"{where}: nothing is called {name!r}")


def option_row(option: Option) -> tuple[str, str, str, str]:
    """An option, its default, its alternatives, and what it decides."""
    return f"`{option.name}`", default_of(option), alternatives(option), option.doc


def default_of(option: Option) -> str:
    """The default in words; if it is a share of something, also what it is a share of."""
    if option.required:
        return "required"
    if option.share_of:
        measure, whole = option.share_of
        return f"{literal(option.default)} of {whole:g} {measure.replace('_', ' ')}"
    return "empty" if option.default == "" else literal(option.default).strip('"')


def alternatives(option: Option) -> str:
    """What an option may be besides its default: the values, or *any*."""
    values = (True, False) if option.kind == "bool" else option.choices
    if values is None:
        return "any"
    return ", ".join(f"`{literal(v)}`".replace('"', "") for v in values if v != option.default)


def variant_row(declared: Declaration, variant: str) -> tuple[str, str]:
    """A variant and the options that it sets."""
    options = declared.variants[variant]
    sets = ", ".join(f"`{key}={literal(value)}`" for key, value in options.items())
    return f"`{variant}`", sets


def components_row(key: str, registry: Registry) -> tuple[str, str]:
    """All components of a kind with their options, as they are written in a configuration."""
    called = []
    for name, declared in registry.declarations().items():
        options = [
            f"{option.name}={'...' if option.required else python_literal(option.default)}"
            for option in declared.options
            if option.name not in COMMON
        ]
        called.append(f"`{name}({', '.join(options)})`" if options else f"`{name}`")
    return f"`{key}`", ", ".join(called)


def families() -> dict[str, list[MethodDeclaration]]:
    """The methods by family: those of the papers that are reproduced, and the others by side."""
    papers = {line.fields["paper"] for line in read_published(PUBLISHED)}
    found: dict[str, list[MethodDeclaration]] = {
        "the reproduced papers' own": [],
        "on clients: what is learnt from noisy labels, and how": [],
        "on the server: who takes part, and what models count": [],
        "on both": [],
    }
    own, clients, servers, both = found.values()
    for declared in declared_methods().values():
        if declared.name in papers:
            own.append(declared)
        elif declared.is_client and declared.is_server:
            both.append(declared)
        else:
            (clients if declared.is_client else servers).append(declared)
    return found


def declared_methods() -> dict[str, MethodDeclaration]:
    """The declaration of every method, its options and variants in the order of its class."""
    own = METHODS.declarations()
    return {
        name: replace(one, options=own[name].options, variants=own[name].variants)
        for name, one in methods().items()
    }


def method_rows() -> list[tuple[str, str]]:
    """The methods of each family, with their sources."""
    rows = []
    for family, members in families().items():
        heads = {one.name: summary(one.name).split(":")[0] for one in members}
        listed = ", ".join(f"`{name}`: {head}" for name, head in heads.items())
        rows.append((family, listed.replace(", `", "; `")))
    return rows


def status_rows() -> list[tuple[str, str, str]]:
    """Every method, with a link to the reasons for its choices, how sure it is, and its source."""
    known = method_reasons()
    return [
        (
            f"[{known[one.name].title}](../workflow/reasons/methods/{one.name}.yaml)",
            known[one.name].status,
            one.reference,
        )
        for members in families().values()
        for one in members
        if one.name in known
    ]


def summary(method: str) -> str:
    """The first sentence of the module that a method is in."""
    module = inspect.getmodule(METHODS.get(method, "methods"))
    paragraph = " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    return re.split(r"\. ", paragraph)[0].rstrip(".")


def pages(root: Path) -> dict[Path, str]:
    """The pages of a repository that have such comments, and the text that they should have."""
    found = {}
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = path.read_text()
        if MARK.search(text):
            found[path] = fill(text, path.relative_to(root).as_posix())
    return found


def shared_option(names: Sequence[str], components: Sequence[str], where: str) -> Option:
    """The declaration of options that have the same default and alternatives in some components.

    Args:
        names: of the options.
        components: that have all of them.
        where: what the error messages call the file that names them.

    Raises:
        BadInput: there is no such component or option, or defaults or alternatives differ.
    """
    found: dict[tuple[str, str], Option] = {}
    for component in components:
        options = {option.name: option for option in declaration(component, where).options}
        for name in names:
            if name not in options:
                raise BadInput(f"{where}: {component} has no option {name!r}")
            found[default_of(options[name]), alternatives(options[name])] = options[name]
    if len(found) != 1:
        named = f"{', '.join(names)} of {', '.join(components)}"
        raise BadInput(f"{where}: {named}: expected options with one default, got {list(found)}")
    return next(iter(found.values()))


def literal(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value, ensure_ascii=False)


def python_literal(value: Any) -> str:
    """A value as it is written in a component's text, ``name(key=value)``."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
