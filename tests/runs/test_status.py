"""What a run says of itself while it is under way, and what is said of one that failed."""

import errno
import json
import math
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from noisyfl.core.artifacts import DamagedArtifact, Results
from noisyfl.runs import status
from noisyfl.runs.status import (
    RunStatus,
    failure_text,
    forget_failures,
    read_status,
    scale_words,
    slurm_profiles,
    snakemake_alone,
)

WORDS = "fedavg on cifar10, iid(clients=10), no label noise, seed 1"


@pytest.fixture
def path(tmp_path):
    return Results(tmp_path / "results").status("0123456789abcdef")


@pytest.fixture
def run(path):
    made = RunStatus(path, WORDS, "results/logs/runs/a.log")
    yield made
    made.remove()


def content(path):
    return json.loads(path.read_text())


def test_a_status_has_what_a_person_asks(path, monkeypatch):
    assert path.parts[-3:] == ("results", "status", "0123456789abcdef.json")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    run = RunStatus(path, WORDS, "results/logs/runs/a.log")
    run.report(40, 100, 30.0, 0.5)
    said = content(path)
    moments = [datetime.fromisoformat(said.pop(key)) for key in ("begun", "updated")]
    assert all(abs(datetime.now(UTC) - moment) < timedelta(minutes=1) for moment in moments)
    assert said.pop("seconds_left") == pytest.approx(30, abs=10)
    assert said.pop("host") == os.uname().nodename
    assert said == {
        "state": "running",
        "setting": WORDS,
        "process": os.getpid(),
        "rounds_done": 40,
        "rounds": 100,
        "resumed_after": 40,
        "accuracy": 0.5,
        "error": None,
        "traceback": None,
        "permanent": False,
        "log": "results/logs/runs/a.log",
        "slurm_job": "7",
    }


def test_the_first_and_the_last_are_written_at_once_and_few_between(run, path, monkeypatch):
    monkeypatch.setattr(status, "WRITE_SHARE", math.inf)
    run.begin()
    assert (content(path)["rounds"], content(path)["resumed_after"]) == (None, None)
    seen = []
    for done in range(5, 13):
        run.report(done, 12, 1.0)
        seen.append(content(path)["rounds_done"])
    assert seen == [5, 5, 5, 5, 5, 5, 5, 12]
    assert content(path)["resumed_after"] == 5


def test_what_is_due_is_written(run, path, monkeypatch):
    run.report(0, 12)
    monkeypatch.setattr(status, "WRITE_SECONDS", 0.05)
    time.sleep(0.1)
    run.report(1, 12)
    assert content(path)["rounds_done"] == 1


def test_a_long_round_shows_signs_of_life_and_the_time_passes(run, path, monkeypatch):
    monkeypatch.setattr(status, "BEAT_SECONDS", 0.05)
    run.begin()
    begun = time.monotonic()
    run.report(3, 9, 20.0)
    while (later := content(path))["seconds_left"] > 18.5:
        assert time.monotonic() < begun + 120
        time.sleep(0.01)
    assert later["seconds_left"] >= 20 - (time.monotonic() - begun)
    assert later["updated"] > later["begun"]
    assert (later["rounds_done"], later["state"]) == (3, "running")


@pytest.mark.parametrize(
    ("end", "state"), [("interrupt", "interrupted"), ("fail", "failed"), ("remove", None)]
)
def test_after_its_end_nothing_is_written(run, path, monkeypatch, end, state):
    monkeypatch.setattr(status, "BEAT_SECONDS", 0.01)
    run.begin()
    run.report(3, 9, 20.0)
    getattr(run, end)(*["broken"] * (end == "fail"))
    assert path.exists() == (state is not None)
    if path.exists():
        assert content(path)["state"] == state
        assert content(path)["rounds_done"] == 3
        path.unlink()
    time.sleep(0.1)
    assert not path.exists()


def test_a_beat_that_waits_for_the_end_writes_nothing(run, path, monkeypatch):
    monkeypatch.setattr(status, "BEAT_SECONDS", 0.01)
    run.begin()
    for _ in range(20):  # a beat waits for the lock while the run ends
        with run._lock:
            time.sleep(0.02)
    run.remove()
    time.sleep(0.05)
    assert not path.exists()


def test_early_rounds_are_written_more_often(run, path, monkeypatch):
    monkeypatch.setattr(status, "WRITE_SHARE", 0.0)
    for done in range(3):
        run.report(done, 9)
        assert content(path)["rounds_done"] == done


def test_an_accuracy_stays_until_the_next_one(run, path, monkeypatch):
    monkeypatch.setattr(status, "WRITE_SHARE", 0.0)
    for accuracy, shown in ((0.4, 0.4), (None, 0.4), (0.5, 0.5)):
        run.report(1, 9, 1.0, accuracy)
        assert content(path)["accuracy"] == shown


def test_an_error_becomes_one_line(run, path):
    run.report(1, 9)
    run.fail("RuntimeError: out of memory\n  tried   to allocate\n")
    assert content(path)["error"] == "RuntimeError: out of memory tried to allocate"


def through_a_run(run):
    run.begin()
    run.report(0, 2)
    run.report(2, 2, 0.0)
    run.interrupt()
    run.fail("e")
    run.remove()


def test_a_folder_that_cannot_be_made_harms_no_run(tmp_path):
    (tmp_path / "status").write_text("a file where the folder should be")
    through_a_run(RunStatus(tmp_path / "status" / "a.json", WORDS, None))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_file_that_cannot_be_written_harms_no_run(run, path, monkeypatch, number):
    run.report(1, 9)

    def refuse(*args, **more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    through_a_run(run)


def test_no_status_is_none(path):
    assert read_status(path) is None


def status_with(run, path, **changes):
    """The file of a status that says something else."""
    run.report(1, 10, 1.0)
    path.write_text(json.dumps({**content(path), **changes}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", "asleep"),
        ("rounds", "ten"),
        ("setting", None),
        ("updated", "yesterday"),
        ("updated", "2026-01-01T00:00:00"),
    ],
)
def test_what_is_no_status_is_named(run, path, key, value):
    status_with(run, path, **{key: value})
    with pytest.raises(DamagedArtifact, match=rf"{path.name}: not a status \(.*{key}"):
        read_status(path)


@pytest.mark.parametrize("text", ["", '{"state": "running"}', "[1, 2]"])
def test_what_is_no_status_does_not_keep_a_run_from_being_tried(run, path, text):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(DamagedArtifact, match=path.name):
        read_status(path)
    assert run.known_failure() is None


def test_only_failures_of_the_asked_runs_are_forgotten(tmp_path):
    results = Results(tmp_path / "results")
    asked = ["running", "interrupted", "failed", "none"]
    for name in (*asked[:3], "failed, not asked"):
        made = RunStatus(results.status(name), WORDS, None)
        made.report(1, 2)
        if name == "interrupted":
            made.interrupt()
        elif name.startswith("failed"):
            made.fail("broken", permanent=True)
    results.status("none").with_name("damaged.json").write_text("[")
    forget_failures(results, [*asked, "damaged"])
    left = {path.stem for path in results.status("none").parent.iterdir()}
    assert left == {"running", "interrupted", "failed, not asked", "damaged"}


def test_a_failure_is_three_lines_that_no_terminal_obeys():
    text = failure_text("fedavg\x1b[2J", "ValueError: a\nb\x1b]0;\x07", None, "c\x9b")
    assert text.splitlines() == [
        r"failed: fedavg\x1b[2J: ValueError: a b\x1b]0;\x07",
        "  log: none",
        r"  again, alone: c\x9b",
    ]


PROVENANCE = Path("results") / "runs" / "0123456789abcdef" / "provenance.json"


def test_the_command_for_one_run_has_its_target_first(monkeypatch, tmp_path):
    target = "snakemake results/runs/0123456789abcdef/provenance.json --cores 1"
    assert snakemake_alone(PROVENANCE, []) == target
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / "config" / "a.yaml", "my b.yaml", "/elsewhere/c.yaml"]
    words = scale_words(files, {}, tmp_path / "workflow" / "Snakefile")
    configs = "--configfile config/a.yaml 'my b.yaml' /elsewhere/c.yaml"
    assert snakemake_alone(PROVENANCE, words) == f"{target} {configs}"
    assert snakemake_alone(PROVENANCE, words, ["slurm"]) == (f"{target} --profile slurm {configs}")
    words = scale_words([], {}, "/elsewhere/Snakefile")
    other = "--snakefile /elsewhere/Snakefile"
    assert snakemake_alone(PROVENANCE, words) == f"{target} {other}"


def test_the_command_has_the_values_that_snakemake_was_given():
    given = {"trials": 2, "results": "my own", "data": {"download": True}}
    words = scale_words(["a.yaml"], given, "Snakefile")
    values = """--config trials=2 'results=my own' 'data={"download": true}'"""
    said = f"snakemake p --cores 1 {values} --configfile a.yaml"
    assert snakemake_alone(Path("p"), words) == said


@pytest.mark.parametrize(
    ("words", "variable", "profiles"),
    [
        ("", None, ["slurm"]),
        ("--executor slurm --jobs 9", None, ["slurm"]),
        ("", "/my/copy", ["/my/copy"]),
        ("paper --cores all --profile /my/own --keep-going", "/my/copy", ["/my/own"]),
        ("--profile=one --profile two", None, ["one", "two"]),
        ("--profile none --workflow-profile mine", "/my/copy", ["slurm"]),
    ],
)
def test_the_command_on_a_cluster_has_the_profiles_that_were_given(
    monkeypatch, words, variable, profiles
):
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    if variable:
        monkeypatch.setenv("SNAKEMAKE_PROFILE", variable)
    found = slurm_profiles(words.split())
    assert found == profiles
    given = " ".join(f"--profile {one}" for one in profiles)
    assert snakemake_alone(Path("p"), [], found) == f"snakemake p --cores 1 {given}"
