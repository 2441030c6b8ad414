"""A spec is compared as the text that its id is made of."""

import json

import pytest

from noisyfl.core.options import BadInput
from noisyfl.core.plugins import COMPONENTS
from noisyfl.core.registry import parts_of
from noisyfl.data.noise.matrix import Matrix
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import check_run
from noisyfl.specs.words import describe_option
from small_runs import spec_of


@pytest.mark.parametrize(("key", "value"), [("rounds", 8.0), ("batch_size", 20.0)])
def test_a_whole_number_written_as_a_fraction_is_no_other_run(key, value):
    spec = spec_of("fedavg")
    other = {**spec, "schedule": {**spec["schedule"], key: value}}
    assert other == spec
    assert identity(other) != identity(spec)
    with pytest.raises(BadInput, match=r"a\.json: not a canonical spec .*; schedule would now be"):
        check_run(other, "a.json")
    check_run(json.loads(json.dumps(spec)), "a.json")


@pytest.mark.parametrize(
    ("method", "expected"),
    [("fedavg", "fedavg"), ("krum+gce", "gce"), ("krum(byzantine=0)+gce(q=0.5)", "gce")],
)
def test_a_spec_of_a_method_that_was_edited_says_so(method, expected):
    spec = spec_of(method)
    spec["method"] = json.loads(json.dumps(spec["method"]))
    parts_of(spec["method"])[-1]["revision"] = "0-0123456789ab"
    said = f"a.json: the code of {expected} has changed since this spec was made; compare and"
    with pytest.raises(BadInput, match=said):
        check_run(spec, "a.json")


def test_a_run_of_a_method_whose_file_is_gone_still_has_words():
    spec = spec_of("fedprox(mu=0.5)")
    spec["method"]["name"] = "gone"
    assert describe_run(spec).startswith("gone(mu=0.5, prox_form=squared) on ")


def test_every_option_of_every_component_is_described():
    described = 0
    for kind in ("label noise", "noise level", "partition", "method", "model"):
        for component in COMPONENTS[kind].values():
            for option in component.model_fields:
                assert describe_option(component, option).allowed
                described += 1
    assert described > 100
    rows = describe_option(Matrix, "rows")
    assert rows.allowed == "a list: a number at least 0 and at most 1"
