"""Editors accept and reject what the declarations accept and reject."""

import functools
import json
import operator
import re
from pathlib import Path
from typing import Literal

import jsonschema
import pytest
from pydantic import TypeAdapter

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import option
from noisyfl.core.places import ROOT
from noisyfl.core.registry import Component, Registry
from noisyfl.experiments import editor_schemas
from noisyfl.experiments.experiment import AnyFigure
from noisyfl.figures.draw import KINDS
from noisyfl.specs.catalogue import methods

SCALES = sorted((ROOT / "config").glob("*.yaml"))
EXPERIMENTS = sorted((ROOT / "config" / "papers").glob("*.yaml"))


@pytest.fixture(scope="module")
def editors():
    """By form, the check that an editor makes."""
    return {
        form: jsonschema.Draft202012Validator(editor_schemas.for_editors(form))
        for form in ("config", "experiment")
    }


@pytest.mark.parametrize("path", [*SCALES, *EXPERIMENTS], ids=lambda path: path.stem)
@pytest.mark.slow
def test_every_file_of_the_configuration_fits_what_editors_are_told(path, editors):
    form = "experiment" if path in EXPERIMENTS else "config"
    head = path.read_text().split("\n")[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", head)
    assert (path.parent / named[1]).resolve().parent == ROOT / editor_schemas.FOLDER
    assert Path(named[1]).name == f"{form}.schema.json"
    assert [error.message for error in editors[form].iter_errors(read_yaml(path))] == []


def test_a_schema_for_editors_needs_no_other_file():
    for form in ("config", "experiment"):
        schema = editor_schemas.for_editors(form)
        for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))):
            assert functools.reduce(
                operator.getitem, reference.removeprefix("#/").split("/"), schema
            )


def test_a_schema_is_written_for_each_kind_of_file(tmp_path, monkeypatch):
    monkeypatch.setattr(editor_schemas, "FOLDER", tmp_path)
    for path in editor_schemas.write_schemas():
        assert json.loads(path.read_text()) == editor_schemas.for_editors(path.name.split(".")[0])


def test_experiments_know_the_kinds_of_figures_that_can_be_drawn():
    kinds = TypeAdapter(AnyFigure).json_schema()["discriminator"]["mapping"]
    assert set(kinds) == set(KINDS)


OVERLAYS = [
    ({"methods": {"fedcorr": {"beta": 5, "usual_rounds": None}}}, True),
    ({"methods": {"fedcorr": {"beta": -1}}}, False),
    ({"methods": {"fedcorr": {"betta": 1}}}, False),
    ({"methods": {"fedrn": {"variant": "paper"}}}, True),
    ({"methods": {"fedrn": {"variant": "papers"}}}, False),
    ({"setting": {"partition": "dirichlet(alpha=1)"}}, True),
    ({"setting": {"partition": "dirichlet"}}, False),
    ({"setting": {"partition": {"name": "dirichlet", "alpha": 1.5, "per_client": None}}}, True),
    ({"setting": {"partition": {"name": "dirichlet", "alpha": 1, "shards": 2}}}, False),
    ({"setting": {"partition": {"alpha": 2}}}, True),
    ({"setting": {"partition": {"alhpa": 2}}}, False),
    ({"setting": {"noise_level": 0.3}}, True),
    ({"setting": {"noise_level": True}}, False),
    ({"setting": {"noise_level": {"name": "groups", "levels": [0.1, 0.2]}}}, True),
    ({"setting": {"noise_level": {"name": "groups", "levels": 0.1}}}, False),
    ({"setting": {"schedule": {"rounds": 3}}}, True),
    ({"setting": {"schedule": {"rounds": 0}}}, False),
    ({"setting": {"dataset": "cifar11"}}, False),
]


@pytest.mark.parametrize(("overlay", "fits"), OVERLAYS, ids=lambda value: json.dumps(value))
def test_editors_know_the_options_of_methods_and_components(overlay, fits, editors):
    scale = {"scale": "quick", "experiments": ["fedcorr"], "overlay": overlay}
    assert editors["config"].is_valid(scale) == fits


@pytest.mark.parametrize(
    ("method", "fits"),
    [
        ("krum(byzantine=1)+dividemix", True),
        ("krum+dividemixx", False),
        ("fedcorr", True),
        ({"name": "fedprox", "mu": 1}, True),
        ({"name": "fedprox", "nu": 1}, False),
        ({"parts": ["krum", {"name": "fedprox", "mu": 1}]}, True),
    ],
)
def test_editors_know_methods_and_their_combinations(method, fits, editors):
    figure = {"kind": "local_epochs", "title": "t", "caption": "c", "rounds": 3}
    figure["methods"] = [{"name": "one", "method": method}]
    experiment = {"title": "t", "settings": {}, "figures": {"one": figure}}
    assert editors["experiment"].is_valid(experiment) == fits


def test_every_default_is_one_that_editors_allow(editors):
    given = {name: one.defaults() for name, one in methods().items()}
    scale = {"scale": "quick", "experiments": ["fedcorr"], "overlay": {"methods": given}}
    assert [error.message for error in editors["config"].iter_errors(scale)] == []


def test_a_list_of_choices_that_may_be_null_is_described_so():
    registry = Registry[Component]("thing", Component)

    @registry.register("sample")
    class Sample(Component):
        """A component."""

        words: list[Literal["a", "b"]] | None = option(["a"], doc="which")
        share: float = option(doc="how much", above=0, at_most=1)

    schema = editor_schemas._component(registry)["anyOf"][-2]
    assert schema["properties"]["words"]["description"] == "which"
    assert schema["properties"]["words"]["default"] == ["a"]
    editor = jsonschema.Draft202012Validator(schema)
    given = {"name": "sample", "words": ["b"], "share": 0.5}
    assert editor.is_valid(given)
    assert editor.is_valid({**given, "words": None})
    for wrong in ({"words": ["c"]}, {"words": "a"}, {"share": 0}, {"share": 1.5}, {"other": 1}):
        assert not editor.is_valid({**given, **wrong})
