"""GPUs that are shared: real processes, and a driver that a file stands for."""

import os
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

from noisyfl.core.options import BadInput
from noisyfl.runs import devices
from noisyfl.runs.devices import SEATS, VISIBLE, gpu_seat

# What nvidia-ml-py says of the GPUs in a file: of each its UUID, and whether it is split into
# parts; or at which call it fails.
DRIVER = """
import os
from pathlib import Path
from types import SimpleNamespace

NVML_DEVICE_MIG_ENABLE = 1

class NVMLError(Exception):
    pass

def nvmlInit():
    if not Path(os.environ["GPUS"]).exists():
        raise NVMLError("Driver Not Loaded")

def _gpus():
    return [line.split() for line in Path(os.environ["GPUS"]).read_text().splitlines()]

def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return len(_gpus())

def nvmlDeviceGetHandleByIndex(index):
    if _gpus()[index] == ["lost"]:
        raise NVMLError("GPU is lost")
    return _gpus()[index]

def nvmlDeviceGetUUID(device):
    if device == ["nameless"]:
        raise NVMLError("Insufficient Permissions")
    return device[0]

def nvmlDeviceGetMigMode(device):
    if len(device) < 2:
        raise NVMLError("Not Supported")
    return [1, 1]
"""

# Takes a seat as often as its argument says, and holds each until a line comes in.
SITTER = """
import os, signal, sys
from noisyfl.runs import devices

signal.alarm(600)  # Nobody waits for ever.
devices.POLL_SECONDS = 0.05

def say(*words):
    print(*words, flush=True)

for _ in range(int(sys.argv[1])):
    with devices.gpu_seat(lambda line: say("log", line)) as gpu:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
        say("has", gpu)
        sys.stdin.readline()
"""


class Sitter:
    """A process that takes seats."""

    def __init__(self, times):
        self.running = subprocess.Popen(
            [sys.executable, "-c", SITTER, str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self, start):
        """The rest of its next line that starts so; others are passed over."""
        for line in self.running.stdout:
            if line.startswith(start):
                return line.removeprefix(start).strip()
        raise AssertionError(f"it ended without {start!r}: {self.running.wait()}")

    def go_on(self):
        self.running.stdin.write("\n")
        self.running.stdin.flush()

    def kill(self):
        self.running.kill()
        self.running.wait()


class Machine:
    """A machine with GPUs, and the processes on it."""

    def __init__(self, folder, ends):
        self.folder = folder
        self._ends = ends

    def gpus(self, *lines):
        (self.folder / "gpus").write_text("".join(f"{line}\n" for line in lines))

    def sitter(self, times=1):
        made = Sitter(times)
        self._ends.enter_context(made.running)
        self._ends.callback(made.kill)
        return made


@pytest.fixture
def machine(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "pynvml.py").write_text(DRIVER)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setattr(devices, "_mine", [])
    with ExitStack() as ends:
        yield Machine(tmp_path, ends)
    sys.modules.pop("pynvml", None)


@pytest.mark.slow
def test_runs_spread_over_gpus_and_the_next_waits_for_one_that_ends_or_is_killed(machine):
    machine.gpus("GPU-a", "GPU-b")
    runs = [machine.sitter() for _ in range(2 * SEATS)]
    held = [run.says("has") for run in runs]
    assert held.count("GPU-a") == held.count("GPU-b") == SEATS
    waiting, later = machine.sitter(), machine.sitter()
    for one in (waiting, later):
        assert one.says("log") == "waits for one of the 3 runs on each GPU (0, 1) to end"
    runs[0].kill()
    runs[1].go_on()
    assert sorted(one.says("has") for one in (waiting, later)) == sorted(held[:2])


def test_a_process_stays_on_its_first_gpu(machine):
    machine.gpus("GPU-a", "GPU-b")
    run = machine.sitter(times=2)
    assert run.says("log") == "takes seat 1 of 3 at GPU 0 (GPU-a)"
    others = [machine.sitter() for _ in range(2)]
    for one in others:
        one.says("has")
    run.go_on()
    assert run.says("has") == "GPU-a"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("1", "GPU-bb"), ("2,1", "GPU-bb"), ("GPU-cc", "GPU-cc"), ("", None), ("-1", None)],
)
def test_only_gpus_that_the_process_may_see_are_taken(machine, monkeypatch, given, expected):
    machine.gpus("GPU-aa", "GPU-bb", "GPU-cc")
    monkeypatch.setenv(VISIBLE, given)
    with gpu_seat(print) as gpu:
        assert gpu == expected


@pytest.mark.parametrize("broken", ["lost", "nameless"])
@pytest.mark.parametrize("given", [None, "1"])
def test_a_broken_gpu_leaves_the_others_usable(machine, monkeypatch, broken, given):
    machine.gpus(broken, "GPU-b")
    if given:
        monkeypatch.setenv(VISIBLE, given)
    with gpu_seat(print) as gpu:
        assert gpu == "GPU-b"
    machine.gpus(broken)
    assert not devices.has_gpu()


@pytest.mark.parametrize("before", [None, "1,0"])
def test_the_environment_is_as_before_afterwards(machine, monkeypatch, before):
    machine.gpus("GPU-a", "GPU-b")
    if before:
        monkeypatch.setenv(VISIBLE, before)
    with suppress(ZeroDivisionError), gpu_seat(print) as gpu:
        assert os.environ[VISIBLE] == gpu == "GPU-a"
        raise ZeroDivisionError
    assert os.environ.get(VISIBLE) == before
    run = machine.sitter()
    assert run.says("log") == "takes seat 1 of 3 at GPU 0 (GPU-a)"


@pytest.mark.parametrize("missing", ["library", "driver", "whole GPUs"])
def test_without_gpus_or_what_names_them_nothing_changes(machine, monkeypatch, missing):
    if missing == "library":
        monkeypatch.setitem(sys.modules, "pynvml", None)
    elif missing == "whole GPUs":
        machine.gpus("GPU-a parts")
    lines = []
    with gpu_seat(lines.append) as gpu:
        assert gpu is None
        assert VISIBLE not in os.environ
    assert lines == []


def test_a_process_that_uses_a_gpu_already_does_not_choose(machine, monkeypatch):
    import torch

    machine.gpus("GPU-a")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    lines = []
    with gpu_seat(lines.append) as gpu:
        assert gpu is None
    assert lines == ["does not wait for a GPU: this process uses one already"]


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_others_can_reach_is_refused(machine, kind):
    machine.gpus("GPU-a")
    folder = machine.folder / "tmp" / f"noisyfl-gpus-{os.getuid()}"
    if kind == "open":
        folder.mkdir()
        folder.chmod(0o750)
    elif kind == "link":
        folder.symlink_to(machine.folder)
    else:
        folder.write_text("")
    with (
        pytest.raises(BadInput, match=r"noisyfl-gpus-\d+: expected a folder that is yours"),
        gpu_seat(print),
    ):
        pass
