"""The script of the first hour on a GPU: the order of its steps, and what it trains."""

import os
import subprocess
from pathlib import Path

from noisyfl.experiments.config import load_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.targets import runs_of, tables_and_figures

ROOT = Path(__file__).parents[2]
SCRIPT = "benchmarks/first_hour.sh"
TARGETS = ["fednoil_table1", "fedrn_table2"]


def step(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """What the script does in a folder that holds nothing else of the project."""
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / SCRIPT).write_bytes((ROOT / SCRIPT).read_bytes())
    environment = {**os.environ, "PYTHON": "false"}
    command = ["bash", SCRIPT, name]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_step_waits_for_the_one_before_it(tmp_path):
    done = step(tmp_path, "benchmark")
    assert (done.returncode, done.stderr) == (1, "first: benchmarks/first_hour.sh prepare\n")
    passed = tmp_path / "results/first_hour"
    for earlier in ("prepare", "test"):
        (passed / f"{earlier}.passed").touch()
    done = step(tmp_path, "benchmark")
    assert (done.returncode, done.stderr) == (1, "first: benchmarks/first_hour.sh selftest\n")
    (passed / "selftest.passed").touch()
    assert "runs left: 1" in step(tmp_path, "train").stdout  # whatever became of the benchmark


def test_a_step_that_fails_has_not_passed(tmp_path):
    mark = tmp_path / "results/first_hour/prepare.passed"
    mark.parent.mkdir(parents=True)
    mark.touch()
    assert step(tmp_path, "prepare").returncode == 1
    assert not mark.exists()


def test_what_is_no_step_is_told_which_there_are(tmp_path):
    done = step(tmp_path, "trian")
    assert done.returncode == 2
    assert "first_hour.sh train " in done.stdout


def test_its_runs_are_the_papers(tmp_path):
    """As the paper scale has them, so that their artifacts serve it too."""

    def runs(file: str) -> set[str]:
        given = load_config(ROOT / file)
        given["results"] = str(tmp_path)
        plan = PlanFile(given, file).plan(str)
        return {
            run for target in TARGETS for run in runs_of(tables_and_figures(plan, target).values())
        }

    first = runs("benchmarks/first_hour.yaml")
    assert len(first) == 8
    assert first <= runs("config/paper.yaml")
