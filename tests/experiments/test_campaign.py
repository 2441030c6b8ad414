"""What one Snakemake command makes: what it is called, how long it takes, what failed and why."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import yaml

from checked_plan import checked_plan
from noisyfl.core.artifacts import write_json
from noisyfl.experiments import campaign as campaign_module
from noisyfl.experiments.campaign import Campaign, Job
from noisyfl.experiments.config import check_config
from noisyfl.experiments.scale import Scale
from noisyfl.pages.markdown import escape_markdown, page_table
from noisyfl.runs.status import scale_words
from small_paper import CONFIG
from small_progress import TWO, done
from small_status import status_with


@pytest.fixture
def scale(tmp_path):
    """A scale of two tables that share runs."""
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(TWO))
    config = check_config(
        {**CONFIG, "results": str(tmp_path / "results"), "device": "cpu"}, "my.yaml"
    )
    plan = checked_plan(config, "my.yaml", tmp_path)
    options = scale_words(["config/my.yaml"], {}, "Snakefile")
    return Scale(config, plan, "config/my.yaml", options)


def ask(scale, name):
    """Ask for a table, as Snakemake does when it looks for the jobs."""
    for run in scale.part(SimpleNamespace(experiment="paper", name=name)).run_ids():
        scale.train_inputs(run)


def started(scale, name="two", **counts):
    ask(scale, name)
    campaign = Campaign([scale])
    runs = list(scale.asked_runs)
    counts = {"train": len(runs), "table": 1, f"paper_{name}": 1, **counts}
    said = campaign.plan(counts, at_once=2, remote=False)
    return campaign, runs, said


def training(scale, run):
    files = [str(path) for path in scale.results.run(run).all()]
    return Job("train", tuple(files), str(scale.results.log(run)), {"run": run})


def says(scale, run, **changes):
    write_json(scale.results.status(run), status_with(**changes))


def test_a_run_is_called_by_row_and_column_of_the_table_that_was_asked_for(scale):
    plan = scale.plan
    assert next(iter(plan.facts.values())).words == "FedAvg, cifar10, clean"
    campaign, runs, _ = started(scale)
    campaign.start(1, training(scale, runs[0]))
    campaign.start(2, Job("table", ("t.md",), "", {"experiment": "paper", "name": "two"}))
    campaign.start(3, Job("data", ("d",), "", {"dataset": "digits"}))
    names = [campaign.name(number) for number in (1, 2, 3)]
    assert names == ["FedAvg, clean, seed 1", "table paper/two", "data digits"]
    other = next(run for run in scale.plan.runs if run not in runs)
    campaign.start(4, training(scale, other))  # of another table, as `--forcerun` may ask for
    assert campaign.name(4) == f"{plan.facts[other].words}, seed {plan.runs[other]['seed']}"


def test_the_first_line_says_how_much_there_is_to_do(scale):
    _, runs, said = started(scale)
    hours = sum(scale.estimate(run).seconds for run in runs) / 3600 / 2
    days = round(hours / 24)
    assert said == f"5 jobs, 4 runs to train, about {days} days on 2 cores"


def test_the_first_line_names_the_gpus_that_train(scale, monkeypatch):
    scale.config = scale.config.model_copy(update={"device": "auto"})
    monkeypatch.setattr(campaign_module, "has_gpu", lambda: True)
    monkeypatch.setattr(campaign_module, "LONG_HOURS", 10_000)
    _, _, said = started(scale)
    assert re.fullmatch(
        r"5 jobs, 4 runs to train, about .* on this machine's GPUs, 2 at a time", said
    )


def test_measured_times_correct_the_estimate(scale):
    two = scale.plan.tables["paper/two"].run_ids()
    run = next(run for run in scale.plan.runs if run not in two)
    ask(scale, "one")
    done(scale, run, factor=1 / 100, setup=0, device="Xeon CPU, 2 cores")
    ask(scale, "two")
    campaign = Campaign([scale])
    left = {*scale.asked_runs} - {run}
    campaign.plan({"train": len(left)}, 1, False)
    expected = sum(scale.estimate(run).seconds for run in left) / 100
    assert campaign.progress().seconds_left == pytest.approx(expected)


def test_hours_of_a_cluster(scale):
    scale.config = scale.config.model_copy(update={"device": "auto"})
    ask(scale, "two")
    said = Campaign([scale]).plan({"train": 4, "table": 1}, at_once=100, remote=True)
    assert said.startswith("5 jobs, 4 runs to train, ")
    assert said.endswith(" H100 hours; `noisyfl plan --config config/my.yaml` lists them")


def test_nothing_to_train(scale):
    ask(scale, "two")
    said = Campaign([scale]).plan({"table": 1, "all": 1, "total": 2}, 2, False)
    assert said == "1 job, no run to train"


def test_the_progress_has_finished_runs_and_those_in_training(scale):
    campaign, runs, _ = started(scale)
    for number, run in enumerate(runs[:2]):
        campaign.start(number, training(scale, run))
    says(scale, runs[1], rounds_done=3, rounds=9, accuracy=0.5)
    done(scale, runs[0], device="Xeon CPU, 2 cores")
    campaign.finish(0)
    shown = campaign.progress()
    assert (shown.done, shown.total, shown.note) == (1, 4, "1 other job")
    (run,) = shown.running
    assert (run.name, run.round, run.percent) == ("FedAvg, clean, seed 2", "round 3 of 9", "50.0 %")
    scale.results.status(runs[1]).unlink()  # it is complete and about to end
    assert campaign.progress().running == [run]


CALLED = "CalledProcessError in file \"train.smk\", line 33:\nCommand 'python x.py' "


@pytest.mark.parametrize(
    ("state", "said", "why"),
    [
        ({"state": "failed", "error": "ValueError: broken"}, "", "ValueError: broken"),
        (
            {"state": "running"},
            f"{CALLED}died with <Signals.SIGKILL: 9>.",
            "ended by the signal SIGKILL",
        ),
        (None, CALLED + "returned non-zero exit status 143.", "ended by the signal SIGTERM"),
        (None, "SLURM-job '7' failed: OUT_OF_MEMORY", "SLURM-job '7' failed: OUT_OF_MEMORY"),
        (None, "", "it ended without an error message"),
    ],
)
def test_why_a_run_failed(scale, state, said, why):
    campaign, (run, *_), _ = started(scale)
    if state:
        says(scale, run, **state)
    campaign.start(1, training(scale, run))
    assert campaign.fail(1, training(scale, run), said) == f"failed: FedAvg, clean, seed 1: {why}"
    assert campaign.fail(1, training(scale, run), said) == ""  # in another attempt
    assert campaign.failures().splitlines() == [
        "1 job failed:",
        f"failed: FedAvg, clean, seed 1: {why}",
        f"  log: {scale.results.log(run)}",
        f"  again, alone: snakemake {scale.results.run(run).provenance} --cores 1"
        " --configfile config/my.yaml",
    ]


def test_another_job_has_its_error_in_its_log(scale, tmp_path):
    campaign, _, _ = started(scale)
    log = tmp_path / "table.log"
    log.write_text("2026-01-01 00:00:00  error: no room\nTraceback (most recent call last):\n")
    job = Job("table", ("t.md", "t.csv"), str(log), {"experiment": "paper", "name": "two"})
    assert campaign.fail(1, job, CALLED) == "failed: table paper/two: no room"
    assert campaign.failures().endswith("snakemake t.md --cores 1 --configfile config/my.yaml")


def test_what_a_later_attempt_made_or_was_asked_to_end_has_not_failed(scale):
    campaign, runs, _ = started(scale)
    campaign.fail(1, training(scale, runs[0]), "once")
    campaign.finish(1)
    says(scale, runs[1], state="interrupted")
    said = f"{CALLED}died with <Signals.SIGTERM: 15>."
    campaign.fail(2, training(scale, runs[1]), "once")
    says(scale, runs[1], state="interrupted")
    assert campaign.fail(2, training(scale, runs[1]), said) == ""
    assert campaign.failures() == ""
    assert campaign.interrupted() == (
        "Interrupted: 1 run keeps its checkpoint; the same command continues from there."
    )


@pytest.mark.parametrize("later", ["finished", "failed"])
def test_a_run_that_goes_on_after_an_interruption_is_not_interrupted(scale, later):
    campaign, (run, *_), _ = started(scale)
    says(scale, run, state="interrupted")
    campaign.start(1, training(scale, run))
    assert campaign.fail(1, training(scale, run), "") == ""
    campaign.start(1, training(scale, run))
    if later == "finished":
        campaign.finish(1)
    else:
        says(scale, run, state="failed", error="ValueError: broken")
        campaign.fail(1, training(scale, run), "")
    assert campaign.interrupted() == ""
    assert ("ValueError: broken" in campaign.failures()) == (later == "failed")


SLURM = "SLURM-job '4' failed, SLURM status is: 'FAILED'. Detailed failure reason unavailable"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (SLURM, "ended by the signal SIGKILL"),
        (SLURM.replace("FAILED", "OUT_OF_MEMORY"), SLURM.replace("FAILED", "OUT_OF_MEMORY")),
    ],
)
def test_the_log_of_a_slurm_job_names_the_signal_where_slurm_has_no_reason(
    scale, tmp_path, said, why
):
    campaign, (run, *_), _ = started(scale)
    log = tmp_path / "4.log"
    log.write_text(f"RuleException:\n{CALLED}died with <Signals.SIGKILL: 9>.\n")
    campaign.start(1, training(scale, run))
    job = replace(training(scale, run), wildcards={}, last_log=str(log))
    assert campaign.fail(1, job, said) == f"failed: FedAvg, clean, seed 1: {why}"
    assert f"log: {scale.results.log(run)}" in campaign.failures()


def test_a_resumed_run_takes_what_its_own_rounds_take(scale):
    campaign, (run, *others), _ = started(scale)
    for number, one in enumerate(others):
        done(scale, one, device="Xeon CPU, 2 cores")
        campaign.start(number, training(scale, one))
        campaign.finish(number)
    campaign.start(9, training(scale, run))
    rest = campaign.progress().seconds_left
    says(scale, run, state="interrupted", rounds_done=3, rounds=9, seconds_left=120)
    of_table = 5.0 / 2  # the table's job, at two at a time
    assert campaign.progress().seconds_left == pytest.approx(120 + of_table)
    says(scale, run)  # begun again, and before its first round
    assert campaign.progress().seconds_left == pytest.approx(120 + of_table) != rest
    assert campaign.progress().running[0].round == "starting"
    now = datetime.now(UTC).isoformat()
    says(scale, run, rounds_done=4, rounds=9, updated=now, seconds_left=1e9)
    assert campaign.progress().seconds_left > 120 + of_table


def test_many_failures_name_the_command_that_lists_them(scale, monkeypatch):
    monkeypatch.setattr(campaign_module, "MOST_FAILURES", 2)
    campaign, runs, _ = started(scale)
    for number, run in enumerate(runs):
        campaign.fail(number, training(scale, run), "no")
    lines = campaign.failures().splitlines()
    assert lines[0] == "4 jobs failed:"
    assert sum(line.startswith("failed: ") for line in lines) == 2
    assert lines[-1] == "and 2 more: `noisyfl progress --config config/my.yaml` lists them"


def test_a_job_that_finished_may_warn(scale, tmp_path):
    campaign, _, _ = started(scale)
    log = tmp_path / "partition.log"
    log.write_text("2026-01-01 00:00:00  Warning: no noise\n2026-01-01 00:00:00  done\n")
    campaign.start(1, Job("partition", ("p",), str(log), {"partition": "ab"}))
    assert campaign.finish(1) == "partition ab: Warning: no noise"


def test_counts_of_a_dry_run(scale):
    campaign, _, _ = started(scale)
    said = campaign.counts_text({"train": 4, "table": 1, "paper_two": 1, "total": 6})
    assert said.splitlines() == [
        "rule   jobs",
        "train     4",
        "table     1",
        "all       5",
        "",
        "table      runs  to train",
        "paper_two     4         4",
    ]


PAGE = """# Table 2

A paper

| Method | **clean** |
|---|---|
| FedAvg | **51.1 ± 0.7** |

- Ours
"""


def test_the_results_are_the_table_if_it_fits_and_where_the_files_are(scale):
    campaign, _, _ = started(scale)
    page = next(p for p in scale.files_of([scale.plan.tables["paper/two"]]) if p.suffix == ".md")
    page.parent.mkdir(parents=True)
    page.write_text(PAGE)
    explorer = scale.explorer_of("paper/two")
    explorer.parent.mkdir(parents=True)
    explorer.touch()
    files = [f"table: {page}", f"explorer: {explorer}"]
    table = ["Table 2", "", "Method       clean", "FedAvg  51.1 ± 0.7"]
    assert page_table(PAGE) == table
    odd = escape_markdown(r"T | 100% _x_ \alpha <b>")
    assert page_table(f"# {odd}\n\n| {odd} |\n|---|\n| **1** |\n")[0] == r"T | 100% _x_ \alpha <b>"
    assert page_table(f"# {odd}\n\n| {odd} |\n|---|\n| **1** |\n")[2] == r"T | 100% _x_ \alpha <b>"
    assert campaign.results(80, 24).splitlines() == [*table, "", *files]
    assert campaign.results(10, 24).splitlines() == files
    assert campaign.results(80, 3).splitlines() == files
