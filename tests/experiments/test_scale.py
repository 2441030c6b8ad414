"""The files that the rules ask a scale for."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.artifacts import Results
from noisyfl.experiments import scale as scale_module
from noisyfl.experiments.config import check_config
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.scale import Scale
from noisyfl.specs.identity import canonical_json, identity
from small_paper import CONFIG, PAPER

FIGURES = {"curves": {"kind": "by_round", "title": "t", "caption": "c", "table": "one"}}


@pytest.fixture
def reproduced(tmp_path, monkeypatch):
    """Where tracked runs lie in a test."""
    monkeypatch.setattr(scale_module, "REPRODUCED", Results(tmp_path / "reproduced"))
    return scale_module.REPRODUCED


@pytest.fixture
def scale(tmp_path):
    """Makes a scale of one table and a figure of it, with changes of the configuration."""
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump({**PAPER, "figures": FIGURES}))

    def make(**changes):
        given = {**CONFIG, "results": str(tmp_path / "results"), **changes}
        config = check_config(given, "my.yaml")
        plan = checked_plan(config, "my.yaml", tmp_path)
        return Scale(config, plan)

    return make


def write(results, run):
    for path in results.run(run).all():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_every_target_has_its_files(scale):
    made = scale()
    targets = {name: names(files, made.folder) for name, files in made.targets().items()}
    table = [f"tables/paper/one.{ending}" for ending in ("parquet", "csv", "md", "html", "tex")]
    figure = [f"figures/paper/curves.{ending}" for ending in ("png", "pdf")]
    assert targets == {
        "paper": [*table, *figure, "explorer/paper.html"],
        "paper_one": [*table, "explorer/paper/one.html"],
        "paper_curves": figure,
    }
    assert made.overviews() == []  # no table has published numbers, or is of every method
    assert names(made.frames(), made.folder) == table[:1]


def test_the_page_of_methods_needs_the_baseline(scale, monkeypatch):
    monkeypatch.setattr(scale_module, "METHOD_TABLES", ("paper/one",))
    made = scale()
    assert made.method_tables == [made.plan.tables["paper/one"]]
    assert names(made.overviews(), made.folder) == ["evidence/methods.md", "explorer.html"]
    assert scale(overlay={"rows": {"paper/one": ["FedProx"]}}).method_tables == []


def test_what_is_wanted_follows_the_targets_of_the_scale(scale):
    assert list(scale().wanted) == ["paper/one", "paper/curves"]
    made = scale(targets=["paper/curves"])
    assert list(made.wanted) == ["paper/curves"]
    assert made.wanted_tables == {}
    assert "paper_one" in made.targets()


def test_a_run_is_in_results_or_else_the_tracked_one(scale, reproduced):
    made = scale()
    first, second = list(made.plan.runs)[:2]
    for run in (first, second):
        write(reproduced, run)
    write(made.results, second)
    folders = made.folders(*made.parts.values())
    assert folders[first] == str(reproduced.run(first).folder)
    assert folders[second] == str(made.results.run(second).folder)
    assert scale(reproduced=False).run_files(first) == made.results.run(first)


def test_of_a_whole_run_its_lost_files_are_inputs_too(scale):
    made = scale()
    run = next(iter(made.plan.runs))
    table = made.parts["paper/one"]
    assert made.artifacts(table)[0] == made.results.run(run).provenance
    assert len(made.artifacts(table)) == len(made.plan.runs)
    write(made.results, run)
    made.results.run(run).rounds.unlink()
    again = scale()
    assert again.artifacts(table)[:2] == [
        made.results.run(run).provenance,
        made.results.run(run).rounds,
    ]


def test_a_run_is_trained_on_data_and_a_partition_that_need_not_be_there_once_it_is_whole(scale):
    made = scale()
    run, spec = next(iter(made.plan.runs.items()))
    partition = made.results.partition(identity(spec["noisy_partition"]))
    data = [made.results.data("cifar10", part) for part in ("train", "test")]
    assert made.train_inputs(run) == [*data, partition]
    assert made.partition_input(partition.stem) == data[0]
    write(made.results, run)
    partition.parent.mkdir(parents=True)
    partition.touch()
    again = scale()
    assert again.train_inputs(run) == [partition]
    assert again.partition_input(partition.stem) == []
    assert partition in made.partitions(made.parts["paper/one"])


def test_specs_of_a_run(scale):
    made = scale()
    run, spec = next(iter(made.plan.runs.items()))
    assert made.run_text(run) == canonical_json(spec)
    assert made.estimate(run).memory_mb > scale(device="cpu").estimate(run).memory_mb
    wildcards = SimpleNamespace(experiment="paper", name="one")
    assert made.part(wildcards).title == made.plan.tables["paper/one"].title


def test_without_training_a_table_has_the_runs_that_are_there(scale):
    made = scale()
    run, *others = made.plan.runs
    write(made.results, run)
    left = scale(train_missing=False)
    assert left.plan.tables["paper/one"].run_ids() == [run]
    assert left.plan.tables["paper/one"].missing == len(others)
    assert left.plan.runs == made.plan.runs


def test_the_explorers_of_what_was_asked_for(scale):
    made = scale()
    assert made.explorers() == []
    made.part(SimpleNamespace(experiment="paper", name="one"))
    # As with a target, such as an experiment that has all tables.
    assert names(made.explorers(), made.folder) == ["explorer/paper.html"]
    made.folder.mkdir(parents=True)
    (made.folder / "explorer.html").touch()
    assert names(made.explorers(), made.folder) == ["explorer.html"]
    made = scale(targets=["paper/curves"])
    made.part(SimpleNamespace(experiment="paper", name="one"))
    assert names(made.explorers(), made.folder) == ["explorer/paper.html"]


def test_a_word_that_is_no_target_names_the_nearest(scale, tmp_path, monkeypatch):
    made = scale()
    monkeypatch.chdir(tmp_path)
    for word in ("all", "paper_one", "train", "--cores", "3"):
        assert made.wrong_target(word) == ""
    said = made.wrong_target("paper_on")
    assert "no target is called 'paper_on'; did you mean 'paper_one'" in said
    assert "no target is called 'grand_methods'" in made.wrong_target("grand_methods")
    Path("paper_on").touch()
    assert made.wrong_target("paper_on") == ""
    made.plan.wrong["human/table1"] = "no labels"
    assert made.wrong_target("human_table1") == "no labels"


def test_a_job_looks_for_its_run_in_another_plan(scale):
    made = scale()
    run = next(iter(made.plan.runs))
    asked = []

    def plan_with(name):
        asked.append(name)
        return made.plan

    job = Scale(made.config, Plan("tiny"), plan_with=plan_with)
    assert job.run_text(run) == made.run_text(run)
    assert job.train_inputs(run) == made.train_inputs(run)
    assert job.estimate(run) == made.estimate(run)
    assert asked == [run]  # its noisy partition is in the same plan
    assert job.targets() == {"paper": []}
    assert not job.overviews()
