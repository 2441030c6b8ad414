"""Comparing methods: training what is missing, the table, and the notebook's functions."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

import noisyfl
from noisyfl.__main__ import main
from noisyfl.analysis.compared import significance, summarise
from noisyfl.core.options import BadInput
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.comparison_files import figure_of
from noisyfl.experiments.comparison_input import read_comparison
from noisyfl.methods import METHODS
from noisyfl.pages.compared import ComparisonTable
from outside import PARTS

SMALL = {"clients": 4, "partition": "iid", "rounds": 2, "participation": 0.5, "local_epochs": 1}
FLAGS = ["--clients", "4", "--partition", "iid", "--rounds", "2", "--participation", "0.5"]
FLAGS += ["--local-epochs", "1", "--seeds", "2", "--device", "cpu", "--jobs", "1"]

FAILING = """
import noisyfl.method as fl

@fl.METHODS.register("failing")
class Failing(fl.ClientSide):
    reference = "nobody"
    x: int = fl.option(0, doc="of no use")
    def losses(self, logits, target):
        raise ArithmeticError("on purpose")
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder; returns what it prints, and its errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["noisyfl", "compare", *words])
        main()
        return capsys.readouterr()

    yield run
    for name in ("failing", "bad"):
        METHODS.classes.pop(name, None)


@pytest.mark.slow
def test_a_comparison_is_trained_once_and_printed_again(command, tmp_path, monkeypatch):
    methods = ["fedavg", "coteaching(ramp_rounds=1)"]
    files = ["--csv", "a.csv", "--markdown", "a.md", "--figure", "a.pdf", "--save", "mine.yaml"]
    said = command(*methods, *FLAGS, *files)
    assert said.out.startswith("Setting: dataset digits, clients 4, partition iid,")
    assert said.err.count("of 4 runs: ") == 4
    frame = pd.read_csv("a.csv")
    assert frame["method"].tolist() == [methods[0]] * 2 + [methods[1]] * 2
    assert frame["seed"].tolist() == [1, 2, 1, 2]
    assert max(map(len, pd.read_csv("a.csv", dtype=str)["accuracy"])) <= len("69.123456789")
    assert frame.loc[frame["method"] == methods[1], "precision"].between(1, 100).all()
    mean = frame.groupby("method", sort=False)["accuracy"].mean()
    for method in methods:
        line = next(line for line in said.out.splitlines() if line.startswith(method))
        assert f"{mean[method]:.1f} ± " in line
    assert "| fedavg |" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "mine" / "mine.yaml").exists()

    monkeypatch.setattr("noisyfl.experiments.places.train_all", None)  # nothing is left for it
    again = command(*methods, *FLAGS)
    assert again.err == "4 of 4 runs exist already\n"
    assert again.out.splitlines()[2:] == said.out.splitlines()[3:]
    listed = command(*methods, "gce", *FLAGS, "--dry-run")
    assert listed.out.count("exists") == 4
    assert listed.out.count("missing") == 2


def test_stored_runs_are_compared_without_training(command, monkeypatch):
    monkeypatch.setattr("noisyfl.experiments.places.train_all", None)
    like = "fedcorr/table2:ρ=0.6 τ=0.5"
    said = command("fedavg", "fedcorr", "--like", like, "--scale", "reduced")
    assert said.err == "4 of 4 runs exist already\n"
    assert "fedcorr" in said.out


def test_the_figure_of_a_comparison_has_the_runs_that_there_are(tmp_path, monkeypatch):
    like = {"like": "fedcorr/table2:ρ=0.6 τ=0.5", "scale": "reduced"}
    wanted = read_comparison(["fedavg", "fedcorr"], {}, OwnFiles(tmp_path, tmp_path), **like)
    first, *others = wanted.runs
    assert figure_of(wanted, wanted.runs).run_ids() == [first, *others]
    description = figure_of(wanted, others)
    assert description.run_ids() == others
    assert [row.name for row in description.source_table.rows] == ["fedavg", "fedcorr"]

    monkeypatch.setattr("noisyfl.experiments.places.train_all", None)
    drawn = {}
    monkeypatch.setattr(
        "noisyfl.experiments.comparison_runs.draw_figure",
        lambda figure, *places: drawn.update({places[-1]: figure}),
    )
    where = {"results": tmp_path, "data": tmp_path, "device": "cpu"}
    noisyfl.compare(["fedavg", "fedcorr"], **like, **where, figure=tmp_path / "a.png")
    assert drawn == {tmp_path / "a.png": figure_of(wanted, wanted.runs)}
    with pytest.raises(BadInput, match=r"figure: got 'a.gif', expected a name in .png or .pdf"):
        noisyfl.compare(["fedavg"], **where, figure="a.gif")


@pytest.mark.slow
def test_a_run_that_fails_does_not_keep_the_others_from_being_trained(command, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    with pytest.raises(SystemExit, match="2 runs failed; the same command tries again"):
        command("failing", "fedavg", *FLAGS, "--plugin", "failing.py", "--csv", "a.csv")
    assert pd.read_csv("a.csv")["method"].tolist() == ["fedavg"] * 2


@pytest.mark.slow
def test_nothing_is_chosen_from_values_of_which_a_run_failed(command, tmp_path):
    (tmp_path / "bad.py").write_text(FAILING.replace("failing", "bad"))
    words = ["fedavg", "bad(x=[1, 2])", *FLAGS, "--plugin", "bad.py"]
    listed = command(*words, "--choose-on", "validation", "--dry-run")
    assert listed.out.count("digits_validation") == 4
    with pytest.raises(SystemExit, match="4 runs failed; the same command tries again"):
        command(*words, "--choose-on", "validation")
    assert not (tmp_path / "results" / "runs").exists()
    where = {"results": tmp_path / "results", "data": tmp_path, "device": "cpu", "jobs": 1}
    for choose in ("validation", None):  # the plugin is known by now
        with pytest.raises(RuntimeError, match="ArithmeticError: on purpose"):
            noisyfl.compare(["bad(x=[1, 2])"], seeds=1, choose_on=choose, **SMALL, **where)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--csv", "none/a.csv"], "--csv: got 'none', expected a folder, and there is none"),
        (["--figure", "a.jpg"], "--figure: got 'a.jpg', expected a name in .png or .pdf"),
        (["--markdown", "."], "--markdown: got '.', expected a file, and it is a folder"),
        (["--seed", "5"], ""),
        (["--level", "[0.1, 0.1]"], "--level: got ['0.1', '0.1'], expected each once"),
        (["--level", "[0.1"], "--level: cannot read '[0.1'"),
        (["--noise", "[pair, symmetric(count='x')]"], "--noise: symmetric.count: Input should be"),
    ],
)
def test_where_the_table_goes_is_checked_before_training(command, monkeypatch, words, said):
    monkeypatch.setattr("noisyfl.experiments.places.train_all", None)
    with pytest.raises(SystemExit) as ended:
        command("fedavg", *FLAGS, *words)
    assert said in str(ended.value.code)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    "words", [("compare", "fedavg"), ("audit", "--method", "fedavg")], ids=lambda words: words[0]
)
def test_a_model_that_cannot_be_trained_is_named_before_training(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.py").write_text(PARTS.replace("def features(", "def feature("))
    given = ["noisyfl", *words, "--model", "one_layer", "--plugin", "parts.py"]
    monkeypatch.setattr(sys, "argv", given)
    with pytest.raises(SystemExit, match="error: model one_layer: got a module without features"):
        main()
    assert not (tmp_path / "results" / "data").exists()


@pytest.mark.slow
def test_a_value_is_chosen_on_the_validation_part(command):
    said = command(
        *("gce(q=[0.01, 0.9])", "fedavg", *FLAGS),
        *("--choose-on", "validation", "--csv", "a.csv", "--save", "mine.yaml"),
    )
    frame = pd.read_csv("a.csv")
    validation = frame[frame["split"] == "validation"]
    best = validation.groupby("method")["accuracy"].mean().idxmax()
    tested = frame[frame["split"] == "test"]
    assert set(tested["method"]) == {best, "fedavg"}
    assert len(validation) == 4
    written = "gce(q=[0.01, 0.9])"
    assert validation["given"].tolist() == [written] * 4
    assert validation["gce.q"].tolist() == [0.01] * 2 + [0.9] * 2
    for name, value in zip(tested["method"], tested["gce.q"], strict=True):
        assert name == ("fedavg" if pd.isna(value) else f"gce(q={value})")
    assert f"chosen from 2 on the validation part: {best}" in said.out
    assert noisyfl.plan("mine.yaml").runs.keys() == set(tested["run"])


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path):
    methods = ["fedavg", "gce", "--clients", "4", "--partition", "iid", "--seeds", "1"]
    words = [sys.executable, "-m", "noisyfl", "compare", *methods, "--device", "cpu", "--jobs", "1"]

    def start(rounds):
        return subprocess.Popen(
            [*words, "--rounds", str(rounds)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            # A shell's background job would ignore the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    process = start(200)
    logs = tmp_path / "results" / "logs" / "runs"
    until = time.monotonic() + 300
    while not any("round 2/" in log.read_text() for log in logs.glob("*.log")):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped; finished runs are kept, and the same command continues" in said
    assert "Traceback" not in said
    (checkpoint,) = (tmp_path / "results" / "checkpoints").glob("*.pt")
    process = start(200)
    log = logs / f"{checkpoint.stem}.log"
    while "resuming after round" not in log.read_text():
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)


@pytest.mark.slow
def test_python_has_the_same_function(tmp_path):
    where = {"results": tmp_path / "results", "data": tmp_path, "device": "cpu", "jobs": 2}
    frame = noisyfl.compare(["fedavg", "gce(q=[0.1, 0.9])"], seeds=1, **SMALL, **where)
    assert frame["method"].tolist() == ["fedavg", "gce(q=0.1)", "gce(q=0.9)"]
    assert (frame["status"] == "finished").all()
    run = noisyfl.load_run(frame["run"][0], tmp_path / "results")
    assert frame["best"][0] == pytest.approx(100 * run.rounds["test_accuracy"].max())


@pytest.mark.slow
def test_a_run_that_diverged_is_warned_of(tmp_path):
    where = {"results": tmp_path / "results", "data": tmp_path, "device": "cpu", "jobs": 1}
    with pytest.warns(UserWarning, match="fedavg, seed 1: diverged"):
        frame = noisyfl.compare(["fedavg"], seeds=1, learning_rate=1e30, **SMALL, **where)
    assert frame["status"].tolist() == ["diverged"]
    assert frame["accuracy"].isna().all()
    assert frame["rounds"].tolist() == [1]
    spec = noisyfl.load_run(frame["run"][0], tmp_path / "results").spec
    with pytest.warns(UserWarning, match="fedavg on digits.*: diverged after 0 rounds"):
        noisyfl.train(spec, tmp_path / "results", tmp_path)


@pytest.mark.slow
def test_several_settings_are_columns(command, tmp_path):
    words = ["fedavg", "gce", *FLAGS, "--level", "[0, 0.3]"]
    said = command(*words, "--csv", "a.csv", "--markdown", "a.md", "--figure", "a.png")
    frame = pd.read_csv("a.csv")
    assert frame["setting"].tolist() == ["noise_level=0"] * 4 + ["noise_level=0.3"] * 4
    assert frame["noise_level"].tolist() == [0] * 4 + [0.3] * 4
    assert "gce, noise_level=0.3, seed 2: test accuracy" in said.err
    lines = said.out.splitlines()
    assert lines[2].split() == ["method", "noise_level=0", "noise_level=0.3"]
    for line, (_, cells) in zip(lines[3:5], frame.groupby("method"), strict=True):
        for _, cell in cells.groupby("setting"):
            assert f"{cell['accuracy'].mean():.1f} ± {cell['accuracy'].std():.1f}" in line
    assert "| fedavg |" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "a.png").exists()
    listed = command(*words, "--dry-run").out
    assert listed.count("exists") == 8
    assert "exists   gce, noise_level=0.3, seed 2, on digits" in listed


def rows_with(accuracies):
    """A frame of runs, by setting and method."""
    return pd.DataFrame(
        {
            "setting": setting,
            "method": method,
            "seed": seed,
            "split": "test",
            "status": "finished",
            "accuracy": accuracy,
            **dict.fromkeys(["best", "best_round", "precision", "recall", "seconds"], 1.0),
        }
        for (setting, method), values in accuracies.items()
        for seed, accuracy in enumerate(values, 1)
    )


def test_methods_are_compared_within_each_setting():
    near, far = (50.0, 50.2, 50.1), (70.0, 70.3, 70.1)
    cells = {("x=1", "a"): near, ("x=1", "b"): far, ("x=2", "a"): far, ("x=2", "b"): far[::-1]}
    frame = rows_with(cells)
    found = significance(frame).set_index("setting")
    assert found.loc["x=1", "difference"] == pytest.approx(20.03, abs=0.01)
    assert found.loc["x=2", "difference"] == pytest.approx(0)
    assert found["significant"].tolist() == [True, False]

    gone = frame.drop(frame.index[-1])
    summary = summarise(gone, ["a", "b", "c"], ["x=1", "x=2"])
    table = ComparisonTable(summary, {"b": "chosen from 2"}, 3)
    lines = [line.split("  ") for line in table.as_text().splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0] == ["method", "x=1", "x=2"]
    assert cells[1] == ["a", "50.1 ± 0.1", "70.1 ± 0.2"]
    assert cells[2] == ["b [chosen from 2]", "70.1 ± 0.2*", "70.2 ± 0.1 [2 of 3 seeds]"]
    assert cells[3] == ["c", "[0 of 3 seeds]", "[0 of 3 seeds]"]
    assert "significant at 5 %, corrected for all cells" in table.legend
    assert "| 70.1 ± 0.2\\* |" in table.as_markdown("x 1 or 2")


def test_significance_is_that_of_the_tables():
    rows = [
        {"method": method, "seed": seed, "split": "test", "accuracy": base + seed / 10}
        for method, base in (("a", 50.0), ("b", 60.0), ("c", 50.1))
        for seed in (1, 2, 3)
    ]
    for row in rows:
        row["accuracy"] += 0.2 * (row["method"] == "c") * (row["seed"] - 2)
    found = significance(pd.DataFrame(rows)).set_index("method")
    assert found.loc["b", "difference"] == pytest.approx(10)
    assert found.loc["b", "p"] < 0.001
    assert bool(found.loc["b", "significant"])
    assert not bool(found.loc["c", "significant"])
    assert found["seeds"].tolist() == [3, 3]
    other = significance(pd.DataFrame(rows), "b").set_index("method")
    assert other.loc["a", "difference"] == pytest.approx(-10)
    with pytest.raises(noisyfl.core.options.BadInput, match="against: got 'd', expected one of"):
        significance(pd.DataFrame(rows), "d")
