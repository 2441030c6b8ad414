"""Experiments and published numbers of a scale's own folders go before those of the package."""

import csv

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.experiments.config import (
    EXPERIMENTS,
    PUBLISHED,
    check_config,
    experiment_files,
    published_files,
)
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.specs.published import KEY, PRINTED, read_published
from small_paper import PAPER, edited


def numbers(path, paper, value):
    """Write a file with one number of a paper's, of FedAvg on clean labels."""
    labels = dict.fromkeys((*KEY, *PRINTED), "")
    labels |= {"paper": paper, "table": "one", "dataset": "cifar10", "noise": "none"}
    labels |= {"setting_scope": "federated", "partition": "iid", "metric": "test_accuracy"}
    row = {**labels, "method": "fedavg", "value": value, "unit": "percent"}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)


@pytest.fixture
def config(tmp_path):
    """A scale with two folders of its own, both with an experiment ``mine``."""
    table = edited(PAPER["tables"]["one"], ("published",), {"paper": "mine"})
    table["columns"] = [{"name": "clean", "published": {"noise": "none"}}]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        paper = {**PAPER, "title": name, "tables": {"one": table}}
        (tmp_path / name / "mine.yaml").write_text(yaml.safe_dump(paper))
    numbers(tmp_path / "second" / "published.csv", "mine", "70")
    folders = [str(tmp_path / name) for name in ("first", "second")]
    given = {"scale": "tiny", "experiments": ["mine"], "experiment_folders": folders}
    return check_config({**given, "results": str(tmp_path / "results")}, "my.yaml")


def test_the_first_folder_that_has_an_experiment_has_it(config, tmp_path):
    found = experiment_files(config)
    assert found["mine"] == tmp_path / "first" / "mine.yaml"
    assert found["fedcorr"] == EXPERIMENTS / "fedcorr.yaml"
    (tmp_path / "second" / "fedcorr.yaml").write_text("title: mine")
    assert experiment_files(config)["fedcorr"] == tmp_path / "second" / "fedcorr.yaml"


def test_ones_own_numbers_stand_beside_ones_own_runs(config, tmp_path):
    assert published_files(config) == [tmp_path / "second" / "published.csv", PUBLISHED]
    table = checked_plan(config, "my.yaml").tables["mine/one"]
    assert [c.number["value"] for row in table.cells for c in row if c.number] == ["70"]


def test_a_papers_numbers_are_those_of_the_first_file_that_has_any(config, tmp_path):
    ours = read_published(PUBLISHED)
    numbers(tmp_path / "second" / "published.csv", "fedcorr", "70")
    both = read_published(*published_files(config))
    assert [row.number.value for row in both if row.fields["paper"] == "fedcorr"] == [70.0]
    assert len(both) == 1 + sum(row.fields["paper"] != "fedcorr" for row in ours)


def test_two_numbers_for_one_line_that_is_not_trained_are_refused(config, tmp_path):
    file = tmp_path / "second" / "published.csv"
    numbers(file, "mine", "70")
    header, row = file.read_text().splitlines()
    other = row.replace("fedavg", "krum")
    file.write_text("\n".join([header, row, other, other.replace(",one,", ",two,")]))
    message = r"mine.yaml: tables.one: row 'Krum', column 'clean': got 2 published .* in table$"
    with pytest.raises(BadInput, match=message):
        checked_plan(config, "my.yaml")


def test_a_plan_follows_the_files_of_the_folders(config, tmp_path):
    said = []
    PlanFile(config, "my.yaml").plan(said.append)
    PlanFile(config, "my.yaml").plan(said.append)
    assert len(said) == 1
    numbers(tmp_path / "second" / "published.csv", "mine", "71")
    table = PlanFile(config, "my.yaml").plan(said.append).tables["mine/one"]
    assert len(said) == 2
    assert [c.number["value"] for row in table.cells for c in row if c.number] == ["71"]


def test_what_is_wrong_with_a_folder_or_its_numbers_is_one_line(config, tmp_path):
    given = {"scale": "tiny", "experiments": ["mine"], "experiment_folders": ["nowhere"]}
    message = r"my.yaml: experiment_folders\[0\]: got 'nowhere', expected a folder"
    with pytest.raises(BadInput, match=message):
        check_config(given, "my.yaml")
    (tmp_path / "second" / "published.csv").write_text("paper,table\nmine,one\n")
    with pytest.raises(BadInput, match=r"published.csv, line 1: got no column 'dataset'"):
        checked_plan(config, "my.yaml")
