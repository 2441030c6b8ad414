"""What `new-method` writes is a method, passes the linters, and trains as FedAvg."""

import importlib.util
import subprocess
import sys

import pytest
import torch

import method_pages
from noisy_digits import run_on_digits
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.methods import METHODS
from noisyfl.pages.reasons import method_reasons
from noisyfl.specs import build, catalogue, new_method
from noisyfl.specs import spec as spec_module
from noisyfl.specs.new_method import write_new_method, write_package


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The folder of a package without methods."""
    (tmp_path / "methods").mkdir()
    monkeypatch.setattr(new_method, "PACKAGE", tmp_path)
    return tmp_path


@pytest.fixture
def written(package, monkeypatch):
    """The file of a new method, which is registered as long as the test lasts."""
    path = write_new_method("fed_example")
    monkeypatch.setattr(METHODS, "classes", dict(METHODS.classes))
    found = importlib.util.spec_from_file_location("fed_example", path)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "fed_example", module)
    found.loader.exec_module(module)
    known = dict(METHODS.classes)
    for module in (catalogue, spec_module):
        monkeypatch.setattr(module, "methods", lambda: known)
    return path


@pytest.mark.slow
def test_it_trains_as_fedavg(written, tmp_path):
    ends = [run_on_digits(name, tmp_path, rounds=3)[0] for name in ("fedavg", "fed_example")]
    assert isinstance(build.build_method("fed_example", "test")[0], METHODS.get("fed_example", ""))
    one, other = (federation.weights for federation in ends)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "--config"],
        ["ruff", "format", "--check", "--config"],
        pytest.param(["mypy", "--config-file"], marks=pytest.mark.storm),
    ],
    ids=" ".join,
)
def test_no_check_has_anything_to_say(written, command):
    done = subprocess.run(
        [sys.executable, "-m", *command, str(ROOT / "pyproject.toml"), str(written)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["FedExample", "class", ""])
def test_what_is_no_name(name, package):
    with pytest.raises(BadInput, match="expected small letters"):
        write_new_method(name)
    assert list((package / "methods").iterdir()) == []


@pytest.mark.parametrize("name", ["torch", "sys"])
def test_a_package_does_not_have_the_name_of_a_module_that_is_there(name, tmp_path):
    with pytest.raises(BadInput, match=rf"got '{name}', which is already the name of a module"):
        write_package(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_package_may_be_written_to_a_folder_of_its_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fed_example").mkdir()
    assert len(write_package("fed_example", tmp_path / "fed_example")) == 4


def test_nothing_is_written_over(package):
    (package / "methods" / "estimators").mkdir()
    for name, words in (("fedavg", "a method is called so"), ("estimators", "there is .*")):
        with pytest.raises(BadInput, match=f"got '{name}', and {words} already"):
            write_new_method(name)
    write_new_method("fed_other")
    with pytest.raises(BadInput, match="fed_other"):
        write_new_method("fed_other")


def test_its_page_says_that_nobody_has_given_reasons_yet(monkeypatch):
    known = {name: one for name, one in method_reasons().items() if name != "fedrn"}
    monkeypatch.setattr(method_pages, "method_reasons", lambda: known)
    assert "does not give the reasons for the defaults yet" in method_pages.page("fedrn")
