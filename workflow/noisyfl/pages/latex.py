"""A table as LaTeX, to be put into a paper that loads booktabs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from noisyfl.analysis.cells import Content, Row
from noisyfl.analysis.statistics import NOT_RUN
from noisyfl.pages.table import dagger

WIDEST = 8
"""How many columns fit the width of a page; a wider table is split into several tabulars."""

ESCAPES = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    **{"ρ": r"$\rho$", "τ": r"$\tau$", "α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\varepsilon$"},
    **{"μ": r"$\mu$", "σ": r"$\sigma$", "η": r"$\eta$", "λ": r"$\lambda$"},
}


def latex_table(content: Content) -> str:
    """A table environment: our numbers with their spread, and the published ones in brackets.

    Cells have the marks and words that they have on the table's page, of which the caption says
    what † and * mean.
    """
    description = content.description
    lines = [r"\begin{table}", r"\centering", r"\small"]
    remarks = "; ".join(_remarks(content))
    caption = f"{description.title} ({remarks})" if remarks else description.title
    lines += [rf"\caption{{{escape_latex(caption)}}}"]
    lines += [rf"\label{{tab:{description.experiment}-{description.name}}}"]
    for block in blocks(content):
        lines += [*_tabular(content, block), ""]
    return "\n".join([*lines[:-1], r"\end{table}", ""])


def blocks(content: Content) -> list[list[int]]:
    """The numbers of the columns in each tabular; those of one group stay together if they fit."""
    columns = list(enumerate(content.description.columns))
    pieces = []
    for _, group in itertools.groupby(columns, key=lambda item: item[1].group):
        numbers = [number for number, _ in group]
        pieces += [numbers[first : first + WIDEST] for first in range(0, len(numbers), WIDEST)]
    found: list[list[int]] = [[]]
    for piece in pieces:
        if found[-1] and len(found[-1]) + len(piece) > WIDEST:
            found.append([])
        found[-1] += piece
    return found


def escape_latex(text: str) -> str:
    """Text without what LaTeX would take for commands."""
    return "".join(ESCAPES.get(mark, mark) for mark in text)


def _remarks(content: Content) -> Iterator[str]:
    """What the caption says beside the title: of the settings, and of the marks that occur."""
    description = content.description
    scale = f"scale “{description.scale}”"
    if content.is_mixed:
        if any(dagger(content, cell) for cell in content.cells):
            yield from (scale, "†: not made in the paper's settings")
    elif not all(cell.as_published for cell in content.cells):
        whose = "the experiment's own" if description.published is None else "the paper's"
        yield f"{scale}: not {whose} settings"
    shown = [cell for row in content.rows for cell in row.shown]
    if any(one.starred for cell in shown for one in (cell.summary, cell.published) if one):
        yield "*: the maximum, since at least half of the runs did not converge"


def _tabular(content: Content, block: list[int]) -> list[str]:
    columns = [content.description.columns[number] for number in block]
    named = itertools.groupby(column.group for column in columns)
    groups = [(name, len(list(same))) for name, same in named]
    lines = [rf"\begin{{tabular}}{{l{'c' * len(block)}}}", r"\toprule"]
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" for name, width in groups]
        lines.append(_line(["", *spans]))
        ends = list(itertools.accumulate((width for _, width in groups), initial=2))
        rules = [rf"\cmidrule(lr){{{a}-{b - 1}}}" for a, b in itertools.pairwise(ends)]
        lines.append("".join(rule for rule, (name, _) in zip(rules, groups, strict=True) if name))
    lines.append(_line(["Method", *(escape_latex(c.label or c.name) for c in columns)]))
    for group, rows in itertools.groupby(content.rows, key=lambda row: row.group):
        lines.append(r"\midrule")
        if group:
            width = len(block) + 1
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape_latex(group)}}}}} \\")
        for row in rows:
            name = escape_latex(row.label) + ("" if row.trained else " (not run)")
            if name.lstrip().startswith(("[", "*")):  # else an argument of the line before
                name = f"{{}}{name}"
            lines.append(_line([name, *(_cell(content, row, number) for number in block)]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _cell(content: Content, row: Row, column: int) -> str:
    cell = row.shown[column]
    text = content.number(cell)
    if text and content.is_best(row, column):
        text = rf"\textbf{{{text}}}"
    if cell.summary is not None and cell.summary.starred:
        text += "*"
    if cell.summary is not None and cell.summary.std is not None:
        text += rf" {{\scriptsize$\pm${content.format(cell, cell.summary.std)}}}"
    if cell.diverged:
        text += rf" {{\scriptsize diverged ({cell.diverged} of {len(cell.rows)})}}"
    if content.lacks(cell):
        text += rf" {{\scriptsize {NOT_RUN}}}"
    text += escape_latex(dagger(content, cell))
    if cell.published is not None:
        star = "*" if cell.published.starred else ""
        text += rf" {{\scriptsize({content.format(cell, cell.published.value)}{star})}}"
    return text.strip()


def _line(texts: list[str]) -> str:
    return " & ".join(texts) + r" \\"
