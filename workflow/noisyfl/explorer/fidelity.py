"""What the fidelity page in the documentation says of each option, and in which section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"


@dataclass(frozen=True)
class Section:
    """The section of the fidelity page that lists the options of a component.

    Attributes:
        heading: of the section.
        anchor: of the section in the site.
        lines: by option, the cells of its line in the table by their header, as Markdown.
        paragraphs: the rest of the section, as Markdown.
    """

    heading: str
    anchor: str
    lines: Mapping[str, Mapping[str, str]]
    paragraphs: tuple[str, ...] = ()

    def says_of(self, option: str) -> str:
        """The paragraphs that name an option, without line breaks."""
        return " ".join(text for text in self.paragraphs if re.search(rf"`{option}\b", text))


def sections(page: Path = PAGE) -> dict[str, Section]:
    """The sections that have a table of options, by the component whose options these are."""
    found: dict[str, Section] = {}
    text = page.read_text(encoding="utf-8")
    said = {part.partition("\n")[0]: paragraphs(part) for part in text.split("\n## ")[1:]}
    heading, named = "", ""
    headers: list[str] = []
    lines: dict[str, dict[str, str]] = {}
    for line in text.split("\n"):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if mark := re.fullmatch(r"<!-- options: (\w+) -->", line):
            named, headers, lines = mark[1], [], {}
            found[named] = Section(heading, anchor(heading), lines, said[heading])
        elif named and line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not headers:
                headers = cells
            elif not set("".join(cells)) <= set("-: "):
                lines[cells[0].strip("`")] = dict(zip(headers[1:], cells[1:], strict=False))
        elif named and headers:
            named = ""
    return found


def paragraphs(part: str) -> tuple[str, ...]:
    """The paragraphs and the list entries of a section, each in one line."""
    blocks = re.split(r"\n\n|\n(?=- )", part.partition("\n")[2])
    texts = (" ".join(block.removeprefix("- ").split()) for block in map(str.strip, blocks))
    return tuple(text for text in texts if text and not text.startswith(("|", "<!--", "#")))


def anchor(heading: str) -> str:
    """The name of a heading's anchor in the site."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
