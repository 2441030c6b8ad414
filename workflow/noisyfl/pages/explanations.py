"""People's explanations of results, and the templates of the pages that show them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import jinja2
from pydantic import Field, model_validator

from noisyfl.analysis.measurements import ROUNDS
from noisyfl.analysis.statistics import LEVEL
from noisyfl.analysis.summaries import number
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.places import ROOT
from noisyfl.pages.claims import claim_in_short, tally
from noisyfl.pages.evidence_paths import METHODS
from noisyfl.pages.reasons import Strict

TEMPLATES = ROOT / "workflow" / "report" / "evidence"


class Why(Strict):
    """A paragraph on why numbers are what they are; it has one of the two.

    Attributes:
        tested: an explanation that is supported by an experiment, which the paragraph describes.
        guess: one that fits the numbers, and that nothing was done to test.
    """

    tested: str = ""
    guess: str = ""

    @model_validator(mode="after")
    def _one(self) -> Why:
        if bool(self.tested) == bool(self.guess):
            raise ValueError("expected either tested or guess, with a paragraph")
        return self


class PaperReasons(Strict):
    """Why our numbers next to a paper's are what they are, in people's paragraphs.

    Attributes:
        claims: on its claims.
        tables: on its tables, by ``<experiment>_<table>``.
    """

    claims: tuple[Why, ...] = ()
    tables: dict[str, list[Why]] = Field(default_factory=dict)


class MethodsReasons(Strict):
    """Why methods have their numbers, in people's paragraphs, by the method's name."""

    methods: dict[str, list[Why]] = Field(default_factory=dict)


def read_reasons(
    paths: Iterable[Path],
) -> tuple[dict[str, PaperReasons], dict[str, list[Why]]]:
    """Read people's paragraphs: by paper, and by method.

    Args:
        paths: at most one file for each paper, named after it, and one for the methods.
    """
    files = {path.stem: path for path in paths}
    path = files.pop(METHODS, None)
    given = {"methods": read_yaml(path)} if path else {}
    methods = MethodsReasons.read(given, f"{path}: ").methods
    papers = {name: PaperReasons.read(read_yaml(path), f"{path}: ") for name, path in files.items()}
    return papers, methods


def template(name: str) -> jinja2.Template:
    """A page's template."""
    return _templates().get_template(name)


@functools.cache  # it keeps each template that it has compiled
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"in_short": claim_in_short, "tally": tally, "why": _why}
    environment.globals |= {"LEVEL": LEVEL, "ROUNDS": ROUNDS}
    environment.filters |= {"number": number, "cell": lambda text: text.replace("|", "\\|")}
    return environment


def _why(reason: Why) -> str:
    return f"Why (tested): {reason.tested}" if reason.tested else f"Why (guess): {reason.guess}"
