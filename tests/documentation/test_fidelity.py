"""Each choice of a method has a reason, and what is explained exists."""

import pytest
from conformance.page import TEXTS
from conformance.recorders import MODULES, steps

from noisyfl.core.options import BadInput
from noisyfl.pages import reasons as reasons_module
from noisyfl.pages.reasons import MethodReasons, method_reasons, subjects
from noisyfl.specs.catalogue import methods

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


def test_what_is_explained_of_several_methods_is_there():
    rows = [row for subject in subjects().values() for row in subject.rows]
    assert len(rows) > 50
    assert {name for row in rows for name in row.methods} <= set(METHODS)


def test_only_what_has_been_compared_with_code_is_exact():
    compared = {step.method for repository in MODULES for step in steps(repository)}
    compared |= {name for name, why in WITHOUT.items() if "its test has the" in why}
    assert of_status("exact") <= compared


def test_what_has_no_public_code_is_not_called_exact():
    assert {name for name, why in WITHOUT.items() if "code is public" in why} <= of_status("open")


def test_a_file_with_an_unknown_key_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "a.yaml").write_text("title: A\nstatus: open\noptoins: {}")
    monkeypatch.setattr(reasons_module, "FOLDER", tmp_path)
    with pytest.raises(BadInput, match=r"a\.yaml: .*optoins.*options"):
        method_reasons.__wrapped__()


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
