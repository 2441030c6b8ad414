"""Put the first table of docs/evidence.md into README.md, in the place of its own."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "| Paper | Scale |"
"""How the table's first line begins."""


def main() -> None:
    """Rewrite README.md."""
    readme, evidence = ROOT / "README.md", ROOT / "docs" / "evidence.md"
    before, _, after = parts(readme)
    _, table, _ = parts(evidence)
    readme.write_text("\n".join([*before, *table, *after]), encoding="utf-8")


def parts(page: Path) -> tuple[list[str], list[str], list[str]]:
    """The lines of a page before, in and after the table."""
    lines = page.read_text(encoding="utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(FIRST))
    end = lines.index("", start)
    return lines[:start], lines[start:end], lines[end:]


if __name__ == "__main__":
    main()
