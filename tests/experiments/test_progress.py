"""How far a scale is: what is counted, and what is told."""

import json
from types import SimpleNamespace

import pytest
import yaml

from commands_called import print_plan
from noisyfl.commands import scales
from noisyfl.core.artifacts import Results
from noisyfl.core.options import BadInput
from noisyfl.experiments import progress, scale
from noisyfl.experiments.progress import Pace, read_progress
from noisyfl.experiments.targets import runs_by_target
from noisyfl.runs import status
from noisyfl.runs.status import failure_text
from small_paper import DIGITS, PAPER, edited
from small_paper import plan as small_plan
from small_progress import NOW, counts, done, place_in, progress_of, says, text_of


@pytest.fixture
def place(tmp_path):
    return place_in(tmp_path)


def test_every_run_is_counted_once_a_table(place):
    done(place, place.fedavg[0])  # shared by both tables
    says(place, place.krum[0])
    says(place, place.fedprox[0], "failed", error="e")
    says(place, place.fedprox[1], age=3600)
    says(place, place.fedprox[2], "interrupted")
    # The run of FedProx that was heard of an hour ago is left, as is the one asked to end.
    assert counts(place) == {
        "paper_one": [8, 1, 0, 1, 6],
        "paper_two": [4, 1, 1, 0, 2],
        "all": [10, 1, 1, 1, 7],
    }


@pytest.mark.parametrize(("age", "lost"), [(-30, False), (290, False), (310, True)])
def test_a_run_without_a_sign_of_life_is_left_and_told_of(place, age, lost):
    says(place, place.krum[0], age=age)
    assert progress_of(place)[place.krum[0]].is_lost == lost
    assert progress_of(place)[place.krum[0]].state == ("left" if lost else "running")
    assert ("1 started, but gave no sign of life" in text_of(place)) == lost


def test_a_run_that_failed_once_and_is_whole_is_done(place):
    says(place, place.krum[0], "failed", error="RuntimeError: once")
    assert "RuntimeError: once" in text_of(place)
    done(place, place.krum[0])
    assert progress_of(place)[place.krum[0]].state == "done"
    assert "RuntimeError: once" not in text_of(place)


def test_damaged_files_are_named_and_passed_over(place):
    one, two, three = place.fedavg[:3]
    for run in (one, two):
        done(place, run)
        says(place, run)
    path = place.results.run(one).provenance
    path.write_text(path.read_text().replace("finished", "diverged"))
    says(place, three, error="e", rounds="ten")
    place.results.status(place.krum[0]).mkdir()
    text = text_of(place)
    assert counts(place)["all"] == [10, 1, 1, 0, 8]
    listed = text.partition("Cannot be read:\n")[2].splitlines()
    assert len(listed) == 3
    for line, words in zip(
        listed,
        (
            f"{path}: the content does not match its checksum",
            f"{place.results.status(three)}: not a status (rounds: Input should be a valid int",
            f"{place.results.status(place.krum[0])}: a folder, where a file should be",
        ),
        strict=True,
    ):
        assert words in line


def test_a_run_that_becomes_whole_while_it_is_looked_at_is_not_left(place, monkeypatch):
    says(place, place.krum[0])

    def read(path):
        done(place, place.krum[0])
        path.unlink()

    monkeypatch.setattr(status, "read_status", read)
    assert progress_of(place)[place.krum[0]].state == "done"


def test_a_reproduced_run_is_done_and_tells_nothing_of_this_machine(place, tmp_path):
    tracked = Results(tmp_path / "reproduced")
    there = SimpleNamespace(plan=place.plan, results=tracked)
    done(there, place.krum[0], factor=9)
    found = read_progress(place.plan.runs, [place.results, tracked], NOW)
    assert found[place.krum[0]].state == "done"
    assert Pace(place.plan, found, "cuda").finished == 0


def test_what_failed_is_told_in_three_lines(place):
    says(place, place.krum[0], "failed", error="RuntimeError: no memory")
    said = json.loads(place.results.status(place.krum[0]).read_text())
    words = [place.plan.words_of(place.krum[0]), said["error"], said["log"]]
    provenance = place.results.run(place.krum[0]).provenance
    alone = f"snakemake {provenance} --cores 1"
    assert text_of(place).endswith("\n\n" + failure_text(*words, alone))


def test_the_command_for_a_run_of_a_slurm_job_trains_on_the_cluster(place, monkeypatch):
    says(place, place.krum[0], "failed", error="e", slurm_job="7")
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    assert text_of(place).endswith("provenance.json --cores 1 --profile slurm")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "/my/copy")
    assert text_of(place).endswith("provenance.json --cores 1 --profile /my/copy")


def test_no_more_runs_are_listed_than_can_be_read(place, monkeypatch):
    monkeypatch.setattr(progress, "MOST_LINES", 3)
    for run in place.fedprox[:3]:
        says(place, run)
    assert text_of(place).count("round 25 of 100, on node7") == 3
    says(place, place.fedprox[3])
    text = text_of(place)
    assert "round 25 of 100" not in text
    assert "with 4 at a time" in text


def scale_of(folder):
    """The file of a scale whose experiments lie beside it."""
    given = {"scale": "tiny", "experiments": ["paper"], "experiment_folders": [str(folder)]}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(given))
    return folder / "tiny.yaml"


def test_the_command_counts_a_target(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale, "REPRODUCED", Results(tmp_path / "reproduced"))
    config = scale_of(tmp_path)
    done(place, place.krum[0])

    def printed(target):
        scales.print_progress([config], target, place.results.root, "auto", None)
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[:3] for line in lines[3 : lines.index("", 3)]]

    one, two = ["paper_one", "8", "0"], ["paper_two", "4", "1"]
    assert printed("all") == [one, two, ["all", "10", "1"]]
    assert printed("paper") == printed("all")
    assert printed("paper_two") == [two, ["all", "4", "1"]]
    with pytest.raises(BadInput, match="no target is called 'paper_too'; did you mean 'paper_two'"):
        printed("paper_too")


def test_the_command_for_a_failed_run_has_the_scales_file(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale, "REPRODUCED", Results(tmp_path / "reproduced"))
    config = scale_of(tmp_path)
    says(place, place.krum[0], "failed", error="e")
    scales.print_progress([config], None, place.results.root, "auto", None)
    said = capsys.readouterr().out.splitlines()[-1]
    provenance = place.results.run(place.krum[0]).provenance
    assert said.startswith(f"  again, alone: snakemake {provenance} --cores 1 --config results=")
    assert f" --configfile {config}" in said


def test_a_scale_that_takes_no_tracked_runs_does_not_count_them(
    place, tmp_path, monkeypatch, capsys
):
    tracked = Results(tmp_path / "reproduced")
    monkeypatch.setattr(scale, "REPRODUCED", tracked)
    config = scale_of(tmp_path)
    table = place.plan.tables["paper/two"]
    for run in table.run_ids():
        done(SimpleNamespace(plan=place.plan, results=tracked), run)

    def counted():
        scales.print_progress([config], "paper_two", place.results.root, "auto", None)
        print_plan(config, place.results.root, target="paper_two")
        lines = capsys.readouterr().out.splitlines()
        progress, plan = (line.split() for line in lines if line.startswith("paper_two"))
        return progress[2], plan[3]

    assert counted() == ("4", "4")
    config.write_text(f"{config.read_text()}reproduced: false\n")
    assert counted() == ("0", "0")


def test_following_ends_when_all_is_done(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale, "REPRODUCED", Results(tmp_path / "reproduced"))
    config = scale_of(tmp_path)
    left = list(place.plan.tables["paper/two"].run_ids())

    def wait(seconds):
        assert seconds == 3
        done(place, left.pop())

    monkeypatch.setattr(scales.time, "sleep", wait)
    runs = len(left)
    scales.print_progress([config], "paper_two", place.results.root, "auto", 3)
    assert not left
    assert capsys.readouterr().out.count("The scale") == 1 + runs


def test_a_figure_of_a_few_runs_is_a_target_too(tmp_path, capsys):
    digits = edited(PAPER, ["settings", "base"], {**PAPER["settings"]["base"], **DIGITS})
    scores = {"kind": "lid_scores", "title": "t", "caption": "c"}
    figure = {**scores, "setting": "base", "method": "fedcorr"}
    paper = edited(digits, ["figures"], {"scores": figure})
    paper["tables"]["one"]["rows"].append({"name": "FedCorr", "method": "fedcorr"})
    plan = small_plan(tmp_path, paper)
    assert "paper_scores" not in runs_by_target(plan)
    config = scale_of(tmp_path)
    scales.print_progress([config], "paper_scores", tmp_path / "results", "cpu", None)
    assert "\npaper_scores     1     0" in capsys.readouterr().out
