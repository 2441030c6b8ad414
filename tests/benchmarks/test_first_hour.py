"""The script of the first hour on a GPU: the order of its steps, and what it trains."""

import os
import subprocess
from pathlib import Path

import pytest

from noisyfl.experiments.config import load_config
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.targets import runs_of, tables_and_figures

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = "benchmarks/first_hour.sh"
TARGETS = ["fednoil_table1", "fedrn_table2"]


def step(folder: Path, name: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """What the script does in a folder that holds nothing else of the project."""
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / SCRIPT).write_bytes((ROOT / SCRIPT).read_bytes())
    environment = {**os.environ, "PYTHON": "false", **settings}
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


@pytest.mark.parametrize("served", ["yes", "no"])
def test_mps_ends_after_the_runs_or_is_left_out(tmp_path, served):
    """Runs that are asked to end save their checkpoints first, and do so with MPS."""
    said, passed, bin = (tmp_path / name for name in ("said", "results/first_hour", "bin"))
    for folder in (passed / "specs", bin):
        folder.mkdir(parents=True)
    for gate in ("prepare", "test", "selftest"):
        (passed / f"{gate}.passed").touch()
    for spec in "abc":
        (passed / "specs" / f"{spec}.json").touch()
    control, python = bin / "nvidia-cuda-mps-control", bin / "python"
    control.write_text(f'#!/bin/sh\n[ "$1" ] || read given\necho "mps $1$given" >> {said}\n')
    saves = f'echo "saved ${{CUDA_MPS_PIPE_DIRECTORY:+with MPS}}" >> {said}; exit 1'
    python.write_text(
        f'#!/bin/bash\n[ "$1" != -c ] || [ {served} = yes ]; ok=$?\n[ "$1" != -c ] || exit $ok\n'
        f"trap 'sleep 1; {saves}' TERM\nsleep 60 & wait\n"
    )
    short = bin / "timeout"
    short.write_text('#!/bin/bash\n[[ $1 != --* ]] || shift\nexec /usr/bin/timeout 2 "${@:2}"\n')
    for made in (control, python, short):
        made.chmod(0o755)
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    given = {"PYTHON": str(python), "PATH": path, "TOGETHER": "2"}
    done = step(tmp_path, "train", **given, DEVICE="cuda")
    assert "runs left: 3" in done.stdout, done.stdout + done.stderr
    ended = ["saved with MPS"] * 3 if served == "yes" else ["mps quit", *["saved "] * 3]
    assert said.read_text().splitlines() == ["mps -d", *ended, *["mps quit"] * (served == "yes")]


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
