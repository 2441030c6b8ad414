"""Text in CSV files that a spreadsheet shows as it is, and does not run as a formula."""

from __future__ import annotations

from typing import Any

RUN = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet takes for a formula."""

QUOTE = "'"


def as_text(value: Any) -> Any:
    """A CSV cell that no spreadsheet runs.

    A text that begins like a formula gets an apostrophe in front, and so does one that begins with
    an apostrophe, so that :func:`from_text` can take it away again. Numbers, also several of them
    separated by spaces, and all other texts are left as they are.

    Args:
        value: the cell; what is no text is returned as it is.
    """
    if not isinstance(value, str) or not value.startswith((*RUN, QUOTE)):
        return value
    return value if _is_numbers(value) else f"{QUOTE}{value}"


def from_text(cell: str) -> str:
    """The text of a cell that :func:`as_text` wrote."""
    return cell.removeprefix(QUOTE)


def _is_numbers(text: str) -> bool:
    try:
        return bool([float(word) for word in text.split()])
    except ValueError:
        return False
