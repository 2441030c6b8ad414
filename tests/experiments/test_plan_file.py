"""The file of a plan: made once, loaded by all others, made anew when it is stale or damaged."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.support.small_paper import CONFIG, DIGITS, PAPER, edited

from noisyfl.core.options import BadInput
from noisyfl.experiments import plan_file, planning
from noisyfl.experiments.config import EXPERIMENTS, check_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.planning import make_plan
from noisyfl.models import MODELS
from outside import PARTS, as_before

HUMAN = {"name": "human", "file": "labels.npy", "key": None, "sha256": 64 * "0"}

LOADED = """
import sys
from noisyfl.experiments.config import load_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.scale import Scale
from noisyfl.core.artifacts import Results
from pathlib import Path

config = load_config(Path(sys.argv[1]))
scale = Scale(config, PlanFile(config, "x", Path(sys.argv[2])).plan(sys.exit), Results(Path("x")))
run = next(iter(scale.plan.runs))
print(scale.estimate(run).seconds, scale.plan.words[run], scale.targets())
print([name for name in ("torch", "torchvision", "sklearn", "scipy") if name in sys.modules])
"""


class Place:
    """A folder with an experiment, a configuration, and results that plans are written to."""

    def __init__(self, folder):
        self.folder = folder
        self.said = []

    def file(self, paper=PAPER, config=CONFIG):
        (self.folder / "paper.yaml").write_text(yaml.safe_dump(paper))
        given = check_config({**config, "results": str(self.folder / "results")}, "my.yaml")
        return PlanFile(given, "my.yaml", self.folder)

    def plan(self, *args, **kwargs):
        return self.file(*args, **kwargs).plan(self.said.append)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_an_unchanged_plan_is_read_back_as_it_was_made(place):
    made = place.plan()
    again = place.plan()
    assert again == made
    # As texts: equality takes 1.0 for 1, and keys in any order.
    assert repr(again) == repr(made)
    (said,) = place.said
    assert said == f"Planning the scale “tiny”, since there is none yet: {place.file().path}"
    content = json.loads(place.file().path.read_text())
    assert list(content) == ["inputs", "checksum", "plan"]


@pytest.mark.slow
def test_every_kind_of_table_and_figure_comes_back(tmp_path):
    given = {"scale": "smoke", "experiments": ["fedcorr", "fedrn"], "trials": 1}
    config = check_config({**given, "results": str(tmp_path)}, "my.yaml")
    made, again = (PlanFile(config, "my.yaml").plan(lambda line: None) for _ in range(2))
    assert repr(again) == repr(made)
    assert made.claim_parts
    assert made.words.keys() == made.work.keys() == made.runs.keys()
    assert repr(make_plan(config, EXPERIMENTS, "my.yaml")) == repr(made)


def test_it_is_made_anew_if_what_it_follows_from_changes(place, monkeypatch):
    place.plan()
    place.plan(edited(PAPER, ("title",), "Another"))
    assert "since what it follows from has changed" in place.said[1]
    monkeypatch.setattr(plan_file, "digest_of", lambda *parts: "other sources")
    place.plan(edited(PAPER, ("title",), "Another"))
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
    plugin.write_text(PARTS.replace("    minimum = 1", "    minimum = 1\n    revision = 2"))
    with as_before():
        again = place.plan(paper, config)
    assert "since what it follows from has changed" in place.said[1]
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


@pytest.mark.parametrize(
    ("old", "new", "width", "expected"),
    [
        (
            "def features(",
            "def feature(",
            5,
            "one_layer: got a module without features(images)",
        ),
        ("nn.Flatten(), ", "", 6, "my_parts.py, line 32: RuntimeError: "),
        ("self.body(images)", "images.flatten(1)", 7, "my_parts.py, line 35: RuntimeError: "),
        ("self.body(images)", "images", 32, "one_layer: features(images) gives [2, 3, 32, 32] for"),
        (
            "self.classifier(self",
            "(self",
            8,
            "one_layer: the module gives [2, 8] for two images",
        ),
        (
            "self.classifier(self.features(images))",
            "self.classifier(self.features(images)).log_softmax(1)",
            9,
            "one_layer: the module gives something else than `classifier` does",
        ),
        (
            "nn.Linear(pixels, width)",
            "nn.LazyLinear(width)",
            10,
            "one_layer: body.1.weight: got a parameter of a lazy layer, which has no shape yet",
        ),
        (
            "nn.Linear(pixels, width)",
            "nn.Linear(pixels, width).requires_grad_(False)",
            11,
            "one_layer: body.1.weight: got a frozen parameter (requires_grad=False), expected",
        ),
        (
            "self.classifier = nn",
            "self.other = nn.Linear(2, 2); self.classifier = nn",
            12,
            "one_layer: other.weight: got a parameter on which classifier(features(images)) does",
        ),
    ],
)
def test_a_model_that_is_none_is_refused(place, tmp_path, old, new, width, expected):
    assert old in PARTS
    plugin = tmp_path / "my_parts.py"
    plugin.write_text(PARTS.replace(old, new))
    paper = edited(PAPER, ("settings", "base", "model"), f"one_layer(width={width})")
    # No other test builds a model of this width for so many classes, and what is built is cached.
    paper["settings"]["base"]["dataset"] = "cifar100"
    with as_before(), pytest.raises(BadInput) as refused:
        place.plan(paper, {**CONFIG, "plugins": [str(plugin)]})
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_configurations_that_ask_for_other_plans_have_other_files(place):
    other = [{"trials": 1}, {"overlay": {"setting": DIGITS}}, {"data": {"folder": "elsewhere"}}]
    same = [{"device": "cpu"}, {"keep_models": True}, {"train_missing": False}]
    names = [place.file(config={**CONFIG, **change}).path for change in (*other, {})]
    assert len(set(names)) == 4
    assert {place.file(config={**CONFIG, **change}).path for change in same} == {names[-1]}


def test_a_job_loads_the_plan_of_its_own_snakemake_whatever_has_changed_since(place, monkeypatch):
    made = place.plan()
    place.plan(config={**CONFIG, "trials": 1})  # another Snakemake
    monkeypatch.setattr(plan_file, "digest_of", lambda *parts: "other sources")
    monkeypatch.setattr(planning, "make_plan", None)
    assert place.file().load(pytest.fail) == made


def test_a_job_loads_the_plan_that_its_snakemake_has_kept(place, monkeypatch):
    monkeypatch.setenv(plan_file.KEPT, "")
    made = place.plan()
    place.file().keep()
    other = place.plan(edited(PAPER, ("settings", "base", "clients"), 3))  # edited meanwhile
    assert made.runs.keys() != other.runs.keys()
    assert place.file().load(pytest.fail) == made
    # What is kept is of one configuration; without it, the job takes what there is.
    few = place.plan(config={**CONFIG, "trials": 1})
    assert place.file(config={**CONFIG, "trials": 1}).load(pytest.fail) == few
    Path(os.environ[plan_file.KEPT]).unlink()
    assert place.file().load(pytest.fail) == other


def test_a_job_without_a_plan_makes_it(place):
    assert place.file().load(place.said.append) == place.plan()
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
    config = {**CONFIG, "experiments": ["paper", "human"]}
    config["data"] = {"folder": str(place.folder)}
    for _ in range(2):
        assert "labels.npy" in place.plan(config=config).left_out["human"]
    assert len(place.said) == 1
    np.save(place.folder / "labels.npy", np.ones(50_000, int))
    assert "human/one" in place.plan(config=config).tables


def other_spec(plan):
    next(iter(plan["runs"].values()))["seed"] += 1


def other_id(plan):
    first, second, *_ = plan["runs"]
    plan["runs"][first], plan["runs"][second] = plan["runs"][second], plan["runs"][first]


def other_partition(plan):
    next(iter(plan["partitions"].values()))["seed"] += 1


def other_cell(plan):
    rows = plan["tables"]["paper/one"]["cells"]
    rows[0], rows[1] = rows[1], rows[0]


def alter(path, change, checksum=False):
    head, text, end = path.read_text().split("\n", 2)
    plan = json.loads(text)
    change(plan)
    changed = json.dumps(plan)
    if checksum:
        old, new = (hashlib.sha256(one.encode()).hexdigest() for one in (text, changed))
        head = head.replace(old, new)
    path.write_text("\n".join([head, changed, end]))


@pytest.mark.parametrize("change", [other_spec, other_id, other_partition, other_cell])
def test_a_plan_that_was_altered_is_made_anew(place, change):
    made = place.plan()
    path = place.file().path
    whole = path.read_text()
    alter(path, change)
    assert place.plan() == made
    assert "since the file was altered or cannot be read" in place.said[1]
    assert path.read_text() == whole
    alter(path, change)
    assert place.file().load(place.said.append) == made  # a job's too
    assert len(place.said) == 3


@pytest.mark.parametrize("change", [other_spec, other_id, other_partition])
def test_no_run_has_the_id_of_another_even_if_the_checksum_fits(place, change):
    made = place.plan()
    alter(place.file().path, change, checksum=True)
    assert place.plan() == made
    assert len(place.said) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", "\n\n", '{"inputs": "a", "plan":\n[]\n}\n'])
def test_a_damaged_plan_is_made_anew(place, text):
    made = place.plan()
    place.file().path.write_text(text)
    assert place.plan() == made
    assert len(place.said) == 2


def test_a_folder_that_cannot_be_written_to_costs_a_line_and_time(place, monkeypatch):
    @contextmanager
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    monkeypatch.setattr(plan_file, "replacing", full)
    for _ in range(2):
        assert place.plan().tables
    path = place.file().path
    assert place.said[1] == place.said[3]
    assert place.said[1] == (
        f"{path}: cannot be written (No space left on device), so every job plans for itself"
    )


def test_loading_a_plan_needs_no_torch(place):
    config = place.folder / "mine.yaml"
    config.write_text(yaml.safe_dump({**CONFIG, "results": str(place.folder / "results")}))
    place.plan()
    command = [sys.executable, "-c", LOADED, config, place.folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
