"""The file of a plan: made once, loaded by all others, made anew when it is stale or damaged."""

import errno
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.experiments import plan_file, planning
from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.targets import runs_by_target
from noisyfl.models import MODELS
from noisyfl.specs.identity import canonical_json, identity
from outside import PARTS, as_before
from small_paper import CONFIG, DIGITS, PAPER, edited

HUMAN = {"name": "human", "file": "labels.npy", "key": None, "sha256": 64 * "0"}

LOADED = """
import sys
from noisyfl.experiments.config import load_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.scale import Scale
from pathlib import Path

config = load_config([Path(sys.argv[1])])
scale = Scale(config, PlanFile(config, "x").plan(sys.exit))
run = next(iter(scale.plan.runs))
print(scale.estimate(run).seconds, scale.plan.facts[run].words, scale.targets())
print([name for name in ("torch", "torchvision", "sklearn", "scipy") if name in sys.modules])
"""


class Place:
    """A folder with an experiment, a configuration, and results that plans are written to."""

    def __init__(self, folder):
        self.folder = folder
        self.said = []

    def file(self, paper=PAPER, config=CONFIG):
        (self.folder / "paper.yaml").write_text(yaml.safe_dump(paper))
        here = {"results": str(self.folder / "results"), "experiment_folders": [str(self.folder)]}
        return PlanFile(check_config({**config, **here}, "my.yaml"), "my.yaml")

    def plan(self, *args, **kwargs):
        plan = self.file(*args, **kwargs).plan(self.said.append)
        plan.check_targets()
        return plan

    @property
    def path(self):
        """The only plan that there is."""
        (path,) = self.file().folder.iterdir()
        return path


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def same(one, other):
    """Whether plans are the same to the letter: equality takes 1.0 for 1."""
    runs = [[*map(canonical_json, plan.runs.values())] for plan in (one, other)]
    return one == other and runs[0] == runs[1] and repr(one.tables) == repr(other.tables)


def test_an_unchanged_plan_is_read_back_as_it_was_made(place):
    made = place.plan()
    assert same(place.plan(), made)
    assert place.said == ["Planning the scale “tiny”"]
    sums, runs, rest = place.path.read_text().splitlines()
    assert json.loads(sums) == [hashlib.sha256(text.encode()).hexdigest() for text in (runs, rest)]
    # Of thousands of runs each setting and method is written once.
    assert len(json.loads(runs)["settings"]) == len(made.partitions) / 2
    assert len(json.loads(runs)["methods"]) == 2


@pytest.mark.slow
def test_every_kind_of_table_and_figure_comes_back(tmp_path):
    given = {"scale": "smoke", "experiments": ["fedcorr", "fedrn"], "trials": 1}
    config = check_config({**given, "results": str(tmp_path)}, "my.yaml")
    made, again = (PlanFile(config, "my.yaml").plan(lambda line: None) for _ in range(2))
    assert same(again, made)
    assert repr(again.figures) == repr(made.figures)
    assert made.claim_parts
    assert made.facts.keys() == made.runs.keys()
    assert {identity(spec) for spec in again.runs.values()} == made.runs.keys()
    assert same(checked_plan(config, "my.yaml"), made)


def test_another_plan_has_another_file_and_none_ever_changes(place, monkeypatch):
    first = place.plan()
    path = place.path
    text = path.read_text()
    place.plan(edited(PAPER, ("title",), "Another"))
    monkeypatch.setattr(plan_file, "digest_of", lambda *parts: "other sources")
    place.plan(edited(PAPER, ("title",), "Another"))
    monkeypatch.undo()
    assert len(place.said) == 3
    assert len([*place.file().folder.iterdir()]) == 3
    assert path.read_text() == text
    assert place.plan() == first  # as before the edit: it is found again
    assert len(place.said) == 3


def test_it_is_made_anew_if_a_plugin_changes_and_read_without_importing_it(place, tmp_path):
    plugin = tmp_path / "my_parts.py"
    plugin.write_text(PARTS)
    paper = edited(PAPER, ("settings", "base", "model"), "one_layer")
    config = {**CONFIG, "plugins": [str(plugin)]}
    with as_before():
        made = place.plan(paper, config)
        (model,) = {json.dumps(spec["model"]) for spec in made.runs.values()}
        assert json.loads(model) == {"name": "one_layer", "width": 32, "revision": 1}
    assert place.plan(paper, config) == made
    assert "one_layer" not in MODELS.classes
    assert len(place.said) == 1
    plugin.write_text(PARTS.replace("revision = 1\n    width", "revision = 2\n    width"))
    with as_before():
        again = place.plan(paper, config)
    assert len(place.said) == 2
    assert len(again.runs) == len(made.runs)
    assert not set(again.runs) & set(made.runs)


def test_a_plan_on_a_plugins_dataset_loads_it(place, tmp_path):
    plugin = tmp_path / "my_parts.py"
    plugin.write_text(PARTS)
    paper = edited(PAPER, ("settings", "base", "dataset"), "stripes")
    paper["settings"]["base"] |= {"model": "one_layer", "augmentation": "none"}
    paper["settings"]["base"]["normalization"] = "dataset"
    config = {**CONFIG, "plugins": [str(plugin)]}
    for _ in range(2):
        with as_before():
            made = place.plan(paper, config)
            assert made.estimate(next(iter(made.runs)), "cpu").seconds > 0
    assert len(place.said) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "expected a Python file, and there is none at"),
        ("1 / 0", r"plugin my_parts\.py: .*my_parts\.py, line 1: ZeroDivisionError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_before_any_job(place, tmp_path, body, expected):
    plugin = tmp_path / "my_parts.py"
    if body:
        plugin.write_text(body)
    with as_before(), pytest.raises(BadInput, match=expected):
        place.plan(config={**CONFIG, "plugins": [str(plugin)]})


LINEAR, CALL = "nn.Linear(pixels, width)", "self.classifier(self.features(images))"


# No other test builds a model of these widths for so many classes, and what is built is cached.
@pytest.mark.parametrize(
    ("width", "old", "new", "expected"),
    [
        (5, "def features(", "def feature(", "one_layer: got a module without features(images)"),
        (6, "nn.Flatten(), ", "", "my_parts.py, line 33: RuntimeError: "),
        (7, "self.body(images)", "images.flatten(1)", "my_parts.py, line 36: RuntimeError: "),
        (32, "self.body(images)", "images", "features(images) gives torch.float32 [2, 3, 32, 32]"),
        (8, CALL, "(self.features(images))", "the module gives torch.float32 [2, 8] for two"),
        (13, CALL, f"{CALL}, images", "the module gives tuple of 2 for two images, expected a"),
        (14, "minimum = 1", 'minimum = "1"', "one_layer: minimum: got '1', expected a whole"),
        (9, CALL, f"{CALL}.log_softmax(1)", "gives something else than `classifier` does"),
        (10, LINEAR, "nn.LazyLinear(width)", "body.1.weight: got a parameter of a lazy layer"),
        (11, LINEAR, f"{LINEAR}.requires_grad_(False)", "body.1.weight: got a frozen parameter"),
        (12, "self.classifier = nn", "self.other = nn.Linear(2, 2); self.classifier = nn",
         "other.weight: got a parameter on which classifier(features(images)) does"),
    ],
)  # fmt: skip
def test_a_model_that_is_none_is_refused(place, tmp_path, width, old, new, expected):
    assert old in PARTS
    plugin = tmp_path / "my_parts.py"
    plugin.write_text(PARTS.replace(old, new))
    paper = edited(PAPER, ("settings", "base", "model"), f"one_layer(width={width})")
    paper["settings"]["base"]["dataset"] = "cifar100"
    with as_before(), pytest.raises(BadInput) as refused:
        place.plan(paper, {**CONFIG, "plugins": [str(plugin)]})
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


WRONG = {**CONFIG, "overlay": {"experiments": {"paper/two": {"clients": 60_000}}}}


def two_tables():
    """A paper with two tables, and figures of the second one."""
    paper = edited(PAPER, ("tables", "two"), PAPER["tables"]["one"])
    caption = {"title": "A figure", "caption": "Ours."}
    paper["figures"] = {"drawn": {"kind": "by_round", "table": "two", **caption}}
    return paper


def test_what_is_wrong_with_a_table_matters_only_if_the_table_is_wanted(place):
    for wanted in (None, ["paper"], ["paper/two"], ["paper/one", "paper/drawn"]):
        with pytest.raises(BadInput, match="60000"):
            place.plan(two_tables(), {**WRONG, "targets": wanted})
    plan = place.plan(two_tables(), {**WRONG, "targets": ["paper/one"]})
    right = place.plan(edited(PAPER, ("title",), "A paper"))
    assert plan.tables.keys() == {"paper/one"}
    assert plan.runs == right.runs
    assert plan.wrong.keys() == {"paper/two", "paper/drawn"}
    assert set(plan.wrong.values()) == {plan.why_wrong("paper_two")}
    assert runs_by_target(plan, "paper_one").keys() == {"paper_one"}
    for target in ("paper_two", "paper_drawn", "paper"):
        with pytest.raises(BadInput, match="60000"):
            runs_by_target(plan, target)


def test_a_plan_with_a_wrong_table_is_made_again_each_time(place):
    for _ in range(2):
        place.plan(two_tables(), {**WRONG, "targets": ["paper/one"]})
    assert len(place.said) == 2
    assert len([*place.file().folder.iterdir()]) == 1  # whose runs jobs find there


def test_configurations_that_ask_for_other_plans_have_other_files(place):
    other = [{"trials": 1}, {"overlay": {"setting": DIGITS}}, {"data": {"folder": "elsewhere"}}]
    same = [{"device": "cpu"}, {"keep_models": True}, {"train_missing": False}]
    for change in (*other, {}):
        place.plan(config={**CONFIG, **change})
    assert len([*place.file().folder.iterdir()]) == len(place.said) == 4
    for change in same:
        place.plan(config={**CONFIG, **change})
    assert len(place.said) == 4


def test_a_job_finds_its_run_whatever_was_planned_since_it_was_submitted(place, monkeypatch):
    made = place.plan()
    run, spec = next(iter(made.runs.items()))
    other = place.plan(edited(PAPER, ("settings", "base", "clients"), 3))  # edited meanwhile
    assert run not in other.runs
    monkeypatch.setattr(planning, "make_plan", None)
    for name in (run, made.facts[run].partition):
        found = place.file().plan_with(name, pytest.fail)
        assert found.runs[run] == spec
        assert found.facts[run] == made.facts[run]
        assert not found.tables


def test_a_job_without_a_plan_makes_it(place):
    run = next(iter(checked_plan(place.file().config, "my.yaml").runs))
    assert run in place.file().plan_with(run, place.said.append).runs
    assert len(place.said) == 1
    assert place.plan().tables
    assert len(place.said) == 1


def test_human_labels_are_read_again_if_their_files_change(place):
    def planned(noise):
        paper = edited(PAPER, ("settings", "base", "label_noise"), noise)
        paper["tables"]["one"]["columns"] = [{"name": "human"}]
        return place.plan(paper, {**CONFIG, "data": {"folder": str(place.folder)}})

    assert planned(HUMAN) == planned(HUMAN)
    found = []
    for label in (1, 2):
        np.save(place.folder / "labels.npy", np.full(50_000, label))
        found.append(planned({**HUMAN, "sha256": ""}))
    assert not set(found[0].runs) & set(found[1].runs)
    assert planned({**HUMAN, "sha256": ""}) == found[1]
    assert len(place.said) == 3
    (place.folder / "labels.npy").unlink()
    with pytest.raises(BadInput, match=r"labels\.npy"):
        planned({**HUMAN, "sha256": ""})


def test_an_experiment_that_lacked_its_human_labels_is_planned_once_they_are_there(place):
    human = edited(PAPER, ("settings", "base", "label_noise"), {**HUMAN, "sha256": ""})
    human["tables"]["one"]["columns"] = [{"name": "human"}]
    (place.folder / "human.yaml").write_text(yaml.safe_dump(human))
    config = {**CONFIG, "experiments": ["paper", "human"], "targets": ["paper"]}
    config["data"] = {"folder": str(place.folder)}
    assert "labels.npy" in place.plan(config=config).wrong["human/one"]
    np.save(place.folder / "labels.npy", np.ones(50_000, int))
    assert "human/one" in place.plan(config=config).tables


@pytest.mark.parametrize(
    "changed",
    [
        lambda sums, runs, rest: [sums, runs.replace(":1}", ":2}", 1), rest],
        lambda sums, runs, rest: [sums, runs, rest.replace("A paper", "Another paper", 1)],
        lambda *_: [],
        lambda *_: ["{}", "[]", "1"],
        lambda sums, runs, _: [sums, runs],
    ],
    ids=["other seed", "other title", "nothing", "other JSON", "fewer lines"],
)
def test_a_damaged_plan_is_made_anew(place, changed):
    made = place.plan()
    path = place.path
    whole = path.read_text()
    lines = changed(*whole.splitlines())
    assert "\n".join(lines) != whole.rstrip("\n")
    path.write_text("\n".join(lines))
    assert place.plan() == made
    assert len(place.said) == 2
    assert path.read_text() == whole


def test_a_folder_that_cannot_be_written_to_costs_a_line_and_time(place, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(plan_file, "write_text", full)
    for _ in range(2):
        assert place.plan().tables
    assert place.said[1] == place.said[3]
    assert place.said[1].startswith(f"{place.file().folder}/")
    assert place.said[1].endswith(
        ".jsonl: cannot be written (No space left on device), so every job plans for itself"
    )


@pytest.mark.slow
def test_loading_a_plan_needs_no_torch(place):
    config = place.folder / "mine.yaml"
    here = {"results": str(place.folder / "results"), "experiment_folders": [str(place.folder)]}
    config.write_text(yaml.safe_dump({**CONFIG, **here}))
    place.plan()
    command = [sys.executable, "-c", LOADED, config]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
