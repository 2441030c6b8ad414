"""What an experiment file comes to is kept; a change of what it rests on has it made anew."""

import hashlib
import json

import numpy as np
import platformdirs
import pytest
from tests.support.small_paper import CONFIG, DIGITS, PAPER, edited, plan

from noisyfl.core.options import BadInput
from noisyfl.experiments import config
from noisyfl.experiments.config import ROOT, check_config, make_plan
from noisyfl.experiments.expansion import Expansion

HUMAN = {"name": "human", "file": "labels.npy", "key": None, "sha256": 64 * "0"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "noisyfl"


@pytest.fixture
def expanded(cache, monkeypatch):
    """The names of experiments, once for each time that one was expanded."""
    names = []

    class Watched(Expansion):
        def expand(self):
            names.append(self.name)
            return super().expand()

    monkeypatch.setattr(config, "Expansion", Watched)
    return names


def test_an_unchanged_experiment_is_read_back_as_it_was_made(tmp_path, expanded):
    made = plan(tmp_path)
    assert plan(tmp_path) == made
    assert list(plan(tmp_path).runs) == list(made.runs)
    assert expanded == ["paper"]


def test_every_kind_of_table_and_figure_comes_back(expanded):
    smoke = check_config(
        {"scale": "smoke", "experiments": ["fedcorr", "fedrn"], "trials": 1}, "my.yaml"
    )
    made, again = (make_plan(smoke, ROOT / "config" / "papers", "my.yaml") for _ in range(2))
    assert expanded == ["fedcorr", "fedrn"]
    assert again == made
    # As texts: equality takes 1.0 for 1, and keys in any order.
    assert repr(again) == repr(made)


def test_what_it_rests_on_changes(tmp_path, expanded, monkeypatch):
    plan(tmp_path)
    plan(tmp_path, config={**CONFIG, "overlay": {"setting": DIGITS}})
    plan(tmp_path, config={**CONFIG, "trials": 1})
    plan(tmp_path, edited(PAPER, ("title",), "Another"))
    assert len(expanded) == 4
    monkeypatch.setattr("noisyfl.experiments.kept_plans.digest_of", lambda *parts: "other sources")
    plan(tmp_path)
    assert len(expanded) == 5


def test_human_labels_are_looked_for_every_time_unless_their_checksum_is_given(tmp_path, expanded):
    def planned(noise):
        paper = edited(PAPER, ("settings", "base", "label_noise"), noise)
        paper["tables"]["one"]["columns"] = [{"name": "human"}]
        return plan(tmp_path, paper, {**CONFIG, "data": {"folder": str(tmp_path)}})

    assert planned(HUMAN) == planned(HUMAN)
    assert len(expanded) == 1
    found = []
    for label in (1, 2):
        np.save(tmp_path / "labels.npy", np.full(50_000, label))
        found.append(planned({**HUMAN, "sha256": ""}))
    assert not set(found[0].runs) & set(found[1].runs)
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(BadInput, match=r"labels\.npy"):
        planned({**HUMAN, "sha256": ""})


def other_spec(plan):
    next(iter(plan["runs"].values()))["seed"] += 1


def other_id(plan):
    first, second, *_ = plan["runs"]
    plan["runs"][first], plan["runs"][second] = plan["runs"][second], plan["runs"][first]


def other_partition(plan):
    next(iter(plan["partitions"].values()))["seed"] += 1


def other_cell(plan):
    rows = plan["tables"]["paper/one"]["runs"]
    rows[0], rows[1] = rows[1], rows[0]


@pytest.mark.parametrize("alter", [other_spec, other_id, other_partition, other_cell])
def test_a_plan_that_was_altered_is_made_anew(tmp_path, cache, expanded, alter):
    made = plan(tmp_path)
    (kept,) = cache.glob("plan_*")
    whole = kept.read_text()
    checksum, text = whole.split("\n")
    content = json.loads(text)
    alter(content)
    kept.write_text(f"{checksum}\n{json.dumps(content)}")
    assert plan(tmp_path) == made
    assert expanded == ["paper", "paper"]
    assert kept.read_text() == whole
    assert plan(tmp_path) == made
    assert expanded == ["paper", "paper"]


@pytest.mark.parametrize("alter", [other_spec, other_id, other_partition])
def test_no_run_has_the_id_of_another_even_if_the_checksum_fits(tmp_path, cache, expanded, alter):
    made = plan(tmp_path)
    (kept,) = cache.glob("plan_*")
    content = json.loads(kept.read_text().split("\n")[1])
    alter(content)
    text = json.dumps(content)
    kept.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    assert plan(tmp_path) == made
    assert expanded == ["paper", "paper"]


def test_what_is_kept_may_be_damaged_or_impossible_to_keep(tmp_path, cache, expanded):
    made = plan(tmp_path)
    (kept,) = cache.glob("plan_*")
    for text in ("", "[]", "{}", kept.read_text()[:-9]):
        kept.write_text(text)
        assert plan(tmp_path) == made
    kept.unlink()
    cache.rename(tmp_path / "elsewhere")
    cache.write_text("a file stands in its place")
    assert plan(tmp_path) == made
    assert len(expanded) == 6
