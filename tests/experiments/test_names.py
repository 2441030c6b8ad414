"""Every experiment, table and figure has a target of its own, or the plan is refused."""

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.experiments.config import check_config
from small_paper import PAPER

TABLE = PAPER["tables"]["one"]
FIGURE = {"kind": "by_round", "title": "t", "caption": "c"}


def planned(folder, **experiments):
    """The plan of experiments, each with tables and figures."""
    for name, parts in experiments.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**PAPER, **parts}))
    config = check_config({"scale": "tiny", "experiments": list(experiments)}, "my.yaml")
    return checked_plan(config, "my.yaml", folder)


@pytest.mark.parametrize(
    ("experiments", "target", "places"),
    [
        ({"a": {"tables": {"b": TABLE}, "figures": {"b": {**FIGURE, "table": "b"}}}},
         "a_b", ("a.yaml: figures.b", "a.yaml: tables.b")),
        ({"a": {"tables": {"b_c": TABLE}}, "a_b": {"tables": {"c": TABLE}}},
         "a_b_c", ("a_b.yaml: tables.c", "a.yaml: tables.b_c")),
        ({"a_b": {}, "a": {"tables": {"b": TABLE}}},
         "a_b", ("a.yaml: tables.b", "a_b.yaml")),
    ],
)  # fmt: skip
def test_a_target_of_two_is_refused_with_both_places(tmp_path, experiments, target, places):
    with pytest.raises(BadInput) as caught:
        planned(tmp_path, **experiments)
    here, there = (f"{tmp_path}/{place}" for place in places)
    assert str(caught.value) == (
        f"{here}: got the target {target!r}, which {there} has too, expected another name"
    )


def test_tables_of_one_name_in_two_experiments_have_targets_of_their_own(tmp_path):
    made = planned(tmp_path, a={"tables": {"b": TABLE}}, c={"tables": {"b": TABLE}})
    assert list(made.tables) == ["a/b", "c/b"]


@pytest.mark.parametrize("name", ["My-Exp", "", "a" * 101])
def test_an_experiments_name_that_no_target_can_have_is_refused(name):
    given = {"scale": "tiny", "experiments": ["paper", name]}
    with pytest.raises(BadInput, match=r"^my\.yaml: experiments\[1\]: .*got "):
        check_config(given, "my.yaml")


def test_a_scale_has_an_experiment():
    with pytest.raises(BadInput, match=r"experiments: List should have at least 1 item"):
        check_config({"scale": "tiny", "experiments": []}, "my.yaml")
