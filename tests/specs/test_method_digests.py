"""A method that was edited without a higher revision is found; one being written makes new runs."""

import json
import shutil

import pytest

from noisyfl.core import code
from noisyfl.specs import catalogue
from noisyfl.specs.catalogue import canonical_method, digests, edited_methods, methods


def test_every_methods_code_is_that_of_its_revision():
    """Else increase its revision; or, if the tests show that no number changed, make digests."""
    recorded, now = json.loads(catalogue.DIGESTS.read_text()), digests(methods())
    if recorded["python"] != now["python"]:
        pytest.skip("another Python prints syntax trees otherwise")
    assert recorded == now


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the methods' sources, which may be edited."""
    copy = tmp_path / "noisyfl"
    shutil.copytree(code.PACKAGE / "methods", copy / "methods")
    methods()  # read before from the real ones
    recorded = tmp_path / "digests.json"
    recorded.write_text(json.dumps(digests(methods())))
    monkeypatch.setattr(catalogue, "DIGESTS", recorded)
    monkeypatch.setattr(code, "PACKAGE", copy)
    code.code_digest.cache_clear()
    yield copy
    code.code_digest.cache_clear()


def edit(package, file, old, new):
    path = package / "methods" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    code.code_digest.cache_clear()


USED = ("krum", "dividemix")


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("krum.py", "return", "return None or", "krum.py"),
        ("dividemix.py", " + ", " - ", "dividemix.py"),
        ("estimators/mixture.py", "exp", "exp2", "dividemix.py"),  # which DivideMix imports
    ],
)
def test_other_code_of_a_method_or_of_what_it_imports_is_named(package, file, old, new, named):
    assert edited_methods(USED) == []
    edit(package, file, old, new)
    (line,) = edited_methods(USED)
    assert line.startswith(f"{named}, or what it imports, was edited")


def test_words_and_other_methods_are_not(package):
    edit(package, "krum.py", '"""Multi-Krum', '"""In other words: Multi-Krum')
    edit(package, "krum.py", "\n\n\n", "\n\n\n# A comment.\n")
    edit(package, "rofl.py", " + ", " - ")
    assert edited_methods(USED) == []


def test_a_higher_revision_and_another_python_are_silent(package, monkeypatch):
    edit(package, "krum.py", "return", "return None or")
    with monkeypatch.context() as patch:
        patch.setattr(methods()["krum"], "revision", 99)
        assert edited_methods(USED) == []
    assert edited_methods(USED)
    monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "99", "1"))
    assert edited_methods(USED) == []


def test_a_method_that_is_being_written_makes_other_runs_with_each_edit(package, monkeypatch):
    monkeypatch.setattr(methods()["fedprox"], "revision", 0)
    before = canonical_method("fedprox", "test")
    assert before["revision"].startswith("0-")
    assert canonical_method("fedprox", "test") == before
    edit(package, "fedprox.py", "return", "return None or")
    assert canonical_method("fedprox", "test")["revision"] not in (before["revision"], 0, 1)
