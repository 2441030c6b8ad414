"""What Snakemake's console says of failed jobs, given the records that Snakemake logs."""

import errno
import io
import json
import logging
import tempfile

import pytest
from snakemake.exceptions import LockException, format_exception_to_string
from snakemake_interface_logger_plugins.common import LogEvent

from noisyfl.core.artifacts import Results
from noisyfl.core.options import BadInput
from noisyfl.runs.console import HANDLER, KILLED, MOST, NOT_BEGUN, Console, check_room
from small_status import status_with

SCRIPT = "CalledProcessError in file \"train.smk\", line 33:\nCommand 'python x.train.py' "


@pytest.fixture
def layout(tmp_path):
    return Results(tmp_path)


@pytest.fixture
def console(layout):
    return Console(layout, "config/tiny.yaml", False)


def record(text, **more):
    return logging.makeLogRecord({"msg": text, "levelno": logging.ERROR, **more})


def rule_exception(text):
    return record(f"RuleException:\n{text}", event=LogEvent.ERROR, exception="RuleException")


def job_error(number, log, rule="train", told=None):
    return record(
        f"Error in rule {rule}",
        event=LogEvent.JOB_ERROR,
        jobid=number,
        rule_name=rule,
        rule_msg=told,
        log=[str(log)],
    )


def status(layout, run, **changes):
    told = {"setting": f"fedavg, {run}", "alone": f"snakemake {run}", **changes}
    path = layout.status(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(status_with(**told)))
    return layout.log(run)


def test_snakemakes_lines_about_a_job_that_said_why_are_left_out(console, layout):
    log = status(layout, "ab", state="failed", error="ValueError: broken")
    assert not console.filter(rule_exception(SCRIPT + "returned non-zero exit status 1."))
    assert not console.filter(rule_exception(SCRIPT + "died with <Signals.SIGTERM: 15>."))
    assert not console.filter(job_error(1, log))
    assert console.filter(record("Nothing to be done", event=LogEvent.RUN_INFO))
    assert console.filter(record("a warning"))


def test_what_no_job_says_itself_is_written(console, layout):
    assert console.filter(rule_exception(SCRIPT + "died with <Signals.SIGKILL: 9>."))
    assert console.filter(rule_exception("MissingOutputException in rule train"))
    assert console.filter(job_error(1, layout.log("ab"), told="SLURM-job '7' failed"))
    wordy = Console(layout, "config/tiny.yaml", True)
    assert wordy.filter(job_error(1, layout.log("ab")))


def test_only_the_console_is_filtered_and_the_log_file_has_everything(console):
    stream, file = logging.StreamHandler(), logging.StreamHandler()
    stream.name, file.name = HANDLER, "DefaultLogFileHandler"
    console.attach([stream, file])
    assert stream.filters == [console]
    assert file.filters == []


RUNS = ("ab", "cd")


def test_the_summary_has_each_failed_job_once_with_its_log_and_command(console, layout, tmp_path):
    failed = status(layout, "ab", state="failed", error="ValueError: broken")
    killed = status(layout, "cd", state="running")
    table = tmp_path / "table.log"
    table.write_text("2026-01-01 00:00:00  error: no room\n")
    for number, (log, rule) in enumerate(
        [(failed, "train"), (failed, "train"), (killed, "train"), (table, "table")]
    ):
        console.filter(job_error(max(number, 1), log, rule))
    again = [f"  again, alone: snakemake {layout.run(run).provenance} --cores 1" for run in RUNS]
    assert console.summary().splitlines() == [
        "3 jobs failed:",
        "failed: fedavg, ab: ValueError: broken",
        f"  log: {failed}",
        again[0],
        f"failed: fedavg, cd: {KILLED}",
        f"  log: {killed}",
        again[1],
        "failed: table: no room",
        f"  log: {table}",
    ]


def test_a_run_whose_job_never_began_to_train(console, layout):
    console.filter(job_error(1, layout.log("ab")))
    assert console.summary().splitlines() == ["1 job failed:", f"failed: run ab: {NOT_BEGUN}"]


def test_runs_that_were_made_later_or_were_asked_to_end_have_not_failed(console, layout):
    console.filter(job_error(1, status(layout, "ab", state="interrupted")))
    made = layout.run("cd")
    made.folder.mkdir(parents=True)
    for path in made.all():
        path.touch()
    console.filter(job_error(2, layout.log("cd")))
    assert console.summary() == ""


def test_a_long_summary_says_where_the_rest_is(console, layout):
    for number in range(MOST + 3):
        log = status(layout, f"{number:02}", state="failed", error="OSError: away")
        console.filter(job_error(number, log))
    lines = console.summary().splitlines()
    assert lines[0] == f"{MOST + 3} jobs failed:"
    assert sum(line.startswith("failed: ") for line in lines) == MOST
    assert lines[-1] == "and 3 more: python -m noisyfl progress --config config/tiny.yaml"


def test_a_locked_folder_names_the_command_that_says_how_far_it_is(console):
    text = format_exception_to_string(LockException())
    locked = record(text, event=LogEvent.ERROR, exception="LockException")
    assert console.filter(locked)
    assert "`python -m noisyfl progress --config config/tiny.yaml` says how far" in locked.msg
    assert "--unlock" in locked.msg


class Full(io.BytesIO):
    """A file on a disk that has no room, or too little."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, content):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content[: self.room])


@pytest.mark.parametrize("room", [0, 1000])
def test_a_full_disk_is_said_before_snakemake_writes_its_locks(tmp_path, monkeypatch, room):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    check_room(tmp_path / "own")
    assert logging.raiseExceptions
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full(room))
    with pytest.raises(BadInput, match=r"own: cannot be written \(No space left on device\), exp"):
        check_room(tmp_path / "own")
    assert not logging.raiseExceptions


def test_a_folder_that_is_closed_is_left_to_snakemake(tmp_path, monkeypatch):
    def closed(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", closed)
    check_room(tmp_path / "own")


def test_what_sbatch_says_of_jobs_is_printed_once(console, layout, capsys):
    told = (
        "SLURM sbatch failed. The error message was 'sbatch: error: Memory\nsbatch: error: not so'."
        "\n    sbatch call:\n        sbatch --parsable --job-name 1 --wrap='it's long'"
    )
    for number in range(4):
        assert not console.filter(job_error(number, layout.log(f"{number:02}"), told=told))
    said = capsys.readouterr().err
    assert said == "sbatch rejects jobs: sbatch: error: Memory sbatch: error: not so\n"
    assert "4 jobs failed" in console.summary()
