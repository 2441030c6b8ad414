"""A training job on its own: alone at its run, patient with full disks, and clear in its errors."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import small_jobs
from noisyfl.core.artifacts import DamagedArtifact, Results, read_table, write_table
from noisyfl.core.log import log_to
from noisyfl.core.options import BadInput
from noisyfl.core.plugins import load
from noisyfl.data.datasets.download import NotDownloaded
from noisyfl.runs.job import Outcome, TrainingJob, is_permanent, only_trainer
from noisyfl.runs.status import read_status
from noisyfl.runs.store import when_there_is_room
from noisyfl.specs.identity import identity
from outside import PARTS
from small_runs import inputs, spec_of

SPEC = spec_of("fedavg")
RUN = identity(SPEC)


@pytest.fixture
def results(data, tmp_path):
    """Results with what the run is made from, and nothing of the run."""
    inputs(SPEC, data)
    shutil.copytree(data.root, tmp_path / "results")
    return Results(tmp_path / "results")


def job_in(results: Results) -> TrainingJob:
    return small_jobs.job_in(results, SPEC)


def test_a_whole_run_leaves_neither_lock_nor_status_nor_checkpoint(results):
    assert job_in(results).run() == Outcome()
    assert list(results.checkpoint(RUN).parent.iterdir()) == []
    assert not results.status(RUN).exists()
    # How it was computed; on a CPU no step is captured, and nothing is done without.
    provenance = json.loads(results.run(RUN).provenance.read_text())
    steps = provenance.pop("eager_steps")
    assert steps > 0
    how = {
        "precision": "float32",
        "layout": "contiguous",
        "slots": 1,
        "captured_steps": 0,
        "fallbacks": [],
        "cudnn": None,
        "peak_gpu_memory_mb": None,
    }
    assert provenance == provenance | how


def test_a_process_that_trains_imports_nothing_that_takes_long_besides_torch(results, tmp_path):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC))
    command = ["-m", "noisyfl", "train", spec, "--device", "cpu", "--results", results.root]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True
    )
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "torch" in imported
    heavy = {"torch._dynamo", "torchvision", "pandas", "scipy", "sklearn", "matplotlib"}
    assert heavy & imported == set()


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_part_of_another_dataset_is_refused(results, part):
    path = results.data("digits", part)
    table, metadata = read_table(path)
    path.unlink()
    write_table(path, table, {**metadata, "dataset": "mnist"})
    error = job_in(results).run().error
    assert error == f"{path}: expected a part of digits, found one of mnist"


@pytest.mark.slow
def test_what_another_process_trains_is_waited_for(results):
    """As after a Snakemake was killed, whose jobs live on: the second one trains nothing."""
    code = (
        "import json, sys; from noisyfl.runs.job import TrainingJob;"
        "print(TrainingJob(**json.loads(sys.argv[1])).run())"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(job_in(results)))]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate(timeout=600)[0].strip() for process in both} == {str(Outcome())}
    log = results.log(RUN).read_text()
    assert log.count("starting with the first round") == 1
    assert log.count("already complete: ") == 1
    assert log.count("  round 1/") == 1


def test_an_error_is_told_in_the_status_and_the_log(results):
    results.partition(identity(SPEC["noisy_partition"])).write_bytes(b"PAR1")
    outcome = job_in(results).run()
    assert outcome.error is not None
    assert not outcome.interrupted
    status = read_status(results.status(RUN))
    assert status is not None
    assert (status.state, status.error) == ("failed", outcome.error)
    assert outcome.error in results.log(RUN).read_text()
    told = job_in(results).failure(outcome.error).splitlines()
    assert told[0].startswith("failed: fedavg on digits, dirichlet(")
    assert told[1:] == [f"  log: {results.log(RUN)}"]


def test_what_is_permanent_is_tried_once_by_a_command(results):
    results.partition(identity(SPEC["noisy_partition"])).write_bytes(b"PAR1")
    for attempt, tries in ((1, 1), (2, 1), (3, 1), (1, 2)):
        outcome = replace(job_in(results), attempt=attempt).run()
        assert outcome.error is not None
        assert "not a complete Parquet file" in outcome.error
        log = results.log(RUN).read_text()
        assert log.count(f"error: {outcome.error}") == tries
    assert log.count("not tried again, as it would fail in the same way: ") == 2
    assert "Traceback" in log.partition("not tried again")[2]


def test_a_method_edited_since_the_spec_was_made_is_not_trained_under_its_id(results):
    spec = {**SPEC, "method": {**SPEC["method"], "revision": 99}}
    outcome = replace(job_in(results), spec=spec).run()
    assert outcome.error is not None
    assert "spec: the code of fedavg has changed since this spec was made; " in outcome.error
    assert not results.stored(identity(spec)).whole()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{}['keep']", "KeyError: 'keep'"),
        ("self.factor = 1", "got self.factor = ..., expected what changes in federation.state or"),
    ],
)
def test_an_error_of_a_plugin_is_told_with_its_line(results, tmp_path, wrong, said):
    text = PARTS.replace("return self.factor *", f"{wrong}\n        return self.factor *")
    (tmp_path / "parts.py").write_text(text)
    load([str(tmp_path / "parts.py")])
    outcome = replace(job_in(results), spec=spec_of("halves")).run()
    line = text.splitlines().index(f"        {wrong}") + 1
    assert outcome.error is not None
    assert outcome.error.startswith(f"{tmp_path}/parts.py, line {line}: {said}")


def test_a_slurm_job_with_a_gpu_that_torch_does_not_see_is_tried_elsewhere(results, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("SLURM_GPUS", "1")
    job = replace(job_in(results), device="auto")
    for tries in (1, 2):
        outcome = job.run()
        assert outcome.error is not None
        assert "torch sees no GPU on" in outcome.error
        assert results.log(RUN).read_text().count(f"error: {outcome.error}") == tries
    monkeypatch.delenv("SLURM_GPUS")
    assert job.run() == Outcome()


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (BadInput("clients: got 0"), True),
        (DamagedArtifact("a.parquet: not a complete Parquet file"), True),
        (FileNotFoundError("train.parquet"), True),
        (AssertionError("broken"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (NotDownloaded("the connection was closed"), False),
        (MemoryError(), False),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), False),
    ],
)
def test_what_the_machine_has_done_may_pass(error, permanent):
    assert is_permanent(error) == permanent


def test_a_lock_that_may_not_be_taken_is_not_done_without(tmp_path, monkeypatch):
    def fail(code):
        def acquire(self, **options):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(FileLock, "acquire", acquire)

    said = []
    fail(errno.ENOLCK)
    with only_trainer(tmp_path / "a.lock", said.append) as alone:
        assert not alone
        assert said == ["no locks on this file system (No locks available)"]
    fail(errno.EACCES)
    with pytest.raises(PermissionError), only_trainer(tmp_path / "a.lock", said.append):
        pass


def test_another_user_may_take_a_runs_lock(tmp_path):
    before = os.umask(0o077)
    try:
        with only_trainer(tmp_path / "a.lock", print) as alone:
            assert alone
            assert (tmp_path / "a.lock").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


@pytest.mark.parametrize("locks", [True, False])
def test_a_whole_run_leaves_nothing_but_drafts_that_others_may_be_writing(
    results, monkeypatch, locks
):
    def fail(self, **options):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if not locks:
        monkeypatch.setattr(FileLock, "acquire", fail)
    checkpoint = results.checkpoint(RUN)
    checkpoint.parent.mkdir()
    for suffix in (".refused", ".damaged"):
        checkpoint.with_suffix(suffix).touch()
    draft = checkpoint.with_name(f".{checkpoint.name}.draft")
    draft.touch()
    assert job_in(results).run() == Outcome()
    assert list(checkpoint.parent.iterdir()) == ([] if locks else [draft])


def test_a_run_leaves_the_handler_of_signals_that_it_found(results):
    def before(*arguments):
        pass

    handler = signal.signal(signal.SIGTERM, before)
    try:
        assert job_in(results).run() == Outcome()
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.slow
def test_a_run_that_is_read_in_vain_is_not_trained_again(results, monkeypatch):
    assert job_in(results).run() == Outcome()
    stored = results.stored(RUN)
    stored.model.write_bytes(b"a model")

    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("noisyfl.runs.job.verify", fail)
        assert job_in(results).run().error == "OSError: [Errno 5] Input/output error"
    assert stored.whole()
    # One that is damaged is, and its model goes with it.
    stored.rounds.unlink()
    stored.rounds.write_bytes(b"PAR1")
    assert job_in(results).run() == Outcome()
    assert stored.whole()
    assert not stored.model.exists()


def test_a_checkpoint_that_finds_no_room_ends_no_run(results, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    assert job_in(results).run() == Outcome()
    log = results.log(RUN).read_text()
    assert "no checkpoint could be written: [Errno 28] No space left on device" in log


def test_a_log_that_cannot_be_written_ends_no_run(tmp_path):
    (tmp_path / "file").write_text("")
    with log_to(tmp_path / "file" / "run.log") as log:
        log.info("a line")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_file_system_is_waited_for():
    errors = [OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "quota"), None]
    log, pauses = [], []

    def write():
        error = errors.pop(0)
        if error:
            raise error
        return "written"

    assert when_there_is_room(write, log.append, pauses.append) == "written"
    assert log == ["[Errno 28] full; waiting for room"]
    assert len(pauses) == 2


def test_other_errors_are_not_waited_for():
    def write():
        raise PermissionError(errno.EACCES, "not yours")

    with pytest.raises(PermissionError):
        when_there_is_room(write, print, lambda seconds: pytest.fail("it waited"))


@pytest.mark.slow
def test_ctrl_c_ends_a_training_with_a_line(results):
    """Which says how to go on, and where from."""
    spec = json.loads(json.dumps(job_in(results).spec))
    spec["schedule"]["rounds"] = 5000
    path = results.root / "spec.json"
    path.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "noisyfl", "train", path, "--results", results.root]
    process = subprocess.Popen(
        [*command, "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "round 3/" in line:
            break
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=600)[1]
    assert process.returncode == 1
    assert "Traceback" not in told
    assert re.fullmatch(
        r"asked to end; its checkpoint is from after round \d+; run the same command to continue\n",
        told,
    ), told


@pytest.mark.slow
def test_asked_to_end_while_it_waits_for_room_it_ends(results):
    """SIGTERM in the wait after the last round, which is not trained again."""
    code = (
        "import errno, json, sys\n"
        "import noisyfl.runs.train as module\n"
        "def full(*arguments): raise OSError(errno.ENOSPC, 'full')\n"
        "module.write_run = full\n"
        "from noisyfl.runs.job import TrainingJob\n"
        "print(TrainingJob(**json.loads(sys.argv[1])).run())\n"
    )
    job = replace(job_in(results), checkpoint_seconds=3600)
    command = [sys.executable, "-c", code, json.dumps(asdict(job))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    log = results.log(RUN)
    while not (log.exists() and "waiting for room" in log.read_text()):
        assert process.poll() is None
        time.sleep(0.1)
    process.terminate()
    told = process.communicate(timeout=600)[0]
    assert "its checkpoint is from after round 8" in told
    assert "interrupted=True" in told
    assert results.checkpoint(RUN).exists()
    assert Path(results.status(RUN)).exists()
    assert job.run() == Outcome()
    assert log.read_text().count("  round 8/") == 1
