"""A table's page, as Markdown and as HTML: the same content in two forms."""

from __future__ import annotations

import itertools
import re

from noisyfl.analysis.cells import Cell, Content
from noisyfl.analysis.statistics import NOT_RUN, SIGNS
from noisyfl.pages import settings
from noisyfl.pages.html import render
from noisyfl.pages.markdown import escape_markdown, head, row
from noisyfl.specs.words import Words


def ours(content: Content, cell: Cell) -> str:
    """Our number in a cell, without the marks of the best number and of another setting."""
    parts = []
    if cell.summary is not None:
        star = "*" if cell.summary.starred else ""
        std = cell.summary.std
        spread = "" if std is None else f" ± {content.format(cell, std)}"
        parts.append(f"{content.number(cell)}{star}{spread}")
    if cell.diverged:
        parts.append(f"diverged ({cell.diverged} of {len(cell.rows)})")
    if content.lacks(cell):
        parts.append(NOT_RUN)
    return ", ".join(parts)


def paper(content: Content, cell: Cell, spread: bool = False) -> str:
    """The published number of a cell, with its standard deviation if asked for; maybe empty."""
    published = cell.published
    if published is None:
        return ""
    star = "*" if published.starred else ""
    std = (
        f" ± {content.format(cell, published.std)}" if spread and published.std is not None else ""
    )
    return f"{content.format(cell, published.value)}{star}{std}"


def against(content: Content, cell: Cell) -> str:
    """Our number against the published one: the difference and the mark of the verdict."""
    if cell.difference is None:
        return SIGNS.get(cell.verdict, "")
    return f"{cell.difference:+.{content.decimals}f} {SIGNS[cell.verdict]}"


def spans(content: Content) -> list[tuple[str, int]]:
    """The headers that columns share, each with how many columns it spans; maybe empty."""
    groups = [column.group for column in content.description.columns]
    found = [(name, len(list(same))) for name, same in itertools.groupby(groups)]
    return found if any(groups) else []


def dagger(content: Content, cell: Cell) -> str:
    """The mark of a cell that is not in the paper's setting, if other cells of the table are."""
    return "†" if cell.runs and content.is_mixed and not cell.as_published else ""


def markdown_page(content: Content) -> str:
    """The page as Markdown, with the HTML tags that GitHub renders."""
    description = content.description
    warning, *details = settings.banner(content) or [""]
    lines = [
        f"# {escape_markdown(description.title)}",
        "",
        escape_markdown(description.experiment_title),
        "",
    ]
    if warning:
        lines += [f"> **{escape_markdown(warning)}**", ">"]
        lines += [f"> - {escape_markdown(detail)}" for detail in details]
        lines += [""]
    lines += _markdown_table(content)
    lines += ["", *(f"- {escape_markdown(note)}" for note in settings.notes(content)), ""]
    lines += ["## Settings", "", settings.LEGEND, ""]
    lines += head(["Setting", "Where", "Value"])
    for setting in settings.settings(content):
        for place, value in setting.values.items():
            lines.append(row([setting.name, escape_markdown(place), _code(value)]))
    lines += ["", "## Methods", ""]
    for name, texts in settings.methods_shown(content).items():
        lines += [
            f"- {escape_markdown(name)}: {_code(text)}, revision {number}" for text, number in texts
        ]
    lines += ["", "## How it was made", ""]
    for name, values in settings.making(content).items():
        lines += [f"- {name}: {escape_markdown('; '.join(values))}"]
    lines += ["", "<details><summary>Runs of each cell</summary>", ""]
    for one in content.trained_rows:
        for column, cell in zip(content.columns, one.cells, strict=True):
            if not cell.runs:
                continue
            ids = ", ".join(f"`{run.id}`{settings.origin(run)}" for run in content.runs_of(cell))
            lines.append(f"- {escape_markdown(one.name)}, {escape_markdown(column)}: {ids}")
    return "\n".join([*lines, "", "</details>", ""])


def _markdown_table(content: Content) -> list[str]:
    lines = head(["Method", *map(escape_markdown, content.columns)])
    for one in content.rows:
        texts = [escape_markdown(one.name if one.trained else f"{one.name}, not run")]
        for column, cell in enumerate(one.shown):
            number = ours(content, cell)
            text = escape_markdown(number)
            text = f"**{text}**" if content.is_best(one, column) else text
            published = paper(content, cell)
            bracket = escape_markdown(f"({published})") if published else ""
            more = [text + dagger(content, cell), bracket, against(content, cell)]
            texts.append(" ".join(part for part in more if part))
        lines.append(row(texts))
    return lines


def _code(words: Words) -> str:
    """Words as inline code, with the marked ones in bold."""
    pieces: list[str] = []
    for marked, group in itertools.groupby(words.pieces, key=lambda piece: piece[1]):
        text = " ".join("".join(text for text, _ in group).split("\n")).replace("|", "\\|")
        fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
        space = " " if "`" in text else ""
        code = f"{fence}{space}{text}{space}{fence}"
        pieces.append(f"**{code}**" if marked else code)
    return "".join(pieces)


def html_page(content: Content) -> str:
    """The page as one HTML file, with its style and without scripts."""
    warning, *details = settings.banner(content) or [""]
    return render(
        "table.html.jinja",
        content=content,
        description=content.description,
        warning=warning,
        details=details,
        ours=ours,
        paper=paper,
        against=against,
        origin=settings.origin,
        dagger=dagger,
        spans=spans(content),
        labels=[column.label or column.name for column in content.description.columns],
        notes=settings.notes(content),
        settings=settings.settings(content),
        methods=settings.methods_shown(content),
        making=settings.making(content),
        legend=settings.LEGEND,
    )
