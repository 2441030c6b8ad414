"""A page for each subject of the reasons that belongs to no method: partitions, training, ..."""

from __future__ import annotations

from collections.abc import Iterable

from markdown_table import table
from noisyfl.pages.reasons import Choice, Note, Reason, ReasonRow, Subject, subjects
from option_words import shared_option


def pages() -> dict[str, str]:
    """The pages, by name in the site.

    Raises:
        BadInput: a file has a reason for an option that is not declared.
    """
    return {f"fidelity/{name}.md": page(name, subject) for name, subject in subjects().items()}


def page(name: str, subject: Subject) -> str:
    """A subject's page; ``name`` is its file's."""
    lines = [f"# {subject.title}", "", notes(subject.text), ""]
    if subject.choices:
        used = [one for one in Reason.HEADERS if any(one in c.columns() for c in subject.choices)]
        lines += table(
            ("option", "default", "alternatives", *used),
            [
                (*describe_choice(choice, name), *(choice.columns().get(one, "") for one in used))
                for choice in subject.choices
            ],
        )
    if subject.rows:
        lines += table_lines(subject.rows)
    if subject.notes:
        lines += ["", notes(subject.notes)]
    return "\n".join([*lines, ""])


def describe_choice(choice: Choice, where: str) -> tuple[str, str, str]:
    """What is chosen, its default and its alternatives: as declared, or as people wrote."""
    if not choice.options:
        return choice.name, choice.default, choice.alternatives
    default, others = shared_option(choice.options, choice.of, f"workflow/reasons/{where}.yaml")
    names, components = (
        ", ".join(f"`{name}`" for name in names) for names in (choice.options, choice.of)
    )
    return f"{names} of {components}", default, others


def rows_about(method: str, subject: str) -> list[str]:
    """The lines of a subject's table that are about a method; none if there are none."""
    rows = [row for row in subjects()[subject].rows if method in row.methods]
    return table_lines(rows, named=False) if rows else []


def table_lines(rows: Iterable[ReasonRow], named: bool = True) -> list[str]:
    """The lines of a table.

    Args:
        rows: all of differences, or all of views.
        named: whether a first column has the methods.
    """
    rows = list(rows)
    names = [row.name or ", ".join(f"`{name}`" for name in row.methods) for row in rows]
    if rows[0].code:
        headers: tuple[str, ...] = ("official code", "line", "ours, or the option")
        cells = [(row.code, ", ".join(map(place, row.lines)), row.ours) for row in rows]
    else:
        headers = ("decides by", "paper or code", "here")
        cells = [(row.decides, row.papers_and_code, row.here) for row in rows]
    if not named:
        return table(headers, cells)
    return table(
        ("method", *headers), [(name, *cell) for name, cell in zip(names, cells, strict=True)]
    )


def place(address: str) -> str:
    """A link to a line of an official code, such as ``update.py:380``."""
    file, _, lines = address.rpartition("/")[2].partition("#L")
    return f"[{file}:{lines.partition('-')[0]}]({address})"


def notes(found: Iterable[Note]) -> str:
    """Notes as Markdown."""
    return "\n\n".join(note.text for note in found)
