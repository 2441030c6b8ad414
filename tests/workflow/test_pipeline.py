"""The pipeline as its users drive it: Snakemake, in a copy of the repository."""

import json
import re
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest

from small_repository import Repository, ended, hostile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    made = Repository(tmp_path_factory.mktemp("repository"))
    planned = made.jobs()
    assert planned == {"data": 1, "partition": 1, "train": 2, "table": 2, "figure": 1}
    run = made.snakemake()
    assert run.returncode == 0, run.stdout + run.stderr
    return made


def test_everything_is_made_once_and_then_nothing_is_to_be_done(repository):
    results = repository.folder / "results"
    assert len(list((results / "runs").iterdir())) == 2
    for ending in ("csv", "md", "html", "tex"):
        assert (results / "tiny" / "tables" / "tiny" / f"one.{ending}").stat().st_size
    for ending in ("png", "pdf"):
        assert (results / "tiny" / "figures" / "tiny" / f"curves.{ending}").stat().st_size
    assert repository.jobs() == {}


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


def test_an_edited_method_is_named_when_runs_are_planned(repository):
    method = "workflow/noisyfl/methods/fedprox.py"
    undo = repository.edit(method, "return super().loss", "return 2 * super().loss")
    said = repository.snakemake("--dry-run")
    words = "fedprox.py, or what it imports, was edited"
    assert words in said.stdout + said.stderr
    planned = ended(repository.start("noisyfl", "plan", "--config", "config/tiny.yaml"))
    assert words in planned.stdout + planned.stderr
    assert repository.jobs() == {}
    undo()
    assert repository.jobs() == {}


@pytest.mark.slow
def test_a_lost_table_is_one_job(repository):
    (repository.folder / "results" / "tiny" / "tables" / "tiny" / "two.csv").unlink()
    assert repository.jobs("tiny_two") == {"table": 1, "table_explorer": 1}
    assert repository.snakemake().returncode == 0
    assert repository.jobs() == {}


@pytest.mark.slow
def test_a_lost_partition_or_dataset_is_not_missed_by_what_is_whole(repository):
    (partition,) = (repository.folder / "results" / "partitions").glob("*.parquet")
    away = partition.rename(partition.with_suffix(".away"))
    assert repository.jobs() == {}
    away.rename(partition)


@pytest.mark.slow
def test_lost_data_are_made_again_for_a_new_run_and_retrain_nothing(repository):
    results, lost = repository.folder / "results", repository.folder / "lost"
    lost.mkdir()
    new = "{name: FedProx, method: fedprox(mu=0.1)}\n      - {name: More, method: fedprox(mu=0.3)}"
    old = "{name: FedProx, method: fedprox(mu=0.1)}"
    undo = repository.edit("config/papers/tiny.yaml", old, new)
    try:
        for name in ("data", "partitions"):
            (results / name).rename(lost / name)
        made = {"data": 1, "partition": 1, "train": 1, "table": 1, "figure": 1}
        assert repository.jobs() == made
    finally:
        for name in ("data", "partitions"):
            (lost / name).rename(results / name)
        undo()


@pytest.mark.slow
def test_another_hyperparameter_retrains_that_method_only(repository):
    undo = repository.edit("config/papers/tiny.yaml", "mu=0.1", "mu=0.2")
    try:
        # Table two does not hold FedProx.
        assert repository.jobs() == {"train": 1, "table": 1, "figure": 1}
    finally:
        undo()


@pytest.mark.slow
def test_a_raised_revision_retrains_that_method_only(repository):
    undo = repository.edit(
        "workflow/noisyfl/methods/fedprox.py",
        '    reference = "Li',
        '    revision = 2\n    reference = "Li',
    )
    try:
        assert repository.jobs() == {"train": 1, "table": 1, "figure": 1}
    finally:
        undo()


@pytest.mark.slow
def test_how_and_where_it_is_trained_retrains_nothing(repository):
    undo = repository.edit(
        "config/tiny.yaml",
        "scale: tiny",
        "scale: tiny\ndevice: cpu\ncheckpoint_seconds: 5\ndata: {folder: else, download: true}",
    )
    try:
        assert repository.jobs() == {}
    finally:
        undo()


@pytest.mark.slow
def test_other_edits_of_the_source_retrain_nothing(repository):
    undo = repository.edit("workflow/noisyfl/methods/fedprox.py", "Cross-entropy", "Cross entropy")
    try:
        (repository.folder / "workflow" / "scripts" / "train.py").touch()
        assert repository.jobs() == {}
    finally:
        undo()


@pytest.mark.slow
def test_what_is_printed_is_printed_anew_by_other_sources(repository):
    undo = repository.edit("workflow/report/base.html.jinja", "<title>", "<title>Other: ")
    try:
        assert repository.jobs() == {"table": 2, "figure": 1}
    finally:
        undo()
    assert repository.jobs() == {}


@pytest.mark.slow
def test_a_reproduced_run_is_not_trained(repository):
    runs = repository.folder / "results" / "runs"
    tracked = repository.folder / "reproduced" / "runs"
    (run, *_) = [p for p in runs.iterdir() if '"fedavg"' in (p / "spec.json").read_text()]
    shutil.copytree(run, tracked / run.name)
    away = run.rename(run.with_suffix(".away"))
    try:
        assert repository.jobs() == {"table": 2, "figure": 1}
        # Of what is missing nothing is trained where the scale says so.
        there = repository.jobs("--config", "train_missing=false", "reproduced=false")
        assert there == {"table": 2, "figure": 1}
    finally:
        away.rename(run)
        shutil.rmtree(tracked / run.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [  # Of all others the same is shown without Snakemake, in tests/experiments.
        ("fedprox(mu=0.1)", "fedproxy(mu=0.1)", "no method is called 'fedproxy'; did you mean"),
        ("clients: 4", "clients: 4000", "clients=4000 needs 4000 training samples"),
    ],
)
def test_bad_input_stops_everything_before_any_job(repository, old, new, words):
    undo = repository.edit("config/papers/tiny.yaml", old, new)
    try:
        run = repository.snakemake()
    finally:
        undo()
    output = run.stdout + run.stderr
    assert run.returncode == 1
    assert words in output
    assert "papers/tiny.yaml" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_wrong_table_matters_only_to_those_who_ask_for_it(repository):
    wrong = ("--config=overlay={experiments: {tiny/two: {clients: 4000}}}", "-n")
    for target in ("tiny_one", "results/tiny/tables/tiny/one.md"):
        asked = repository.snakemake(target, *wrong)
        assert asked.returncode == 0
        assert "Left out: " in asked.stdout + asked.stderr
    for targets in ((), ("tiny_two",), ("tiny",)):
        asked = repository.snakemake(*targets, *wrong)
        said = asked.stdout + asked.stderr
        assert asked.returncode == 1
        assert "clients=4000 needs 4000 training samples" in said
        assert "Traceback" not in said


@pytest.mark.slow
def test_a_target_or_scale_that_there_is_not_names_the_nearest(repository):
    wrong = repository.snakemake("tiny_oen", "-n")
    assert "no target is called 'tiny_oen'; did you mean 'tiny_one'?" in wrong.stdout + wrong.stderr
    wrong = repository.snakemake("-n", "--config=trials=2", "device=cpu")
    assert "after the targets: --config key=value device=cpu" in wrong.stdout + wrong.stderr
    wrong = repository.snakemake("-n", "--config=trials=2", "--config=device=cpu")
    assert "error: --config: given 2 times" in wrong.stderr
    wrong = repository.snakemake("-n", "--config", "device=gpu")
    assert "device: got 'gpu', expected auto, cpu, cuda" in wrong.stdout + wrong.stderr
    wrong = repository.snakemake("-n", "--config", "data={download: maybe}")
    assert (
        "data.download: Input should be a valid boolean (got 'maybe')"
        in wrong.stdout + wrong.stderr
    )
    assert repository.snakemake("-n", "--config", "data={download: true}").returncode == 0
    wrong = repository.snakemake("-n", config="config/tniy.yaml")
    assert "no file 'config/tniy.yaml'; did you mean 'config/tiny.yaml'?" in wrong.stderr
    assert "Traceback" not in wrong.stdout + wrong.stderr


@pytest.mark.slow
def test_a_file_given_stands_alone_and_has_each_key_once(repository):
    (repository.folder / "config" / "alone.yaml").write_text("experiments: [tiny]\n")
    wrong = repository.snakemake("-n", config="config/alone.yaml")
    assert "config/alone.yaml: scale: Field required" in wrong.stdout + wrong.stderr
    undo = repository.edit("config/tiny.yaml", "scale: tiny", "scale: tiny\nscale: other")
    wrong = repository.snakemake("-n")
    undo()
    assert "tiny.yaml, line 2: the key 'scale' stands twice" in wrong.stdout + wrong.stderr


@pytest.mark.slow
def test_a_damaged_partition_fails_its_runs_in_words(repository):
    (partition,) = (repository.folder / "results" / "partitions").glob("*.parquet")
    whole = partition.read_bytes()
    partition.write_bytes(whole[: len(whole) // 2])
    try:
        run = repository.snakemake("tiny_two", "--forcerun", "train")
        output = run.stdout + run.stderr
        assert run.returncode == 1
        assert "not a whole Parquet file" in output
        assert "delete it to have it made again" in output
    finally:
        partition.write_bytes(whole)
    # What was forced to be made again is gone; make it again.
    assert repository.snakemake("tiny_two", "--forcerun", "train").returncode == 0
    assert repository.snakemake().returncode == 0


@pytest.mark.slow
def test_train_on_the_command_line_makes_the_same_artifact(repository, tmp_path):
    specs = tmp_path / "specs"

    def noisyfl(*arguments):
        return ended(repository.start("noisyfl", *arguments))

    made = noisyfl("specs", "tiny_two", specs, "--config", "config/tiny.yaml")
    assert made.returncode == 0, made.stderr
    (spec,) = specs.iterdir()
    trained = noisyfl("train", spec, "--results", tmp_path / "elsewhere")
    assert trained.returncode == 0, trained.stderr
    theirs = repository.folder / "results" / "runs" / spec.stem
    ours = tmp_path / "elsewhere" / "runs" / spec.stem
    assert (ours / "spec.json").read_bytes() == (theirs / "spec.json").read_bytes()
    one, other = (pd.read_parquet(run / "rounds.parquet") for run in (ours, theirs))
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds"), other.drop(columns="seconds"), check_exact=True
    )
    again = noisyfl("train", spec, "--results", tmp_path / "elsewhere")
    assert "is trained already" in again.stdout
    listed = noisyfl("runs", "--results", tmp_path / "elsewhere")
    assert f"{spec.stem}  finished  this source  fedavg on digits" in listed.stdout
    assert "fedcorr (server and client side, revision 2)" in noisyfl("methods").stdout
    wrong = noisyfl("specs", "tiny_to", specs, "--config", "config/tiny.yaml")
    assert wrong.returncode == 1
    assert "no target is called 'tiny_to'; did you mean 'tiny_two'?" in wrong.stderr


@pytest.mark.slow
def test_the_report_is_one_page_with_tables_and_figures(repository):
    run = repository.snakemake("--report", "report.html")
    assert run.returncode == 0, run.stderr
    page = (repository.folder / "report.html").read_text()
    assert "Table one" in page
    assert "Curves" in page
    # The caption's markup is text, wherever the page has it.
    assert ".. raw:: html &lt;script&gt;planted()" in page
    assert "<script>planted" not in page
    # Nothing that a browser would fetch.
    assert not re.search(r"""<(script|link|img)[^>]+(src|href)=["']https?://""", page)


@pytest.mark.slow
def test_no_text_of_a_user_ends_a_script_of_the_report(repository):
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
