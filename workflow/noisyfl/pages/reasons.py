"""Why each choice is what it is: the reasons that people wrote, in YAML.

A file a method lies in ``workflow/reasons/methods``, and one a subject (partitions, training, ...)
in ``workflow/reasons``. They are beside the package, as the schemas and the report's captions are,
so that every copy of the workflow has them: the explorer is made without the documentation.

Texts are Markdown. Links in them are relative to a folder in ``docs/``, where the pages are that
show them.
"""

from __future__ import annotations

import functools
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.places import ROOT
from noisyfl.core.typed import Typed

FOLDER = ROOT / "workflow" / "reasons"

Status = Literal["exact", "follows the text", "open"]
"""How sure it is that a method is its paper's; docs/fidelity.md explains the words."""


class Strict(Typed):
    """A part of a file, which has no other keys than these; its lists are read as tuples."""

    model_config = ConfigDict(strict=False)


class Reason(Strict):
    """What a paper and its code have, and why the default is what it is.

    Attributes:
        what: of something that is fixed or of a variant: what it does.
        paper: what the paper has.
        code: what its official code has.
        papers_and_code: the same, where they are not told apart.
        reason: for the default.
        certain: of a variant: whether the paper's ablation is known to be this.
    """

    what: str = ""
    paper: str = ""
    code: str = ""
    papers_and_code: str = ""
    reason: str = ""
    certain: str = ""

    HEADERS: ClassVar = ("what", "paper", "code", "papers and code", "reason", "certain")

    def columns(self) -> dict[str, str]:
        """The texts that are there, by the header of their column."""
        texts = {header: getattr(self, header.replace(" ", "_")) for header in self.HEADERS}
        return {header: text for header, text in texts.items() if text}


class Note(Strict):
    """A paragraph, an item of a list, or a table.

    Attributes:
        text: Markdown.
        options: that it is about.
    """

    text: str
    options: tuple[str, ...] = ()


def _as_note(raw: object) -> object:
    return {"text": raw} if isinstance(raw, str) else raw


Notes = tuple[Annotated[Note, BeforeValidator(_as_note)], ...]
"""Notes; one that is about no option in particular may be written as its text alone."""


class MethodReasons(Strict):
    """The file of a method.

    Attributes:
        title: the method's name as published.
        status: how sure it is that the method is its paper's.
        options: by option.
        fixed: what has no option, by its name.
        variants: by variant.
        notes: what else there is to say, in order.
    """

    title: str
    status: Status
    options: dict[str, Reason] = Field(default_factory=dict)
    fixed: dict[str, Reason] = Field(default_factory=dict)
    variants: dict[str, Reason] = Field(default_factory=dict)
    notes: Notes = ()

    def of_option(self, option: str) -> dict[str, str]:
        """What is said of an option, by header: its own reason, or else the notes about it."""
        if option in self.options:
            return self.options[option].columns()
        about = " ".join(
            note.text.removeprefix("- ") for note in self.notes if option in note.options
        )
        return {"reason": about} if about else {}


class Choice(Reason):
    """A choice that belongs to no method.

    Attributes:
        options: of the components ``of``, with the same default; or, without options,
        name: what is chosen,
        default: what is chosen here,
        alternatives: and what else can be.
    """

    options: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    name: str = ""
    default: str = ""
    alternatives: str = ""


class ReasonRow(Strict):
    """A difference between an official code and ours, or how a method sees images.

    Attributes:
        methods: that it is of, or else
        name: what it is of.
        code: what the official code does, in the lines at these addresses.
        lines: see ``code``.
        ours: what is done here, or the option that follows the code.
        decides: what the method decides by the images.
        papers_and_code: how the paper or its code shows them.
        here: how they are shown here.
    """

    methods: tuple[str, ...] = ()
    name: str = ""
    code: str = ""
    lines: tuple[str, ...] = ()
    ours: str = ""
    decides: str = ""
    papers_and_code: str = ""
    here: str = ""


class Subject(Strict):
    """The file of a subject: choices, or rows of a table about several methods.

    Attributes:
        title: its heading.
        text: what stands before the table.
        choices: the table's lines, or else
        rows: see ``choices``.
        notes: what stands after it.
    """

    title: str
    text: Notes = ()
    choices: tuple[Choice, ...] = ()
    rows: tuple[ReasonRow, ...] = ()
    notes: Notes = ()


@functools.cache
def method_reasons() -> dict[str, MethodReasons]:
    """The reasons for every method's choices, by the method's name."""
    paths = sorted((FOLDER / "methods").glob("*.yaml"))
    return {path.stem: MethodReasons.read(read_yaml(path), f"{path}: ") for path in paths}


@functools.cache
def subjects() -> dict[str, Subject]:
    """The reasons for choices that belong to no method, by the file's name."""
    paths = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: Subject.read(read_yaml(path), f"{path}: ") for path in paths}
