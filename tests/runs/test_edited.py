"""A method that was edited without a higher revision is found; one being written makes new runs."""

import json
import shutil
from platform import python_version

import pytest

from noisyfl.core.artifacts import Results
from noisyfl.core.provenance import KINDS, write_provenance
from noisyfl.runs.edited import edited_runs, is_edited, lines
from noisyfl.specs import sources
from noisyfl.specs.catalogue import canonical_method, method_source, methods, methods_digest
from noisyfl.specs.identity import identity
from small_runs import spec_of

KRUM = spec_of("krum+dividemix")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the methods' sources, which may be edited."""
    copy = tmp_path / "noisyfl"
    shutil.copytree(sources.PACKAGE / "methods", copy / "methods")
    methods()  # read before from the real ones
    monkeypatch.setattr(sources, "PACKAGE", copy)
    sources.method_digest.cache_clear()
    yield copy
    sources.method_digest.cache_clear()


def edit(package, file, old, new):
    path = package / "methods" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    sources.method_digest.cache_clear()


def made(spec, **changes):
    """The provenance of a run that was trained just now."""
    known = {key: 1.0 if len(kinds) > 1 else "1" for key, kinds in KINDS.items()}
    known |= {"status": "finished", "python": python_version(), "rounds": 2}
    known |= {"run": identity(spec)}
    return {**known, "method_digest": methods_digest(spec["method"]), **changes}


def digest_of(spec):
    source = method_source(spec["method"])
    return source.digest if source else None


def sources_of(specs):
    return {spec["method"]["name"]: method_source(spec["method"]) for spec in specs.values()}


def test_nothing_has_changed_since_just_now(package):
    assert not is_edited(digest_of(KRUM), made(KRUM))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("krum.py", "return", "return None or"),
        ("dividemix.py", " + ", " - "),
        ("estimators/mixture.py", "exp", "exp2"),  # which DivideMix imports
    ],
)
def test_other_code_of_either_method_or_of_what_it_imports_is_seen(package, file, old, new):
    before = made(KRUM)
    edit(package, file, old, new)
    assert is_edited(digest_of(KRUM), before)


def test_words_and_other_methods_are_not(package):
    before = made(KRUM)
    edit(package, "krum.py", '"""Multi-Krum', '"""In other words: Multi-Krum')
    edit(package, "krum.py", "\n\n\n", "\n\n\n# A comment.\n")
    edit(package, "rofl.py", " + ", " - ")
    assert not is_edited(digest_of(KRUM), before)


def test_what_nobody_can_tell_is_not_said(package):
    old, elsewhere = made(KRUM), made(KRUM, python="3.99.1")
    del old["method_digest"]
    edit(package, "krum.py", "return", "return None or")
    assert not is_edited(digest_of(KRUM), old)
    assert not is_edited(digest_of(KRUM), elsewhere)
    gone = json.loads(json.dumps(KRUM).replace('"krum"', '"method_of_old"'))
    assert not is_edited(digest_of(gone), made(KRUM))


def test_the_line_names_file_runs_and_what_to_do(package, tmp_path):
    results, specs = Results(tmp_path / "results"), {}
    for seed in range(1, 6):
        spec = spec_of("fedprox", seed=seed)
        specs[identity(spec)] = spec
        write_provenance(results.run(identity(spec)).provenance, made(spec))
    not_there = spec_of("fedprox", seed=9)
    specs[identity(not_there)] = not_there
    assert edited_runs(specs, sources_of(specs), results) == []
    edit(package, "fedprox.py", "return", "return None or")
    known = sources_of(specs)
    edited = edited_runs(specs, known, results)
    assert edited == list(specs)[:5]
    files = [str(results.run(run).provenance) for run in edited]
    assert lines(edited, specs, known, results) == [
        "fedprox.py, or what it imports, has changed since 5 runs were trained, and tables show "
        "the old numbers: raise the method's `revision`, or train anew with --forcerun "
        f"{' '.join(files[:3])} (and 2 more)"
    ]
    assert "1 run was trained" in lines(edited[:1], specs, known, results)[0]


def test_a_method_that_is_being_written_makes_other_runs_with_each_edit(package, monkeypatch):
    monkeypatch.setattr(methods()["fedprox"], "revision", 0)
    before = canonical_method("fedprox", "test")
    assert before["revision"].startswith("0-")
    assert canonical_method("fedprox", "test") == before
    edit(package, "fedprox.py", "return", "return None or")
    assert canonical_method("fedprox", "test")["revision"] not in (before["revision"], 0, 1)
