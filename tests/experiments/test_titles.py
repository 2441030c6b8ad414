"""What users call their own data is shown everywhere, and decides nothing."""

import pytest
import yaml

import own_sets
from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.core.registry import split_component
from noisyfl.data.titles import title_of, told_apart
from noisyfl.experiments.config import check_config
from noisyfl.specs.descriptions import TableDescription, description_text
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.words import describe_setting
from small_paper import PAPER, edited


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Returns the plan of one run on own images, labels and clients, with options of theirs."""
    monkeypatch.setattr("noisyfl.data.titles._titles", {})
    monkeypatch.chdir(tmp_path)
    own_sets.as_csv(tmp_path)
    lines = [f"{sample % 4},{sample}" for sample in range(own_sets.TRAIN)]
    (tmp_path / "sites.csv").write_text("\n".join(["client,sample", *lines]))
    labels = [own_sets.CLASSES[label] for label in own_sets.given_labels()]
    (tmp_path / "labels.csv").write_text("\n".join(["mine", *labels]))

    def planned(images="", clients="", labels='path="labels.csv", key="mine"'):
        setting = PAPER["settings"]["base"] | {
            "dataset": f"images(path='train.csv', test='test.csv'{images})",
            "partition": f"file(path='sites.csv'{clients})",
            "label_noise": f"file({labels})" if labels else "file",
            "noise_level": "none",
            "normalization": "dataset",
        }
        del setting["clients"]
        table = {**PAPER["tables"]["one"], "columns": [{"name": "own"}], "published": None}
        table |= {"rows": [{"name": "FedAvg", "method": "fedavg"}], "trials": 1}
        paper = edited(PAPER, ["settings"], {"base": setting})
        paper = {**paper, "tables": {"one": table}, "figures": {}}
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(paper))
        given = {"scale": "tiny", "experiments": ["mine"], "data": {"folder": "."}}
        return checked_plan(check_config(given, "my.yaml"), "my.yaml", tmp_path)

    return planned


def test_data_are_called_as_their_files_are(planned):
    plan = planned()
    (spec,) = plan.runs.values()
    (facts,) = plan.facts.values()
    assert facts.words == "FedAvg, train.csv, own"
    assert " on train.csv, file(sites.csv, " in describe_run(spec)
    assert describe_run(spec).endswith("file(labels.csv: mine) label noise, seed 1")
    setting = {name: str(words) for name, words in describe_setting(spec).items()}
    assert setting["dataset"] == "train.csv"
    assert setting["partition"].startswith("file(sites.csv, clients=4")
    assert setting["label noise"] == "file(labels.csv: mine)"


def test_labels_beside_the_true_ones_are_called_as_their_column_is(planned):
    (spec,) = planned(", given='given'", labels="").runs.values()
    assert "file(train.csv: given) label noise" in describe_run(spec)


def test_a_title_is_shown_and_decides_nothing(planned):
    before = planned()
    plan = planned(
        ", title='Insects'", ", title='Sites'", 'path="labels.csv", key="mine", title="Votes"'
    )
    assert plan.runs == before.runs
    (spec,) = plan.runs.values()
    assert " on Insects, file(Sites, " in describe_run(spec)
    assert "file(Votes) label noise" in describe_run(spec)


def test_a_job_knows_the_titles_from_the_description(planned, monkeypatch):
    text = description_text(planned(", title='Insects'").tables["mine/one"])
    monkeypatch.setattr("noisyfl.data.titles._titles", {})
    table = TableDescription.from_json(text)
    assert sorted(table.titles.values()) == ["Insects", "labels.csv: mine", "sites.csv"]
    assert [title_of(sha256) for sha256 in table.titles] == [*table.titles.values()]


def test_equal_titles_are_told_apart():
    found = told_apart({"abcdef": "images", "012345": "images", "aaaaaa": "mine"})
    assert found == {"abcdef": "images abcd", "012345": "images 0123", "aaaaaa": "mine"}


def test_an_option_called_name_is_not_taken_for_the_component():
    with pytest.raises(BadInput, match="no option is called 'name'; images and file have 'title'"):
        split_component("images(path='mine', name='Insects')", "dataset")
