"""What is wrong on the command line ends in one line that names it."""

import json
import re
import sys

import pytest
import yaml

from commands_called import train_specs
from noisyfl.__main__ import main
from noisyfl.commands import runs, scales
from noisyfl.commands.parser import parser
from noisyfl.core.options import BadInput
from noisyfl.experiments.config import check_folder
from small_paper import PAPER


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """The file of a small scale; ``FILE`` in the working folder is no folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("text")
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    given = {"scale": "tiny", "experiments": ["paper"], "experiment_folders": ["."]}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(given))
    return "tiny.yaml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("progress --follow -1", "--follow: got -1, expected seconds above 0 and at most 86400"),
        ("progress --follow 100000", "--follow: got 100000, expected seconds above 0 and at most"),
        ("plan --cheapest nan", "--cheapest: got nan, expected hours above 0"),
        ("plan --results FILE", "--results: got 'FILE', expected a folder, and FILE is none"),
        ("runs --results typo", "--results: got 'typo', expected a folder, and there is none"),
        ("specs paper FILE", "FOLDER: got 'FILE', expected a folder, and FILE is none"),
        ("new-method mine --outside FILE", "--outside: got 'FILE', expected a folder, and FILE "),
    ],
)
def test_a_bad_argument_is_told_in_a_line(scale, monkeypatch, words, said):
    command, *others = words.split()
    config = ["--config", scale] if command in ("plan", "progress", "specs", "archive") else []
    monkeypatch.setattr(sys, "argv", ["noisyfl", command, *others, *config])
    with pytest.raises(SystemExit) as ended:
        main()
    assert re.match(f"error: {said}", ended.value.code)
    assert "\n" not in ended.value.code


@pytest.mark.parametrize("words", ["--seeds 1 --seeds 2", "--data digits --level 0.1 --data mnist"])
def test_an_option_that_is_given_twice_is_an_error(words, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["compare", "fedavg", *words.split()])
    option = words.split()[0]
    assert capsys.readouterr().err.endswith(f"error: {option} is given twice\n")
    twice = parser().parse_args(["audit", "--method", "fedavg", "--method", "gce"])
    assert twice.methods == ["fedavg", "gce"]


def test_what_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for words in ("compare fedavg --csv a.csv", "compare fedavg --save a.yaml", "audit"):
        monkeypatch.setattr(sys, "argv", ["noisyfl", *words.split()])
        with pytest.raises(SystemExit, match=r"got '\w+(\.\w+)?', and .* may not be written to"):
            main()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "name", "items"),
    [
        ("compare fedavg --rounds 4 fedprox --level 0.3 gce", "methods", "fedavg fedprox gce"),
        ("compare --rounds 4 fedprox", "methods", "fedprox"),
        ("audit --seeds 1 abc", "runs", "abc"),
        ("train a.json --device cpu b.json", "specs", "a.json b.json"),
    ],
)
def test_items_of_a_list_may_follow_options(words, name, items):
    found = parser().parse_args(words.split())
    assert [*map(str, getattr(found, name))] == items.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare fedavg --roundz 4 gce", "'--roundz'; did you mean '--rounds'?"),
        ("compare fedavg --rounds 4 --x gce", "'--x'"),
        ("runs abc", "'abc'"),
    ],
)
def test_other_arguments_are_not_taken_for_items(words, message, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(words.split())
    said = capsys.readouterr().err
    assert said.endswith(f"noisyfl {words.split()[0]}: error: unknown argument {message}\n")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("new-method mine --outside closed", "closed"),
        ("specs paper closed", "closed"),
        ("preview-data digits --results closed", "closed/data"),
    ],
)
def test_a_folder_that_may_not_be_written_is_told_in_a_line(scale, monkeypatch, words, place):
    def mkdir(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    command, *others = words.split()
    config = ["--config", scale] if command == "specs" else []
    monkeypatch.setattr(sys, "argv", ["noisyfl", command, *others, *config])
    monkeypatch.setattr("pathlib.Path.mkdir", mkdir)
    with pytest.raises(SystemExit) as ended:
        main()
    said = rf"error: {place}\S*: cannot be read or written \(Permission denied\)"
    assert re.fullmatch(said, ended.value.code)


def test_a_file_in_the_place_of_a_folder_of_results_is_told_in_a_line(scale, tmp_path, capsys):
    scales.write_specs("paper", tmp_path / "specs", [tmp_path / scale])
    spec = next((tmp_path / "specs").glob("*.json"))
    (tmp_path / "results").mkdir(exist_ok=True)
    (tmp_path / "results" / "data").write_text("text")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        train_specs([spec], tmp_path / "results")
    said = rf"error: {tmp_path}/results/data\S*: cannot be read or written \(Not a directory\)\n"
    assert re.fullmatch(said, capsys.readouterr().err)


def test_a_folder_that_is_there_or_can_be_made_is_taken(tmp_path):
    check_folder(tmp_path, "here", to_be_made=False)
    check_folder(tmp_path / "a" / "b", "here")
    with pytest.raises(BadInput, match=r"here: got .*, expected a folder, and there is none"):
        check_folder(tmp_path / "a", "here", to_be_made=False)
    with pytest.raises(BadInput, match=r"here: got .*, expected a folder that can be read"):
        check_folder(tmp_path / ("a" * 300), "here")


def test_a_results_folder_without_runs_is_listed_in_no_line(tmp_path, capsys):
    runs.list_runs(tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("place", "value"), [(("seed",), "nan"), (("surplus",), "inf"), (("method", "mu"), "nan")]
)
def test_a_spec_with_a_number_that_is_not_finite_is_not_trained(scale, tmp_path, place, value):
    scales.write_specs("paper", tmp_path / "specs", [tmp_path / scale])
    spec = json.loads(next((tmp_path / "specs").glob("*.json")).read_text())
    *outer, last = place
    (spec[outer[0]] if outer else spec)[last] = float(value)
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(spec))
    message = rf"bad\.json: {'.'.join(place)}: got {value}, expected a finite number"
    with pytest.raises(BadInput, match=message):
        train_specs([file], tmp_path / "results")


def test_a_spec_that_is_nested_too_deeply_is_no_spec(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"deep\.json: not a spec \("):
        train_specs([tmp_path / "deep.json"], tmp_path)
