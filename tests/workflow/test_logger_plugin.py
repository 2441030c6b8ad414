"""The logger plugin: what it shows of Snakemake's records (in a terminal: ``test_console``)."""

import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake.exceptions import LockException, format_exception_to_string
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from checked_plan import checked_plan
from noisyfl.core.artifacts import write_json
from noisyfl.experiments.config import check_config
from noisyfl.experiments.scale import Scale
from small_paper import CONFIG, PAPER
from small_status import status_with
from snakemake_logger_plugin_noisyfl import LogHandler


@pytest.fixture
def scale(tmp_path):
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    given = {**CONFIG, "results": str(tmp_path / "results"), "device": "cpu"}
    config = check_config(given, "my.yaml")
    plan = checked_plan(config, "my.yaml", tmp_path)
    return Scale(config, plan, "config/my.yaml")


def handler(**settings):
    names = ("dryrun", "verbose", "debug_dag", "show_failed_logs", "printshellcmds", "nocolor")
    given = {**dict.fromkeys(names, False), "quiet": None, "stdout": False, **settings}
    return LogHandler(SimpleNamespace(**given), None)


def record(text, event=None, level=logging.INFO, **more):
    return logging.makeLogRecord({"msg": text, "levelno": level, "event": event, **more})


def of_job(scale, run, number=1, event=LogEvent.JOB_INFO, **more):
    given = {
        "jobid": number,
        "rule_name": "train",
        "rule_msg": None,
        "output": [str(path) for path in scale.results.run(run).all()],
        "log": [str(scale.results.log(run))],
        # Snakemake names none when it reports an error.
        **({} if event == LogEvent.JOB_ERROR else {"wildcards": {"run": run}}),
    }
    return record("a job", event, **{**given, **more})


def start(made, scale, runs, words="", **resources):
    """The records with which Snakemake starts to train runs of the table."""
    scale.part(SimpleNamespace(experiment="paper", name="one"))
    for run in runs:
        scale.train_inputs(run)
    made.emit(record("Assuming unrestricted shared filesystem usage.", module="api"))
    made.emit(record(None, noisyfl=scale, rule_names="*"))
    cmd = f"snakemake --cores 2 paper_one {words}"
    made.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, cmd=cmd))
    made.emit(record("Building DAG of jobs..."))
    made.emit(record("Provided cores: 2", LogEvent.RESOURCES_INFO, cores=2, **resources))
    stats = {"train": len(runs), "table": 1, "paper_one": 1, "total": len(runs) + 2}
    made.emit(record("Job stats", LogEvent.RUN_INFO, stats=stats))


def printed_table(scale):
    """Write the table's page; what is said of it at the end."""
    page = next(p for p in scale.files_of([scale.plan.tables["paper/one"]]) if p.suffix == ".md")
    page.parent.mkdir(parents=True)
    page.write_text("# Table 1\n\n| Method | clean |\n|---|---|\n| FedAvg | 51.1 |\n")
    return ["Table 1", "", "Method  clean", "FedAvg   51.1", "", f"table: {page}"]


def test_snakemake_finds_the_plugin():
    assert LoggerPluginRegistry().is_installed("noisyfl")


def test_a_command_from_its_first_line_to_its_last(scale, capsys):
    made, runs = handler(), list(scale.plan.runs)[:2]
    start(made, scale, runs)
    made.emit(record("Select jobs to execute..."))
    made.emit(record("a warning", level=logging.WARNING))
    for number, run in enumerate(runs):
        made.emit(of_job(scale, run, number))
        made.emit(record("Finished", LogEvent.JOB_FINISHED, job_id=number))
    table = printed_table(scale)
    made.close()
    first, *rest = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"3 jobs, 2 runs to train, about [\d,]+ \w+ on 2 cores", first)
    assert rest == ["a warning", *table]


def test_a_failed_job_is_one_line_and_three_at_the_end(scale, capsys):
    made, (run, other) = handler(), list(scale.plan.runs)[:2]
    start(made, scale, [run, other])
    write_json(scale.results.status(run), status_with(state="failed", error="ValueError: no"))
    called = (
        "CalledProcessError in file train.smk:\nCommand 'python x' died with <Signals.SIGKILL: 9>."
    )
    for number, one in enumerate((run, other)):
        made.emit(of_job(scale, one, number))
    for number, one in enumerate((run, other)):
        error = f"RuleException:\n{called}"
        exception = {"exception": "RuleException", "thread": number}
        made.emit(record(error, LogEvent.ERROR, logging.ERROR, **exception))
        made.emit(of_job(scale, one, number, LogEvent.JOB_ERROR, thread=number))
    made.emit(record("Exiting because", level=logging.ERROR, module="job_scheduler"))
    error = {"exception": "WorkflowError"}
    made.emit(record("At least one job did not complete", LogEvent.ERROR, logging.ERROR, **error))
    made.close()
    lines = capsys.readouterr().err.splitlines()[1:]
    failed = [
        "failed: FedAvg, clean, seed 1: ValueError: no",
        "failed: FedAvg, clean, seed 2: ended by the signal SIGKILL",
    ]
    assert lines[:3] == [*failed, "2 jobs failed:"]
    assert lines[3::3] == failed
    assert lines[4] == f"  log: {scale.results.log(run)}"
    assert lines[5] == f"  again, alone: snakemake {scale.results.run(run).provenance} --cores 1"


@pytest.mark.parametrize("state", ["interrupted", "running"])
def test_after_a_retry_that_succeeds_the_results_are_printed(scale, capsys, state):
    made, (run, *_) = handler(), list(scale.plan.runs)
    start(made, scale, [run])
    made.emit(of_job(scale, run))
    write_json(scale.results.status(run), status_with(state=state))
    called = "CalledProcessError:\nCommand 'python x' died with <Signals.SIGKILL: 9>."
    made.emit(record(called, LogEvent.ERROR, exception="RuleException", thread=1))
    made.emit(of_job(scale, run, event=LogEvent.JOB_ERROR, thread=1))
    made.emit(of_job(scale, run))
    made.emit(record("Finished", LogEvent.JOB_FINISHED, job_id=1))
    table = printed_table(scale)
    made.close()
    lines = capsys.readouterr().err.splitlines()[1:]
    killed = ["failed: FedAvg, clean, seed 1: ended by the signal SIGKILL"]
    assert lines == [*(killed if state == "running" else []), *table]


def test_a_killed_slurm_job_is_named_with_its_signal_and_the_profile(scale, capsys, tmp_path):
    made, (run, *_) = handler(), list(scale.plan.runs)
    start(made, scale, [run], "--profile /my/copy", nodes=9)
    log = tmp_path / "4.log"
    log.write_text("Command 'python x' died with <Signals.SIGKILL: 9>.")
    made.emit(of_job(scale, run))
    said = "SLURM-job '4' failed, SLURM status is: 'FAILED'. Detailed failure reason unavailable"
    logs = [str(scale.results.log(run)), str(log)]
    made.emit(of_job(scale, run, event=LogEvent.JOB_ERROR, rule_msg=said, log=logs))
    made.close()
    failed, *_, own, alone = capsys.readouterr().err.splitlines()[1:]
    assert failed == "failed: FedAvg, clean, seed 1: ended by the signal SIGKILL"
    assert own == f"  log: {scale.results.log(run)}"
    assert alone.endswith("/provenance.json --cores 1 --profile /my/copy")


def test_an_interrupted_run_has_not_failed(scale, capsys):
    made, (run, *_) = handler(), list(scale.plan.runs)
    start(made, scale, [run])
    made.emit(of_job(scale, run))
    write_json(scale.results.status(run), status_with(state="interrupted"))
    made.emit(of_job(scale, run, event=LogEvent.JOB_ERROR))
    text = "Cancelling snakemake on user request."
    made.emit(record(text, LogEvent.ERROR, logging.ERROR, exception="KeyboardInterrupt"))
    made.close()
    assert capsys.readouterr().err.splitlines()[1:] == [
        "Interrupted: 1 run keeps its checkpoint; the same command continues from there."
    ]


def test_what_sbatch_rejects_is_said_once(scale, capsys):
    made, runs = handler(), list(scale.plan.runs)[:2]
    start(made, scale, runs)
    said = (
        "SLURM sbatch failed. The error message was 'sbatch: error: Memory'.\n"
        "    sbatch call:\n        sbatch --parsable --wrap='it'"
    )
    for number, run in enumerate(runs):
        made.emit(of_job(scale, run, number))
        made.emit(of_job(scale, run, number, LogEvent.JOB_ERROR, rule_msg=said))
    made.close()
    text = capsys.readouterr().err
    assert text.splitlines()[1] == "sbatch rejects the job: 'sbatch: error: Memory'"
    assert text.splitlines()[2] == "2 jobs failed:"


def test_a_locked_folder_names_the_command_that_says_how_far_it_is(scale, capsys):
    made = handler()
    made.emit(record(None, noisyfl=scale, rule_names="*"))
    made.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, cmd="snakemake"))
    text = format_exception_to_string(LockException())
    made.emit(record(text, LogEvent.ERROR, logging.ERROR, exception="LockException"))
    made.close()
    said = capsys.readouterr().err
    assert said.startswith(f"{Path.cwd()} is locked: another Snakemake is running there")
    assert "`noisyfl progress --config config/my.yaml` shows its progress" in said
    assert "--unlock" in said


def test_a_wrong_target_names_the_nearest(scale, capsys):
    made = handler()
    made.emit(record(None, noisyfl=scale, rule_names="*"))
    cmd = "snakemake --scheduler greedy paper_oen"
    made.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, cmd=cmd))
    text = "MissingRuleException:\nNo rule to produce paper_oen (if you use input functions ...)"
    made.emit(record(text, LogEvent.ERROR, logging.ERROR, exception="MissingRuleException"))
    made.close()
    said = capsys.readouterr().err
    assert said.startswith("no target is called 'paper_oen'; did you mean 'paper_one'?")


def test_an_error_of_the_rules_is_its_message(scale, capsys):
    made = handler()
    text = (
        'WorkflowError in file "/a/rules/common.smk", line 100:\n'
        "executor: got slurm, and there is no command sbatch\n"
        '  File "/a/rules/train.smk", line 4, in __onstart'
    )
    made.emit(record(text, LogEvent.ERROR, logging.ERROR, exception="WorkflowError"))
    made.close()
    assert capsys.readouterr().err == "executor: got slurm, and there is no command sbatch\n"


def test_a_dry_run_counts_jobs_and_names_a_few(scale, capsys):
    made, runs = handler(dryrun=True), list(scale.plan.runs)[:2]
    start(made, scale, runs)
    for number, run in enumerate(runs):
        made.emit(of_job(scale, run, number))
    made.close()
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].startswith("3 jobs, 2 runs to train, ")
    assert lines[1:5] == ["rule   jobs", "train     2", "table     1", "all       3"]
    assert lines[-3:] == [
        "  FedAvg, clean, seed 1",
        "  FedAvg, clean, seed 2",
        "This was a dry run: no job was started.",
    ]


def test_a_workflow_that_renames_the_rules_sees_the_same_output(scale, capsys):
    made, run = handler(dryrun=True), next(iter(scale.plan.runs))
    scale.part(SimpleNamespace(experiment="paper", name="one"))
    scale.train_inputs(run)
    made.emit(record(None, noisyfl=scale, rule_names="noisyfl_*"))
    cmd = "snakemake noisyfl_paper_oen"
    made.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, cmd=cmd))
    stats = {"noisyfl_train": 1, "noisyfl_table": 1, "plot": 1, "noisyfl_paper_one": 1, "total": 4}
    made.emit(record("Job stats", LogEvent.RUN_INFO, stats=stats))
    made.emit(of_job(scale, run, rule_name="noisyfl_train"))
    missing = "MissingRuleException:\nNo rule to produce noisyfl_paper_oen (if you use ...)"
    made.emit(record(missing, LogEvent.ERROR, logging.ERROR, exception="MissingRuleException"))
    made.close()
    said = capsys.readouterr().out
    assert said.startswith("3 jobs, 1 run to train, ")
    assert re.search(r"^train +1$", said, re.MULTILINE)
    assert "'noisyfl_paper_oen'; did you mean 'noisyfl_paper_one'?" in said
    assert "  FedAvg, clean, seed 1\n" in said
    assert "dry run" not in said


def test_nothing_to_be_done(scale, capsys):
    made, table = handler(), printed_table(scale)
    scale.part(SimpleNamespace(experiment="paper", name="one"))
    made.emit(record(None, noisyfl=scale, rule_names="*"))
    made.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, cmd="snakemake paper_one"))
    made.emit(record("Building DAG of jobs..."))
    made.emit(record("Nothing to be done (all requested files are present and up to date)."))
    made.close()
    said = capsys.readouterr().err.splitlines()
    assert said == ["Nothing to be done: all files are up to date.", *table]


def test_other_commands_say_what_snakemake_says(capsys):
    made = handler()
    made.emit(record("fedcorr\nfedrn", module="workflow"))  # --list
    made.close()
    assert capsys.readouterr().err == "fedcorr\nfedrn\n"


def test_quiet_and_verbose(scale, capsys):
    made, runs = handler(quiet={Quietness.ALL}), list(scale.plan.runs)[:1]
    start(made, scale, runs)
    made.close()
    assert capsys.readouterr().err == ""
    made = handler(verbose=True)
    start(made, scale, runs)
    made.close()
    assert "Building DAG of jobs..." in capsys.readouterr().err
