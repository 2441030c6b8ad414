"""What is sent to a borrowed GPU, and what is done there: a rehearsal without one."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO

import numpy as np
import pytest
from benchmarks.lease import specs as lease_specs

from noisyfl.core.places import ROOT
from noisyfl.core.tracked import REPRODUCED
from noisyfl.specs.identity import identity
from small_runs import spec_of

KIT = ROOT / "benchmarks" / "lease"


@pytest.mark.storm
def test_cifar_10_comes_as_it_was(tmp_path):
    rng = np.random.default_rng(1)
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    for name in names:
        tile = rng.integers(0, 256, (100, 3072), dtype=np.uint8)
        batch = {b"data": np.tile(tile, (100, 1)), b"labels": rng.integers(0, 10, 10_000).tolist()}
        (tmp_path / name).write_bytes(pickle.dumps(batch))
    for half in ("one", "other"):
        (tmp_path / half).mkdir()

    def script(*words):
        command = [sys.executable, str(KIT / "cifar10.py"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert script("pack", tmp_path, "one", "other").returncode == 0
    assert script("unpack", "one", "other", "results").returncode == 0
    from noisyfl.core.artifacts import Results
    from noisyfl.data.datasets.parts import read_part

    part = read_part(Results(tmp_path / "results").data("cifar10", "test"))
    sent = pickle.loads((tmp_path / "test_batch").read_bytes())
    assert part.labels.tolist() == sent[b"labels"]
    pixels = sent[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(part.images, pixels)
    about = json.loads((tmp_path / "one/cifar10.json").read_text())
    about["labels"]["train"] = "01" + about["labels"]["train"][2:]
    (tmp_path / "one/cifar10.json").write_text(json.dumps(about))
    done = script("unpack", "one", "other", "again")
    assert done.stderr == "CIFAR-10's train part is not what was packed\n"


@pytest.mark.slow
def test_specs_are_the_papers_runs_that_are_not_stored(tmp_path, capsys):
    (tmp_path / "spec.json").write_text(json.dumps(spec_of("fedavg")))
    (tmp_path / "queue").write_text(f"{tmp_path / 'spec.json'}\n")
    lease_specs.main(KIT / "lease.yaml", tmp_path / "lease", tmp_path / "queue")
    written = sorted((tmp_path / "lease/specs").glob("*.json"))
    assert written
    assert len(capsys.readouterr().out.splitlines()) == len(written)
    for path in written:
        run = identity(json.loads(path.read_text()))
        assert path.stem.partition("_")[2] == run
        assert not REPRODUCED.run(run).whole()
    assert (tmp_path / "lease/cpu_specs/001_spec.json").exists()


@pytest.fixture
def lease(tmp_path):
    """Runs ``lease.py`` on the CPU, with two runs; of one the clock ends the training."""
    kit = tmp_path / "data/lease"
    (kit / "specs").mkdir(parents=True)
    shutil.copy(KIT / "lease.py", kit)
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    short = spec_of("fedavg")
    long = spec_of("fedprox", schedule={**short["schedule"], "rounds": 100_000})
    for number, spec in enumerate((short, long)):
        (kit / f"specs/{number}_{identity(spec)}.json").write_text(json.dumps(spec))

    def run(*words):
        here = {"DEVICE": "cpu", "OUT": "out", "LEASE_STATE": str(tmp_path / "state")}
        command = [sys.executable, "data/lease/lease.py", *words]
        environment = {**os.environ, **here, "TOGETHER": "2"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.ids = [identity(spec) for spec in (short, long)]
    return run


@pytest.mark.storm
def test_runs_come_back_and_those_that_the_clock_ends_go_on(lease, tmp_path):
    lease("runs", "60")
    short, long = lease.ids
    content = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("back.*")))
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        names = archive.getnames()
    assert f"runs/{short}/provenance.json" in names
    assert f"checkpoints/{long}.pt" in names
    lines = [*map(json.loads, (tmp_path / "out/results.jsonl").read_text().splitlines())]
    assert [(line["run"], line["rc"]) for line in lines] == [(short, 0)]
    said = lease("runs", "60")
    assert f"begins {short}" not in said
    assert "resuming after round " in (tmp_path / f"state/results/logs/runs/{long}.log").read_text()
