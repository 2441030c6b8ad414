"""Pages and schemas say what the declarations say, and editors refuse what these refuse."""

import functools
import json
import operator
import re
from pathlib import Path
from typing import Literal

import jsonschema
import pytest
from pydantic import TypeAdapter

from noisyfl.claims.catalogue import all_claims
from noisyfl.claims.findings import CANNOT_TELL
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput, option
from noisyfl.core.places import ROOT
from noisyfl.core.registry import Component, Registry
from noisyfl.documentation import option_tables
from noisyfl.experiments import editor_schemas
from noisyfl.experiments.experiment import AnyFigure
from noisyfl.figures.draw import KINDS
from noisyfl.specs.catalogue import methods

FILES = option_tables.pages()
SCALES = sorted((ROOT / "config").glob("*.yaml"))
EXPERIMENTS = sorted((ROOT / "config" / "papers").glob("*.yaml"))


@pytest.fixture(scope="module")
def editors():
    """By form, the check that an editor makes."""
    return {
        form: jsonschema.Draft202012Validator(editor_schemas.for_editors(form))
        for form in ("config", "experiment")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_generated_fits_the_declarations(path):
    assert path.read_text() == FILES[path], "run: make generated"


def test_every_method_is_in_one_family():
    listed = [one.name for members in option_tables.families().values() for one in members]
    assert sorted(listed) == list(methods())
    own, clients, servers, both = option_tables.families().values()
    assert {one.name for one in own} == {"rofl", "fedcni", "fednoil", "fedcorr", "fedrn"}
    names = [{one.name for one in family} for family in (clients, servers, both)]
    assert all(name in names[n] for n, name in enumerate(("dividemix", "krum", "scaffold")))


def test_every_claim_is_listed_with_the_verdict_that_evidence_has():
    page = (ROOT / "docs" / "claims.md").read_text()
    for claim in all_claims().values():
        start = re.escape(f"| {claim.name} | {claim.place} | {' '.join(claim.sentence.split())} | ")
        ours = rf"\[([a-z ]+)\]\(evidence/{claim.paper}\.md\)"
        (found,) = re.findall(rf"^{start}([a-z ]+) \| {ours} \|$", page, re.MULTILINE)
        evidence = (ROOT / "docs" / "evidence" / f"{claim.paper}.md").read_text()
        row = re.search(
            rf"^\| {claim.name} \|.*\| ([a-z ]+): [^|]* \| ([a-z ]+): [^|]* \|$", evidence, re.M
        )
        assert found[1] == (row[2] if row else CANNOT_TELL), f"{claim.name}: run make evidence"


PAGE = """text
<!-- options: fedprox -->

| anything |
|---|
| wrong |

<!-- statuses -->

more"""


def test_tables_are_written_anew_under_their_comments():
    written = option_tables.fill(PAGE, "page.md")
    assert option_tables.fill(written, "page.md") == written
    lines = written.split("\n")
    assert (lines[0], lines[-1]) == ("text", "more")
    assert lines[3] == "| option | default | meaning |"
    assert "| `mu` | 0.01 | weight of the proximal term |" in lines
    assert "wrong" not in written
    fedprox = methods()["fedprox"].reference
    link = "[FedProx](../workflow/reasons/methods/fedprox.yaml)"
    assert f"| {link} | exact | {fedprox} |" in lines


def test_a_table_of_what_is_not_declared_is_an_error():
    with pytest.raises(BadInput, match=r"docs/page\.md: nothing is called 'fedavgg'"):
        option_tables.fill("<!-- options: fedavgg -->\n\n", "docs/page.md")


@pytest.mark.parametrize(
    ("names", "components", "expected"),
    [(["m"], ["fedprox"], "no option 'm'"), (["alpha"], ["apfl", "fedrn"], "one default")],
)
def test_a_reason_for_options_that_are_not_there_or_not_alike_is_an_error(
    names, components, expected
):
    with pytest.raises(BadInput, match=rf"a\.yaml: .*{expected}"):
        option_tables.shared_option(names, components, "a.yaml")


def test_a_default_that_is_a_share_says_of_what():
    assert option_tables.default_of(methods()["fedrn"], "warm_up_rounds") == "100 of 500 rounds"


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


def test_a_schema_is_written_for_each_kind_of_file(tmp_path):
    for path in editor_schemas.write_schemas(tmp_path):
        assert json.loads(path.read_text()) == editor_schemas.for_editors(path.name.split(".")[0])


def test_experiments_know_the_kinds_of_figures_that_can_be_drawn():
    kinds = TypeAdapter(AnyFigure).json_schema()["discriminator"]["mapping"]
    assert set(kinds) == set(KINDS)


OVERLAYS = [
    ({"methods": {"fedcorr": {"beta": 5, "usual_rounds": None}}}, True),
    ({"methods": {"fedcorr": {"beta": -1}}}, False),
    ({"methods": {"fedcorr": {"betta": 1}}}, False),
    ({"methods": {"fedcor": {}}}, False),
    ({"methods": {"fedrn": {"variant": "paper"}}}, True),
    ({"methods": {"fedrn": {"variant": "papers"}}}, False),
    ({"setting": {"partition": "dirichlet(alpha=1)"}}, True),
    ({"setting": {"partition": "dirichlet"}}, False),
    ({"setting": {"partition": {"name": "dirichlet", "alpha": 1.5, "per_client": None}}}, True),
    ({"setting": {"partition": {"name": "dirichlet"}}}, False),
    ({"setting": {"partition": {"name": "dirichlet", "alpha": 1, "shards": 2}}}, False),
    ({"setting": {"partition": {"alpha": 2}}}, True),
    ({"setting": {"partition": {"alhpa": 2}}}, False),
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
