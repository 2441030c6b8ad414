"""A page for each method: its source, options and variants, why they are so, and its code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markdown_table import table
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import PUBLISHED
from noisyfl.pages.markdown import from_docstring
from noisyfl.pages.reasons import MethodReasons, Reason, method_reasons, subjects
from noisyfl.simulation.client_side import Side
from noisyfl.specs.catalogue import method_summary, methods
from noisyfl.specs.published import read_published
from noisyfl.specs.words import describe_option
from option_words import variant_sets
from subject_pages import notes, rows_about

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
        "The status says how sure it is that a method is its paper's",
        "([Fidelity](../fidelity.md)).",
    ]
    known = method_reasons()
    for family, members in families().items():
        lines += ["", f"## {family}", ""]
        rows = [
            (
                f"[`{one.name}`]({one.name}.md)",
                method_summary(one.name),
                known[one.name].status if one.name in known else "",
                one.reference,
            )
            for one in members
        ]
        lines += table(("method", "what it does", "status", "source"), rows)
    return "\n".join(lines) + "\n"


def families() -> dict[str, list[type[Side]]]:
    """The methods by family: those of the papers that are reproduced, and the others by side."""
    papers = {line.fields["paper"] for line in read_published(PUBLISHED)}
    found: dict[str, list[type[Side]]] = {
        "The five reproduced papers": [],
        "Client side: learning from noisy labels": [],
        "Server side: selection and aggregation": [],
        "Both sides": [],
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
            option: describe_option(component, option)[1:] for option in component.model_fields
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
