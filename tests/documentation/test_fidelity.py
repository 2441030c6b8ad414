"""Why each choice is what it is: all methods say so, and what is explained is there."""

import pytest
from conformance.page import TEXTS
from conformance.recorders import MODULES, steps

from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.documentation import subject_pages
from noisyfl.pages.reasons import MethodReasons, method_reasons, subjects
from noisyfl.specs.catalogue import methods

PAGE = (ROOT / "docs" / "fidelity.md").read_text()
WORDS = ("Exact", "Follows the text", "Open")
METHODS = methods()
WITHOUT = TEXTS["without"]


def of_status(status):
    return {name for name, one in method_reasons().items() if one.status == status}


def test_every_method_has_its_file():
    assert set(method_reasons()) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_option_of_a_method_has_a_reason_and_what_is_explained_is_there(name):
    reasons = method_reasons()[name]
    options = set(METHODS[name].model_fields)
    assert not [option for option in options if not reasons.of_option(option)]
    assert set(reasons.options) <= options
    assert set(reasons.variants) <= set(METHODS[name].variants)
    assert {option for note in reasons.notes for option in note.options} <= options


def test_what_is_explained_of_anything_else_is_there():
    assert set(subject_pages.pages()) == {f"fidelity/{name}.md" for name in subjects()}
    rows = [row for subject in subjects().values() for row in subject.rows]
    assert len(rows) > 50
    assert {name for row in rows for name in row.methods} <= set(METHODS)


def test_a_subjects_page_has_the_declared_defaults_and_the_reasons():
    page = subject_pages.pages()["fidelity/partitions.md"]
    assert (
        "| `min_size` of `dirichlet`, `dirichlet_official` | 10 | any | FedRN's code: 10." in page
    )
    assert "| `shard`: the sort by class | fixed: stable | |" in page
    differences = subject_pages.pages()["fidelity/differences.md"]
    assert "| `fedcorr`, `fedrn`, `dividemix` | mixtures start from" in differences
    assert "[update.py:336](https://github.com/ElvinKim/FedRN/blob/" in differences


def test_the_words_are_explained_on_the_first_screen():
    legend = PAGE.split("\n## ")[0]
    assert [word for word in WORDS if f"\n| *{word}.* | " in legend] == list(WORDS)


def test_only_what_has_been_compared_with_code_is_exact():
    compared = {step.method for repository in MODULES for step in steps(repository)}
    compared |= {name for name, why in WITHOUT.items() if "its test has the" in why}
    assert of_status("exact") <= compared


def test_what_has_no_public_code_is_not_called_exact():
    assert {name for name, why in WITHOUT.items() if "code is public" in why} <= of_status("open")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "title: A\nstatus: sure",
            "status: Input should be 'exact', 'follows the text' or 'open'",
        ),
        ("title: A\nstatus: open\noptoins: {}", "unknown key 'optoins'; did you mean 'options'"),
        ("title: A\nstatus: open\nnotes: [3]", r"notes\[0\]: Input should be"),
    ],
)
def test_a_file_that_is_none_is_refused(text, expected, tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "a.yaml").write_text(text)
    with pytest.raises(BadInput, match=rf"a\.yaml: {expected}"):
        method_reasons(tmp_path)


def test_an_option_is_explained_by_its_own_reason_or_by_the_notes_about_it():
    reasons = MethodReasons.model_validate(
        {
            "title": "A",
            "status": "open",
            "options": {"one": {"paper": "1", "reason": "as printed"}},
            "notes": [
                "nothing",
                {"text": "- of both", "options": ["one", "other"]},
                {"text": "more", "options": ["other"]},
            ],
        }
    )
    assert reasons.of_option("one") == {"paper": "1", "reason": "as printed"}
    assert reasons.of_option("other") == {"reason": "of both more"}
    assert reasons.of_option("third") == {}
