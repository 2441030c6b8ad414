"""Parts of a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from noisyfl.core.text import aligned

MARKUP = r"\\`*_|<>\[\]&~"
"""What Markdown takes for markup, as a set of a regular expression."""


def escape_markdown(text: str) -> str:
    """Text in one line, with backslashes before what Markdown would take for markup."""
    return re.sub(rf"([{MARKUP}])", r"\\\1", " ".join(text.split()))


def unescaped(text: str) -> str:
    """A text that :func:`escape_markdown` has escaped, as it was, and without bold marks."""
    return re.sub(rf"\\([{MARKUP}])", r"\1", text.replace("**", ""))


def from_docstring(text: str) -> str:
    """A docstring as Markdown: roles as plain code."""
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")


def row(texts: Sequence[str]) -> str:
    """A line of a table, of texts that are Markdown already."""
    return f"| {' | '.join(texts)} |"


def head(names: Sequence[str]) -> list[str]:
    """The first two lines of a table: the names of its columns, and the rule below them."""
    return [row(names), "|---" * len(names) + "|"]


def page_table(text: str) -> list[str]:
    """The first table of a Markdown page as aligned lines, below the page's title."""
    lines = text.splitlines()
    title = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
    rows: list[list[object]] = []
    for line in lines:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            rows.append([unescaped(cell.strip()) for cell in cells])
        elif rows:
            break
    return [unescaped(title), "", *aligned([rows[0], *rows[2:]])] if rows else []
