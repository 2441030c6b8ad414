"""Any mutation of a valid scale or experiment is a plan, or one error in words."""

import copy
import random
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checked_plan import checked_plan
from noisyfl.core.options import BadInput, place_of
from noisyfl.experiments.config import check_config
from small_paper import CONFIG, DIGITS, PAPER, edited, plan

NASTY = [
    *(None, True, 0, -1, 1.0, 10**20, 10**400, float("nan"), float("inf"), "", "\0", "é" * 5000),
    *([], {}, [[]], {"name": []}, {"name": "x", 1: 2}, [None], {"": ""}, "none", "a(b=1)"),
    *("fedavg+fedavg", "-" * 3000, "(" * 500, "x(y=" + "9" * 2000 + ")", "variant", "x" * 300),
    *({"a": {"b": {"c": 1}}}, ["a", "a"], 1e-320, 2**63, "2020-09-09", "~nobody/x", "$UNSET/x"),
]
"""Values that no key expects."""


def places(content, path=()):
    """The path of every value in lists and mappings."""
    yield from [path] if path else []
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items if isinstance(content, dict | list) else ():
        yield from places(value, (*path, key)) if isinstance(value, dict | list) else [(*path, key)]


FULL = {
    **CONFIG,
    "trials": 2,
    "device": "cpu",
    "data": {"folder": "data", "download": False, "prepared": []},
    "results": "results",
    "overlay": {
        "datasets": {"cifar10": DIGITS},
        "setting": {"clients": 8, "schedule": {"rounds": 3}, "partition": "dirichlet(alpha=0.5)"},
        "experiments": {"paper": {"model": "cnn"}},
        "methods": {"fedprox": {"mu": 0.5}},
        "columns": {"paper/one": ["noisy"]},
        "rows": {"paper/one": ["FedAvg", "FedProx"]},
        "trials": {"paper/one": 1},
    },
}


def leaves(content):
    """The path of every value that is neither a list nor a mapping."""
    for path in places(content):
        held = content
        for key in path:
            held = held[key]
        if not isinstance(held, dict | list):
            yield path


def test_a_value_that_nothing_takes_is_one_error_with_its_path(tmp_path):
    for content in (FULL, PAPER):
        for path in leaves(content):
            wrong = edited(content, path, -1.5)
            given = {"config": wrong} if content is FULL else {"paper": wrong, "config": FULL}
            with pytest.raises(BadInput) as caught:
                plan(tmp_path, **given)
            words = place_of(path, "my.yaml: " if content is FULL else f"{tmp_path}/paper.yaml: ")
            level = ".constant.level" if path[-1] == "noise_level" else ""  # a number is one, too
            assert str(caught.value).startswith(f"{words}{level}: ")
            assert "-1.5" in str(caught.value)


def mutated(content, chance):
    """A copy with one value replaced, removed, doubled, or put under another key."""
    content = copy.deepcopy(content)
    *path, last = chance.choice(list(places(content)))
    held = content
    for part in path:
        held = held[part]
    what = chance.choice(["replace", "replace", "remove", "rename", "swap"])
    if what == "remove":
        del held[last]
    elif what == "rename" and isinstance(held, dict):
        held[chance.choice(["", "x", 1, None, 1.5, "naem", "schedule", "name"])] = held.pop(last)
    elif what == "swap":
        held[last] = {"name": held[last], "x": [held[last]]}
    else:
        held[last] = chance.choice(NASTY)
    return content


@pytest.mark.slow
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32), scale=st.booleans())
def test_a_mutated_configuration_is_a_plan_or_bad_input(tmp_path_factory, seed, scale):
    chance = random.Random(seed)
    config, paper = (mutated(FULL, chance), PAPER) if scale else (FULL, mutated(PAPER, chance))
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    begun = time.process_time()
    try:
        text = yaml.safe_dump(paper)
        (folder / "paper.yaml").write_text(text)
        made = checked_plan(check_config(config, "my.yaml"), "my.yaml", folder)
        assert made.runs
    except BadInput as error:
        words = str(error)
        assert "my.yaml" in words or "paper.yaml" in words
        assert "cannot be read" not in words
        assert len(words) < 20_000
    assert time.process_time() - begun < 20
