"""What the declarations say, as tables: in pages, under comments that name what they list.

=====================  =======================================
comment                rows
=====================  =======================================
``options: schedule``  every option of a component
``components``         partitions, label noises and so on
``methods``            every family of methods
``statuses``           every method, and how sure it is
``keys``               every key of a scale
=====================  =======================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.core.registry import Component, Registry
from noisyfl.core.typed import choices_of, type_of
from noisyfl.data.datasets.own_images import Images
from noisyfl.documentation.configuration_page import keys_table
from noisyfl.documentation.markdown import table
from noisyfl.experiments.config import PUBLISHED
from noisyfl.experiments.editor_schemas import COMMON
from noisyfl.methods import METHODS
from noisyfl.pages.reasons import method_reasons
from noisyfl.simulation.client_side import Side
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import method_summary, methods
from noisyfl.specs.published import read_published
from noisyfl.specs.spec import REGISTRIES

MARK = re.compile(
    r"(<!-- (options|components|methods|statuses|keys)(?:: (\w+))? -->\n\n)(?:\|.*\n)*"
)
"""A comment, and the table under it."""


def fill(text: str, where: str) -> str:
    """A page's text, with the tables under its comments rewritten.

    Raises:
        BadInput: a comment names something that is not declared.
    """

    def fill_in(found: re.Match) -> str:
        return found[1] + "".join(f"{line}\n" for line in table_lines(found[2], found[3], where))

    return MARK.sub(fill_in, text)


def table_lines(kind: str, name: str | None, where: str) -> list[str]:
    """The lines of the table that a comment asks for."""
    if kind == "options":
        component = declaration(name or "", where)
        rows = [option_row(component, option) for option in component.model_fields]
        return table(("option", "default", "meaning"), rows)
    if kind == "components":
        made = [components_row(key, registry) for key, registry in REGISTRIES.items()]
        return table(("key", "components"), made)
    if kind == "methods":
        return table(("family", "methods"), method_rows())
    if kind == "keys":
        return keys_table("config")
    return table(("method", "status", "source"), status_rows())


def declaration(name: str, where: str) -> type[Component]:
    """The class of a method, a partition, the schedule and so on."""
    known: dict[str, type[Component]] = {}
    for registry in REGISTRIES.values():
        known |= registry.classes
    known |= {"schedule": Schedule, Images.name: Images, **METHODS.classes}
    if name in known:
        return known[name]
    raise BadInput(f"{where}: nothing is called {name!r}")


def option_row(component: type[Component], option: str) -> tuple[str, str, str]:
    """An option, its default, and what it decides."""
    does = component.model_fields[option].description or ""
    return f"`{option}`", default_of(component, option), does


def default_of(component: type[Component], option: str) -> str:
    """The default in words; if it is a share of something, also what it is a share of."""
    if component.model_fields[option].is_required():
        return "required"
    default = component.defaults()[option]
    if share := component.extras("share_of").get(option):
        measure, whole = share
        return f"{literal(default)} of {whole:g} {measure.replace('_', ' ')}"
    return "empty" if default == "" else literal(default).strip('"')


def alternatives(component: type[Component], option: str) -> str:
    """What an option may be besides its default: the values, or *any*."""
    field = component.model_fields[option]
    values = (True, False) if type_of(field) is bool else choices_of(field)
    if values is None:
        return "any"
    return ", ".join(f"`{literal(v)}`".replace('"', "") for v in values if v != field.default)


def variant_sets(component: type[Component], variant: str) -> str:
    """The options that a variant sets."""
    options = component.variants[variant]
    return ", ".join(f"`{key}={literal(value)}`" for key, value in options.items())


def components_row(key: str, registry: Registry) -> tuple[str, str]:
    """All components of a kind with their options, as they are written in a configuration."""
    called = []
    for name, component in sorted(registry.classes.items()):
        defaults = {key: python_literal(value) for key, value in component.defaults().items()}
        options = [
            f"{option}={defaults.get(option, '...')}"
            for option in component.model_fields
            if option not in COMMON
        ]
        called.append(f"`{name}({', '.join(options)})`" if options else f"`{name}`")
    return f"`{key}`", ", ".join(called)


def families() -> dict[str, list[type[Side]]]:
    """The methods by family: those of the papers that are reproduced, and the others by side."""
    papers = {line.fields["paper"] for line in read_published(PUBLISHED)}
    found: dict[str, list[type[Side]]] = {
        "the five reproduced papers": [],
        "client side: learning from noisy labels": [],
        "server side: selection and aggregation": [],
        "both sides": [],
    }
    own, clients, servers, both = found.values()
    for component in methods().values():
        if component.name in papers:
            own.append(component)
        elif component.is_client and component.is_server:
            both.append(component)
        else:
            (clients if component.is_client else servers).append(component)
    return found


def method_rows() -> list[tuple[str, str]]:
    """The methods of each family, with their sources."""
    rows = []
    for family, members in families().items():
        heads = {one.name: method_summary(one.name).split(":")[0] for one in members}
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


def pages() -> dict[Path, str]:
    """The pages of a repository that have such comments, and the text that they should have.

    Raises:
        BadInput: a comment names something that is not declared.
    """
    found = {}
    for path in (
        ROOT / "README.md",
        ROOT / "config" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ):
        text = path.read_text()
        if MARK.search(text):
            found[path] = fill(text, path.relative_to(ROOT).as_posix())
    return found


def shared_option(names: Sequence[str], components: Sequence[str], where: str) -> tuple[str, str]:
    """The default and the alternatives that options have in each of some components.

    Raises:
        BadInput: there is no such component or option, or defaults or alternatives differ.
    """
    found = set()
    for component in components:
        declared = declaration(component, where)
        for name in names:
            if name not in declared.model_fields:
                raise BadInput(f"{where}: {component} has no option {name!r}")
            found.add((default_of(declared, name), alternatives(declared, name)))
    if len(found) != 1:
        named = f"{', '.join(names)} of {', '.join(components)}"
        raise BadInput(f"{where}: {named}: expected options with one default, got {found}")
    return found.pop()


def literal(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value, ensure_ascii=False)


def python_literal(value: Any) -> str:
    """A value as it is written in a component's text, ``name(key=value)``."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
