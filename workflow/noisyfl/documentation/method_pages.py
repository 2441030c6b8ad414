"""A page for each method: its source, options and variants, why they are so, and its code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from noisyfl.core.places import ROOT
from noisyfl.core.typed import choices_of, is_list, is_nullable, limits_of, type_of
from noisyfl.documentation.markdown import table
from noisyfl.documentation.option_tables import families, option_row, variant_sets
from noisyfl.documentation.subject_pages import notes, rows_about
from noisyfl.pages.markdown import from_docstring
from noisyfl.pages.reasons import MethodReasons, Reason, method_reasons, subjects
from noisyfl.simulation.client_side import Side
from noisyfl.specs.catalogue import method_summary, methods

NUMBERS = r"[A-Z]?\d+(?:\.\d+)*(?:(?:, | and | to )\d+)*"

PLACE = re.compile(rf"(?:Eqs?\.|Figs?\.|Algorithm|Tables?|Section|footnote)\s{NUMBERS}")
"""How docstrings and comments refer to a place in a paper."""


BELOW = "see [Choices](#choices)"
"""The reason for an option that notes are about."""


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
        "Which methods are there, and what does each do?",
        "",
        "A server side and a client side combine: `krum+dividemix`, `distributed+coteaching`.",
        "[Fidelity](../fidelity.md) shows how close each is to its paper and its code.",
    ]
    for family, members in families().items():
        lines += ["", f"## {family[0].upper()}{family[1:]}", ""]
        rows = [(f"[`{one.name}`]({one.name}.md)", method_summary(one.name)) for one in members]
        lines += table(("method", "what it does"), rows)
    return "\n".join(lines) + "\n"


def page(name: str) -> str:
    """A method's page."""
    component = methods()[name]
    path = Path(inspect.getsourcefile(component) or "")
    where, source = path.relative_to(ROOT).as_posix(), path.read_text()
    module = ast.get_docstring(ast.parse(source)) or ""
    reasons = method_reasons().get(name)
    lines = [f"# {name}", "", from_docstring(module), ""]
    lines += table(*facts(component, where, reasons.status if reasons else ""))
    lines += ["", from_docstring(inspect.getdoc(component) or "")]
    lines += choices(component, reasons or MethodReasons(title=name, status="open"))
    if reasons is None:
        lines += ["", "[Fidelity](../fidelity.md) does not give the reasons for the defaults yet."]
    named = places(source)
    lines += ["", "## The paper in the code", ""]
    lines += table(("place", "code", "what"), named) if named else ["Its docstrings name none."]
    lines += ["", f'??? abstract "{where}"', "", '    ```python linenums="1"']
    lines += [f"    {line}" if line else "" for line in source.rstrip().split("\n")]
    return "\n".join([*lines, "    ```", ""])


def choices(component: type[Side], reasons: MethodReasons) -> list[str]:
    """The sections on a method's options, what is fixed, its variants, and why all are so."""
    lines: list[str] = []
    if component.model_fields:
        options: dict[str, tuple[str, ...]] = {
            option: (default, allowed(field), does)
            for option, field in component.model_fields.items()
            for _, default, does in [option_row(component, option)]
        }
        names: tuple[str, ...] = ("option", "default", "may be", "what it decides")
        lines += ["", "## Options", ""]
        # Together they would be wider than a page.
        if any(one.paper or one.code or one.papers_and_code for one in reasons.options.values()):
            lines += [*with_reasons(names, options, {}), ""]
            names, options = ("option",), dict.fromkeys(options, ())
        noted = {option: Reason(reason=BELOW) for note in reasons.notes for option in note.options}
        lines += with_reasons(names, options, {**noted, **reasons.options})
    if reasons.fixed:
        fixed: dict[str, tuple[str, ...]] = dict.fromkeys(reasons.fixed, ())
        lines += ["", "## Fixed", "", *with_reasons(("fixed",), fixed, reasons.fixed)]
    if component.variants:
        variants = {name: (variant_sets(component, name),) for name in component.variants}
        names = ("variant", "sets")
        lines += ["", "## Variants", "", *with_reasons(names, variants, reasons.variants)]
    if reasons.notes:
        lines += ["", "## Choices", "", notes(reasons.notes)]
    for subject in ("views", "differences"):
        if rows := rows_about(component.name, subject):
            lines += ["", f"## {subjects()[subject].title}", "", *rows]
    return lines


def with_reasons(
    headers: Sequence[str], cells: Mapping[str, tuple[str, ...]], why: Mapping[str, Reason]
) -> list[str]:
    """A table with a column for each kind of text that people wrote about its rows.

    Args:
        headers: of the first columns, that of the row's name first.
        cells: of these columns but for the name, by name.
        why: what people wrote, by name.
    """
    texts = {name: why[name].columns() if name in why else {} for name in cells}
    used = [one for one in Reason.HEADERS if any(one in text for text in texts.values())]
    code = "`" if headers[0] != "fixed" else ""
    return table(
        (*headers, *used),
        [
            (f"{code}{name}{code}", *row, *(texts[name].get(one, "") for one in used))
            for name, row in cells.items()
        ],
    )


def facts(
    component: type[Side], where: str, status: str
) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """What a method declares besides its options: the table's header (its source) and the rows.

    Args:
        component: the method's declaration.
        where: the path of its module.
        status: how sure it is that it is its paper's; empty if nobody says.
    """
    sides = ["server"] * component.is_server + ["client"] * component.is_client
    found = [
        ("status", f"*{status}*: what that means is in [Fidelity](../fidelity.md)"),
        ("code", f"[{where}](../../{where})"),
        ("sides", " and ".join(sides)),
        ("revision", f"{component.revision}, raised when its arithmetic changes"),
        ("networks of a model", str(component.networks)),
        ("models kept for each client", str(component.cost.models_kept)),
        ("seconds of a round", f"about {component.cost.effort:g} times FedAvg's for each network"),
        ("knows the true labels", "yes" if component.needs_truth else "no"),
    ]
    if component.partner:
        behind = f"`{component.name}+...`, with a {component.partner} side behind it"
        found.append(("combines", behind))
    return ("source", component.reference), found if status else found[1:]


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
            what = from_docstring(text.split("\n\n")[0])
            found.append((node.lineno, ", ".join(named), link, what))
    return [row[1:] for row in sorted(found)]
