"""The pipeline as its users drive it: Snakemake, in a copy of the repository."""

import json
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from installed import own_scale
from noisyfl.__main__ import main
from noisyfl.core.artifacts import Results
from noisyfl.runs.status import RunStatus
from small_repository import Repository, hostile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    made = Repository(tmp_path_factory.mktemp("repository"))
    run = made.snakemake()
    assert run.returncode == 0, run.stdout + run.stderr
    return made


def test_everything_is_made(repository):
    results = repository.folder / "results"
    assert len(list((results / "runs").iterdir())) == 2
    for ending in ("csv", "md", "html", "tex"):
        assert (results / "tiny" / "tables" / "tiny" / f"one.{ending}").stat().st_size
    for ending in ("png", "pdf"):
        assert (results / "tiny" / "figures" / "tiny" / f"curves.{ending}").stat().st_size


def test_artifacts_are_read_without_code_of_ours(repository):
    results = repository.folder / "results"
    for run in (results / "runs").iterdir():
        spec = json.loads((run / "spec.json").read_text())
        assert spec["noisy_partition"]["dataset"] == "digits"
        rounds = pd.read_parquet(run / "rounds.parquet")
        assert rounds["round"].tolist() == [1, 2]
        provenance = json.loads((run / "provenance.json").read_text())
        assert provenance["status"] == "finished"
    (partition,) = (results / "partitions").glob("*.parquet")
    frame = pd.read_parquet(partition)
    assert list(frame.columns) == ["client", "sample", "true_label", "given_label"]
    assert not frame["sample"].duplicated().any()
    level = json.loads(pq.read_schema(partition).metadata[b"noisyfl"])["realised_noise"]
    assert (frame["true_label"] != frame["given_label"]).groupby(
        frame["client"]
    ).mean().tolist() == (pytest.approx(level))
    digits = pd.read_parquet(results / "data" / "digits" / "test.parquet")
    assert len(digits.loc[0, "image"]) == 64


def test_logs_and_benchmarks_lie_where_snakemake_users_look(repository):
    results = repository.folder / "results"
    (log, *_) = (results / "logs" / "runs").glob("*.log")
    assert re.search(r"round 1/2 \(training\)  test accuracy \d", log.read_text())
    (benchmark,) = (results / "benchmarks" / "partitions").glob("*.tsv")
    assert "max_rss" in benchmark.read_text()
    # Runs, which a shared cache may serve, say it themselves.
    (provenance, *_) = (results / "runs").glob("*/provenance.json")
    took = json.loads(provenance.read_text())
    assert took["training_seconds"] > 0
    assert took["peak_memory_mb"] > 10


def test_what_is_whole_is_not_missed_and_an_edited_method_is_named(repository):
    """Nothing is to be done if a run's partition is lost, if it is to be trained elsewhere and
    otherwise, or if its sources were edited; what that changes is said.
    """
    (partition,) = (repository.folder / "results" / "partitions").glob("*.parquet")
    away = partition.rename(partition.with_suffix(".away"))
    undo = repository.edit(
        "config/tiny.yaml",
        "scale: tiny",
        "scale: tiny\ndevice: cpu\ncheckpoint_seconds: 5\ndata: {folder: else, download: true}",
    )
    method = "workflow/noisyfl/methods/fedprox.py"
    undo_code = repository.edit(method, "return super().loss", "return 2 * super().loss")
    (repository.folder / "workflow" / "scripts" / "train.py").touch()
    try:
        found = repository.dry_run()
    finally:
        undo_code()
        undo()
        away.rename(partition)
    assert found.jobs == {}
    assert "fedprox.py, or what it imports, was edited" in found.said


def test_what_was_lost_is_made_again_and_retrains_nothing_else(repository):
    """Of an experiment with another row, and with a method of a higher revision: what they need
    too, data that are gone, but neither the run nor the table that stay as they are.
    """
    results, lost = repository.folder / "results", repository.folder / "lost"
    lost.mkdir()
    new = "{name: FedProx, method: fedprox(mu=0.1)}\n      - {name: More, method: fedprox(mu=0.3)}"
    undo = repository.edit(
        "config/papers/tiny.yaml", "{name: FedProx, method: fedprox(mu=0.1)}", new
    )
    undo_method = repository.edit(
        "workflow/noisyfl/methods/fedprox.py",
        '    reference = "Li',
        '    revision = 2\n    reference = "Li',
    )
    for name in ("data", "partitions"):
        (results / name).rename(lost / name)
    try:
        made = {"data": 1, "partition": 1, "train": 2, "table": 1, "figure": 1}
        assert repository.jobs() == made
    finally:
        for name in ("data", "partitions"):
            (lost / name).rename(results / name)
        undo_method()
        undo()


def test_a_lost_table_is_one_job_and_all_are_printed_again_by_other_sources(repository):
    table = repository.folder / "results" / "tiny" / "tables" / "tiny" / "two.csv"
    away = table.rename(table.with_suffix(".away"))
    assert repository.jobs("tiny_two") == {"table": 1, "table_explorer": 1}
    away.rename(table)
    undo = repository.edit("workflow/report/base.html.jinja", "<title>", "<title>Other: ")
    assert repository.jobs() == {"table": 2, "figure": 1}
    undo()


def test_a_reproduced_run_is_not_trained(repository):
    runs = repository.folder / "results" / "runs"
    tracked = repository.folder / "reproduced" / "runs"
    (run, *_) = [p for p in runs.iterdir() if '"fedavg"' in (p / "spec.json").read_text()]
    shutil.copytree(run, tracked / run.name)
    away = run.rename(run.with_suffix(".away"))
    try:
        assert repository.jobs() == {"table": 2, "figure": 1}
    finally:
        away.rename(run)
        shutil.rmtree(tracked / run.name)


def test_how_a_run_failed_before_keeps_no_attempt_from_being_made(repository):
    """Also where the first attempt never begins, as if Slurm rejects its job."""
    results = Results(repository.folder / "results")
    (folder, *_) = (results.root / "runs").iterdir()
    status = results.status(folder.name)
    RunStatus(status, "a run", None).fail("repaired since", permanent=True)
    away = folder.rename(folder.with_suffix(".away"))
    undo = repository.edit("workflow/scripts/train.py", "\ntrain()", "\nsys.exit(1)")
    try:
        repository.fails(f"results/runs/{folder.name}/provenance.json")
    finally:
        undo()
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)
    assert not status.exists()


def test_a_wrong_table_matters_only_to_those_who_ask_for_it(repository):
    # Of all other mistakes the same is shown without Snakemake, in tests/experiments.
    wrong = ("--config=overlay={experiments: {tiny/two: {clients: 4000}}}", "-n")
    asked = repository.snakemake("tiny_one", *wrong)
    assert asked.returncode == 0
    assert "Left out: " in asked.stdout + asked.stderr
    assert "clients=4000 needs 4000 training samples" in repository.fails(*wrong)


def test_a_target_or_scale_that_there_is_not_names_the_nearest(repository):
    said = repository.fails("tiny_oen", "-n")
    assert "no target is called 'tiny_oen'; did you mean 'tiny_one'?" in said
    said = repository.fails("-n", config="config/tniy.yaml")
    assert "no file 'config/tniy.yaml'; did you mean 'config/tiny.yaml'?" in said


def test_a_file_given_stands_alone_and_has_each_key_once(repository):
    repository.write("config/alone.yaml", "experiments: [tiny]\n")
    said = repository.fails("-n", config="config/alone.yaml")
    assert "config/alone.yaml: scale: Field required" in said
    repository.write("config/alone.yaml", "scale: alone\nscale: other\nexperiments: [tiny]\n")
    said = repository.fails("-n", config="config/alone.yaml")
    assert "alone.yaml, line 2: the key 'scale' is given twice" in said


def test_train_on_the_command_line_makes_the_same_artifact(
    repository, tmp_path, monkeypatch, capsys
):
    def noisyfl(*arguments):
        monkeypatch.setattr(sys, "argv", ["noisyfl", *map(str, arguments)])
        main()
        return capsys.readouterr().out

    results = repository.folder / "results"
    specs = (results / "runs").glob("*/spec.json")
    (theirs,) = (path.parent.name for path in specs if '"fedavg"' in path.read_text())
    monkeypatch.chdir(tmp_path)
    own_scale(tmp_path)
    assert "1 specs in specs" in noisyfl("specs", "mine_two", "specs", "--config", "mine.yaml")
    spec = Path("specs") / f"{theirs}.json"
    noisyfl("train", spec, "--device", "cpu")
    ours, theirs = (Results(Path(folder)).run(theirs) for folder in ("results", results))
    assert ours.spec.read_bytes() == theirs.spec.read_bytes()
    one, other = (pd.read_parquet(run.rounds) for run in (ours, theirs))
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True
    )
    assert "is already trained" in noisyfl("train", spec)
    assert f"{spec.stem}  finished  this source  fedavg on digits" in noisyfl("runs")


def test_the_report_is_one_page_and_no_text_of_a_user_ends_a_script_of_it(repository):
    scale, experiment = hostile()
    repository.write("config/hostile.yaml", scale)
    repository.write("config/papers/hostile.yaml", experiment)
    results = repository.folder / "results" / "hostile"
    pages = [f"results/hostile/{name}.html" for name in ("explorer", "tables/hostile/one")]
    pages.append("results/hostile/figures/hostile/curves.png")
    made = repository.snakemake(*pages, config="config/hostile.yaml")
    assert made.returncode == 0, made.stderr
    run = repository.snakemake(*pages, "--report", "hostile.html", config="config/hostile.yaml")
    assert run.returncode == 0, run.stderr
    page = (repository.folder / "hostile.html").read_text()
    assert "explorer.html" in page
    for text in (page, *(path.read_text() for path in results.rglob("*.html"))):
        assert "planted()" in text or "explorer" in text
        assert not re.search("<script>planted|<!--<img|<img src=x", text)
    # The caption's markup is text, wherever the page has it.
    assert ".. raw:: html &lt;/script&gt;&lt;script&gt;planted()" in page
    # Nothing that a browser would fetch.
    assert not re.search(r"""<(script|link|img)[^>]+(src|href)=["']https?://""", page)
