"""A page for each method, made from its class: source, equations, options, variants, code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from noisyfl.core.typed import choices_of, is_list, is_nullable, limits_of, type_of
from noisyfl.documentation.option_tables import (
    families,
    option_row,
    variant_row,
)
from noisyfl.experiments.config import ROOT
from noisyfl.simulation.client_side import Side
from noisyfl.specs.catalogue import methods, summary

NUMBERS = r"[A-Z]?\d+(?:\.\d+)*(?:(?:, | and | to )\d+)*"

PLACE = re.compile(rf"(?:Eqs?\.|Figs?\.|Algorithm|Tables?|Section|footnote)\s{NUMBERS}")
"""How docstrings and comments refer to a place in a paper."""


def pages() -> dict[str, str]:
    """A page for each method, and one that lists them, by name in the site."""
    found = {"methods/index.md": index()}
    for name in methods():
        found[f"methods/{name}.md"] = page(name)
    return found


def index() -> str:
    """The page that lists the methods by family, with links to their pages."""
    lines = ["# Methods", ""]
    lines += [
        "A server side and a client side combine: `krum+dividemix`, `distributed+coteaching`.",
        "Which choices stand behind the defaults, and why, is in [Fidelity](../fidelity.md).",
    ]
    for family, members in families().items():
        lines += ["", f"## {family[0].upper()}{family[1:]}", ""]
        rows = [(f"[`{one.name}`]({one.name}.md)", summary(one.name)) for one in members]
        lines += table(("method", "what it does"), rows)
    return "\n".join(lines) + "\n"


def page(name: str) -> str:
    """A method's page."""
    declared = methods()[name]
    path = Path(inspect.getsourcefile(declared) or "")
    where, source = path.relative_to(ROOT).as_posix(), path.read_text()
    module = inspect.cleandoc(ast.get_docstring(ast.parse(source)) or "")
    lines = [f"# {name}", "", markdown(module), "", *table(*facts(declared, where))]
    lines += ["", markdown(inspect.getdoc(declared) or "")]
    if declared.model_fields:
        rows = [
            (row["option"], row["default"], allowed(field), row["what it decides"])
            for option, field in declared.model_fields.items()
            for row in [option_row(declared, option)]
        ]
        lines += ["", "## Options", ""]
        lines += table(("option", "default", "may be", "what it decides"), rows)
        lines += ["", reasons(name)]
    if declared.variants:
        variants = [variant_row(declared, variant) for variant in declared.variants]
        lines += ["", "## Variants", ""]
        lines += table(("variant", "sets"), [(row["variant"], row["sets"]) for row in variants])
    lines += ["", "## The paper in the code", "", *table(("place", "code", "what"), places(source))]
    lines += ["", f'??? abstract "{where}"', "", '    ```python linenums="1"']
    lines += [f"    {line}" if line else "" for line in source.rstrip().split("\n")]
    return "\n".join([*lines, "    ```", ""])


def facts(declared: type[Side], where: str) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """What a method declares besides its options: the table's header (its source) and the rows."""
    sides = ["server"] * declared.is_server + ["client"] * declared.is_client
    found = [
        ("code", f"[{where}](../../{where})"),
        ("sides", " and ".join(sides)),
        ("revision", f"{declared.revision}, raised when its arithmetic changes"),
        ("networks of a model", str(declared.networks)),
        ("models kept for each client", str(declared.models_kept)),
        ("seconds of a round", f"about {declared.effort:g} times FedAvg's for each network"),
        ("knows the true labels", "yes" if declared.needs_truth else "no"),
    ]
    if declared.partner:
        behind = f"`{declared.name}+...`, with a {declared.partner} side behind it"
        found.append(("combines", behind))
    return ("source", declared.reference), found


def allowed(field: FieldInfo) -> str:
    """What an option may be, in words."""
    choices = choices_of(field)
    if choices is not None:
        found = ", ".join(f"`{choice}`" for choice in choices)
    else:
        words = {bool: "`true`, `false`", int: "a whole number", float: "a number", str: "text"}
        bounds = " and ".join(f"{word} {bound:g}" for word, bound in limits_of(field).items())
        found = f"{words[type_of(field)]} {bounds}".strip()
    found = f"a list: {found}" if is_list(field) else found
    return f"{found}, or null" if is_nullable(field) else found


def reasons(name: str) -> str:
    """A sentence with a link to the section of ``docs/fidelity.md`` with the table of a method's
    options, or one that says that there is none, as for a method of one's own.
    """
    heading = ""
    for line in (ROOT / "docs" / "fidelity.md").read_text().split("\n"):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if line == f"<!-- options: {name} -->":
            anchor = re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
            return f"The reasons for the defaults: [Fidelity, {heading}](../fidelity.md#{anchor})."
    return "[Fidelity](../fidelity.md) does not give the reasons for the defaults yet."


def places(source: str) -> list[tuple[str, str, str]]:
    """A row for each function or class that names a place of a paper, with a link to its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        text = ast.get_docstring(node) or ""
        named = list(dict.fromkeys(" ".join(one.split()) for one in PLACE.findall(text)))
        if named:
            # As HTML: MkDocs does not know the listing's anchors when it checks links.
            link = f'<a href="#__codelineno-0-{node.lineno}"><code>{node.name}</code></a>'
            found.append((node.lineno, ", ".join(named), link, markdown(text.split("\n\n")[0])))
    return [row[1:] for row in sorted(found)]


def markdown(text: str) -> str:
    """A docstring as Markdown: roles as plain code."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; a sentence instead if it has no rows."""
    lines = ["| " + " | ".join(" ".join(cell.split()) for cell in row) + " |" for row in rows]
    if not lines:
        return ["Its docstrings name none."]
    return [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|", *lines]
