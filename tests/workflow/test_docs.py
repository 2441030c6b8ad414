"""The documentation's examples work, and its pages name what there is."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import check_config
from small_repository import Repository

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
ALL = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "envs" / "README.md"]

# Trains one run of the example in a copy of the package, where a method's file is found by itself.
TRAIN = """
import pathlib
from noisyfl.commands.runs import train_specs
from noisyfl.core.artifacts import write_json
from noisyfl.specs.spec import canonical_run

spec = canonical_run(
    {
        "dataset": "digits",
        "partition": "iid(clients=4)",
        "label_noise": "symmetric",
        "noise_level": "constant(level=0.4)",
        "model": "cnn",
        "augmentation": "none",
        "normalization": "dataset",
        "schedule": {
            "rounds": 4,
            "participation": 0.5,
            "local_epochs": 5,
            "batch_size": 20,
            "learning_rate": 0.1,
        },
        "method": "small_loss(forget_rate=0.4, ramp_rounds=2)",
        "seed": 1,
    },
    "example",
)
path = pathlib.Path("spec.json")
write_json(path, spec)
unset = {"keep_models": False, "keep_labels": False, "trackers": (), "prepare": False}
data = [pathlib.Path("data")]
train_specs([path], pathlib.Path("results"), data, False, "cpu", "fast", **unset)
"""


def blocks(page, language):
    """The fenced blocks of a language in a page."""
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the results of a run of the example of a method."""
    folder = tmp_path_factory.mktemp("example")
    unneeded = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "workflow", folder / "workflow", ignore=unneeded)
    (example,) = blocks("add-a-method.md", "python")
    (folder / "workflow" / "noisyfl" / "methods" / "small_loss.py").write_text(example)
    environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_example_of_a_method_picks_right_labels_and_writes_its_estimates(trained):
    import pyarrow.parquet as pq

    (run,) = (trained / "results" / "runs").iterdir()
    rounds = pq.read_table(run / "rounds.parquet").to_pylist()
    clients = pq.read_table(run / "clients.parquet").to_pylist()
    assert len(rounds) == 4
    assert len(clients) == 4 * 2
    assert all(row["mean_loss"] > 0 for row in clients)
    # 60 % of the labels are right: so many are among those kept if they are kept blindly.
    assert rounds[-1]["label_precision"] > 0.75
    # Of two clients with 359 samples each, the pass that the method asks for.
    assert rounds[0]["samples_forward"] - rounds[0]["samples_backward"] == 2 * 359


@pytest.mark.slow
def test_the_examples_that_read_artifacts_run(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    printed = []
    for example in blocks("artifacts.md", "python"):
        exec(compile(example, "artifacts.md", "exec"), {"__name__": "example"})
        printed.append(capsys.readouterr().out)
    best, noise, identity = printed
    assert "small_loss" in best
    assert (noise, identity) == ("True\n", "True\n")


@pytest.mark.slow
def test_every_column_and_key_of_a_run_is_documented(trained):
    import pyarrow.parquet as pq

    (run,) = (trained / "results" / "runs").iterdir()
    made = [*pq.read_schema(run / "rounds.parquet").names, *estimates()]
    made += json.loads((run / "provenance.json").read_text())
    rows = re.findall(r"^\| (`[^|]*)", (DOCS / "artifacts.md").read_text(), flags=re.MULTILINE)
    assert [name for name in made if not any(f"`{name}`" in row for row in rows)] == []


def estimates():
    """The columns of ``clients`` that any method reports."""
    calls = [
        node
        for path in (ROOT / "workflow" / "noisyfl" / "methods").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "report"
    ]
    assert calls
    return [keyword.arg for call in calls for keyword in call.keywords if keyword.arg]


def test_every_block_of_yaml_is_yaml():
    found = [block for page in PAGES for block in blocks(page.name, "yaml")]
    assert len(found) >= 4
    for block in found:
        assert yaml.safe_load(block)


def files_in(page):
    """The YAML blocks of a page that begin with the name of a file, by that name."""
    found = {}
    for block in blocks(page, "yaml"):
        name = re.match(r"# (config/\S+\.yaml)\n", block)
        if name:
            found[name[1]] = block
    return found


def test_the_example_of_an_experiment_expands_to_what_the_page_says(tmp_path):
    files = files_in("configuration.md")
    (tmp_path / "proximal.yaml").write_text(files["config/papers/proximal.yaml"])
    config = check_config(yaml.safe_load(files["config/proximal.yaml"]), "config/proximal.yaml")
    plan = checked_plan(config, "config/proximal.yaml", tmp_path)
    assert (len(plan.runs), len(plan.partitions)) == (24, 6)
    page = " ".join((DOCS / "configuration.md").read_text().split())
    assert "24 runs. They need 6 noisy partitions" in page
    row = plan.tables["proximal/strength"].runs[3]
    assert {plan.runs[run]["schedule"]["local_epochs"] for cell in row for run in cell} == {2}
    last = plan.runs[row[2][0]]["noisy_partition"]
    assert (last["partition"]["alpha"], last["noise_level"]["level"]) == (5, 0.4)


@pytest.mark.slow
def test_the_example_of_a_scale_expands_to_what_the_page_says():
    text = files_in("configuration.md")["config/one_trial.yaml"]
    config = check_config(yaml.safe_load(text), "config/one_trial.yaml")
    plan = checked_plan(config, "config/one_trial.yaml")
    rows = plan.tables["fedcorr/table2"].runs
    assert {len(row) for row in rows} == {2}
    assert {len(cell) for row in rows for cell in row} == {1}
    specs = [plan.runs[run] for row in rows for cell in row for run in cell]
    assert {spec["noisy_partition"]["dataset"] for spec in specs} == {"digits"}


def first_table():
    """The files of the first table, by name, and its page."""
    return files_in("first-table.md"), (DOCS / "first-table.md").read_text()


def test_the_first_table_expands_to_what_the_page_says(tmp_path):
    files, page = first_table()
    experiment = files["config/papers/mine.yaml"]

    def runs(experiment, **changes):
        (tmp_path / "mine.yaml").write_text(experiment)
        config = {**yaml.safe_load(files["config/mine.yaml"]), **changes}
        return set(checked_plan(check_config(config, "mine"), "mine", tmp_path).runs)

    first = runs(experiment)
    assert len(first) == 18
    assert "18 runs, 3 methods x 3 columns x 2 trials" in page
    row = re.search(r"one more row, `(.*?)`: 6 new runs", page)[1]
    assert len(runs(f"{experiment}".replace("    rows:", f"    rows:\n      {row}")) - first) == 6
    assert "`trials: 5`: 27 new runs" in page
    assert len(runs(experiment, trials=5) - first) == 27
    assert runs(experiment.replace("statistic: last", "statistic: best")) == first
    overlay = yaml.safe_load(re.search(r"`(overlay: .*?)` in `config/mine.yaml`", page)[1])
    assert runs(experiment, **overlay).isdisjoint(first)


@pytest.mark.slow
def test_the_first_table_comes_out(tmp_path):
    files, page = first_table()
    folder = Repository(tmp_path).folder
    for name, text in files.items():
        (folder / name).write_text(re.sub(r"      - {name: (Co-teaching|FedCorr),.*\n", "", text))
    # Fewer rounds, as the page says; of more trials and rows there is nothing more to be seen.
    (overlay,) = re.findall(r"`(overlay: .*?)` in `config/mine.yaml`", page)
    with (folder / "config/mine.yaml").open("a") as scale:
        scale.write(f"trials: 1\n{overlay}\n")
    environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in "".join(blocks("first-table.md", "sh")).splitlines():
        subprocess.run(command.split(), cwd=folder, env=environment, check=True)
    made = {
        p.relative_to(folder / "results/mine").as_posix() for p in folder.rglob("mine/*/mine/*")
    }
    assert {"tables/mine/robustness.html", "tables/mine/robustness.csv"} <= made
    assert {"figures/mine/curves.png", "figures/mine/noise.pdf"} <= made
    assert (folder / "results/mine/explorer/mine.html").exists()
    header = "| Method | clean |"
    assert header in page
    assert header in (folder / "results/mine/tables/mine/robustness.md").read_text()


MADE_UP = {"config/one_trial.yaml", "config/proximal.yaml", "config/papers/proximal.yaml"}
MADE_UP |= {"config/mine.yaml", "config/papers/mine.yaml"}
MADE_UP |= {"workflow/noisyfl/methods/small_loss.py", "tests/methods/test_small_loss.py"}
MADE_UP |= {"workflow/reasons/methods/small_loss.yaml"}


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_names_of_files_lead_somewhere(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    folders = "config|envs|rules|slurm|tests|tools|workflow"
    named = re.findall(rf"`((?:{folders})/[\w./+-]+\.\w+)`", text)
    assert [name for name in named if name not in MADE_UP and not (ROOT / name).exists()] == []
