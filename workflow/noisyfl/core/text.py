"""Plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """A text in which characters that a terminal would obey, or that reverse what follows, are
    spelled out; line breaks stay.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """A :func:`printable` text without line breaks."""
    return printable(" ".join(text.split()))


def reason(error: Exception) -> str:
    """What an error says, in one line; its type if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def aligned(lines: Iterable[list[object]]) -> list[str]:
    """Lines of cells in columns: the first column aligned left, the others right."""
    texts = [[str(cell) for cell in line] for line in lines]
    widths = [max(len(line[c]) for line in texts) for c in range(len(texts[0]))]
    return [
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in texts
    ]
