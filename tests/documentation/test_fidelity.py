"""docs/fidelity.md: the section of each method begins with how sure it is."""

import re

import pytest
from conformance.page import WITHOUT
from conformance.recorders import MODULES, steps

from noisyfl.experiments.config import ROOT
from noisyfl.specs.catalogue import methods

PAGE = (ROOT / "docs" / "fidelity.md").read_text()
WORDS = ("Exact", "Follows the text", "Open")
FIRST_LINE = re.compile(r"^## .+\n\n\*(.+?)\.\* `(\w+)`: (.+)\.$", re.MULTILINE)


@pytest.fixture(scope="module")
def first_lines():
    """By method, the word that its section begins with, and the source after it."""
    found = FIRST_LINE.findall(PAGE)
    assert len({name for _, name, _ in found}) == len(found)
    return {name: (word, reference) for word, name, reference in found}


def test_every_methods_section_begins_with_one_of_the_words_and_its_source(first_lines):
    expected = {name: one.reference.rstrip(".") for name, one in methods().items()}
    assert {name: source.rstrip(".") for name, (_, source) in first_lines.items()} == expected
    assert {word for word, _ in first_lines.values()} == set(WORDS)


def test_the_words_are_explained_before_the_first_section():
    legend = PAGE.split("\n## ")[0]
    assert [word for word in WORDS if f"\n| *{word}.* | " in legend] == list(WORDS)


def test_only_what_has_been_compared_with_code_is_exact(first_lines):
    compared = {step.method for repository in MODULES for step in steps(repository)}
    compared |= {name for name, why in WITHOUT.items() if "has the official numbers" in why}
    assert {name for name, (word, _) in first_lines.items() if word == "Exact"} <= compared


def test_what_has_no_public_code_is_not_called_exact(first_lines):
    uncoded = {name for name, why in WITHOUT.items() if "code is public" in why}
    assert {first_lines[name][0] for name in uncoded} == {"Open"}
