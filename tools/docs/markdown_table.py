"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|"]
    for row in rows:
        cells = [" ".join(cell.split()).replace("|", r"\|") for cell in row]
        lines.append("|" + "".join(f" {cell} |" if cell else " |" for cell in cells))
    return lines
