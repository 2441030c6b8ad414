"""Plain text in columns."""

from __future__ import annotations

from collections.abc import Iterable


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
