"""The script of the rule ``train``, asked to end in a Slurm job."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from noisyfl.core.artifacts import Results
from noisyfl.core.places import ROOT
from noisyfl.specs.identity import identity
from small_runs import SETTING, inputs, spec_of

SPEC = spec_of("fedavg", schedule={**SETTING["schedule"], "rounds": 5000})
RUN = identity(SPEC)
# The ten minutes in which it waits to be killed are a line.
SCRIPT = """
import sys, time
from json import loads
from types import SimpleNamespace

sleep = time.sleep
time.sleep = lambda seconds: sleep(seconds) if seconds < 600 else print("waits", flush=True)
path, spec, results, log = sys.argv[1:]
snakemake = SimpleNamespace(
    config={"scale": "tiny", "experiments": ["tiny"], "results": results, "device": "cpu"},
    params=SimpleNamespace(spec=spec),
    log=[log],
    resources=SimpleNamespace(attempt=1),
)
exec(compile(open(path).read(), path, "exec"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["it waits for another process", "it trains"])
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_waits_to_be_killed_if_slurm_ends_it_and_not_after_ctrl_c(by, when, data, tmp_path):
    inputs(SPEC, data)
    shutil.copytree(data.root, tmp_path / "results")
    results = Results(tmp_path / "results")
    log, checkpoint = results.log(RUN), results.checkpoint(RUN)
    checkpoint.parent.mkdir()
    lock = FileLock(checkpoint.with_suffix(".lock"))
    if when == "it waits for another process":
        lock.acquire()
    path = ROOT / "workflow" / "scripts" / "train.py"
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, path, json.dumps(SPEC), results.root, log],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SLURM_JOB_ID": "1"},
    ) as process:
        line = "waiting for it to end" if lock.is_locked else "  round 3/"
        while not (log.exists() and line in log.read_text()):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(by)
        said = process.communicate(timeout=600)[0]
    assert said == ("waits\n" if by == signal.SIGTERM else "")
    assert process.returncode == 1
    assert checkpoint.exists() == (when == "it trains"), log.read_text()
    lock.release()
