"""GPUs that are shared: real processes, and a driver that a file stands for."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from noisyfl.core.options import BadInput
from noisyfl.runs import devices
from noisyfl.runs.devices import MARGIN_MB, VISIBLE, Claim, Gpu, Part, choose

# What nvidia-ml-py says of the GPUs in a file: of each its UUID, total and used MiB, and whether it
# is cut in parts.
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
def nvmlDeviceGetHandleByIndex(index): return _gpus()[index]
def nvmlDeviceGetUUID(device): return device[0]

def nvmlDeviceGetMemoryInfo(device):
    if device[1] == "unknown":
        raise NVMLError("Not Supported")
    return SimpleNamespace(total=int(device[1]) * 2**20, used=int(device[2]) * 2**20)

def nvmlDeviceGetMigMode(device):
    if len(device) < 4:
        raise NVMLError("Not Supported")
    return [1, 1]
"""

# Claims what its arguments say, one after another, and holds each until a line comes in.
CLAIMANT = """
import os, signal, sys, time
from noisyfl.runs import devices

signal.alarm(600)  # Nobody waits for ever.
devices.POLL_SECONDS = 0.05

def say(*words):
    print(*words, flush=True)

for megabytes in map(float, sys.argv[1:]):
    with devices.gpu_claim(megabytes, megabytes, lambda line: say("log", line)) as part:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == part.gpu
        say("has", part.gpu, time.monotonic())
        sys.stdin.readline()
        last = time.monotonic()
    say("had", last)
"""


class Claimant:
    """A process that claims GPU memory."""

    def __init__(self, *megabytes):
        self.running = subprocess.Popen(
            [sys.executable, "-c", CLAIMANT, *map(str, megabytes)],
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

    def gpu(self):
        return self.says("has").split()[0]

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
        (self.folder / "new").write_text("".join(f"{line}\n" for line in lines))
        (self.folder / "new").rename(self.folder / "gpus")

    def claimant(self, *megabytes):
        made = Claimant(*megabytes)
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
    monkeypatch.setattr(devices, "_earlier", {})
    with ExitStack() as ends:
        yield Machine(tmp_path, ends)
    sys.modules.pop("pynvml", None)


def claim(gpu, megabytes, others=0, age=0):
    return Claim(1, 0.0, gpu, megabytes, others, time.time() - age)


LARGE, SMALL = Gpu("0", "GPU-large", 20_000, 0), Gpu("1", "GPU-small", 8_000, 0)


def test_small_runs_share_a_gpu_until_another_has_more_room():
    claims = []
    for expected in (LARGE, LARGE, SMALL, None):
        part, words = choose([LARGE, SMALL], claims, 7_000, 7_000)
        assert part == (expected and Part(expected.uuid, 7_000))
        claims.append(claim(part.gpu if part else "", 7_000))
    assert words == (
        "waits for 7000 MB of a GPU: "
        f"GPU 0 has {6_000 - MARGIN_MB:.0f} of 20000 to give, "
        f"GPU 1 has {1_000 - MARGIN_MB:.0f} of 8000 to give"
    )


def test_the_margin_is_nobodys():
    whole = 8_000 - MARGIN_MB
    assert choose([SMALL], [], whole, whole)[1] == "takes 7488 MB of GPU 1 (GPU-small)"
    assert "alone" in choose([SMALL], [], whole + 1, whole + 1)[1]


def test_a_run_that_no_gpu_has_room_for_has_one_for_itself():
    claims = [claim("GPU-large", 1_000), claim("GPU-small", 1_000)]
    assert choose([LARGE, SMALL], claims, 50_000, 50_000) == (
        None,
        "waits for a GPU that nobody claims: 50000 MB are more than any here has",
    )
    part, words = choose([LARGE, SMALL], claims[:1], 50_000, 60_000)
    assert part == Part("GPU-small", 50_000)
    assert words.endswith("GPU 1 (GPU-small), alone, as no GPU here has as much")
    assert choose([SMALL], [claim("GPU-small", 50_000)], 10, 10)[0] is None


def test_a_run_takes_what_is_free_of_a_gpu_that_it_shares_with_nobody():
    """A desktop leaves 23.5 GB of an RTX 4090, of which 24 could be used."""
    desktop = Gpu("0", "GPU-a", 24_564, 564)
    part, words = choose([desktop], [], 3_000, 24_000)
    assert part == Part("GPU-a", 24_000 - MARGIN_MB)
    assert words == "takes 23488 MB of GPU 0 (GPU-a), all that is free"
    # Where another run has claimed a part, it is worth waiting for.
    part, words = choose([desktop], [claim("GPU-a", 9_000, others=564)], 3_000, 24_000)
    assert part is None
    assert words.startswith("waits for 24000 MB, at least 3000, of a GPU: GPU 0 has 14488 of 24564")


def test_nobody_waits_for_ever_for_a_gpu_that_others_fill():
    full = Gpu("0", "GPU-a", 10_000, 9_900)
    assert choose([full], [], 3_000, 4_000)[0] is None
    part, words = choose([full], [], 3_000, 4_000, patient=False)
    assert part == Part("GPU-a", 3_000)
    assert words.endswith("alone, as no GPU has had as much for minutes")
    assert choose([full], [claim("GPU-a", 100)], 3_000, 4_000, patient=False)[0] is None


def test_patience_ends(machine, monkeypatch):
    machine.gpus("GPU-a 10000 9900")
    monkeypatch.setattr(devices, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(devices, "PATIENCE_SECONDS", 0.2)
    lines = []
    with devices.gpu_claim(3_000, 4_000, lines.append) as part:
        assert part == Part("GPU-a", 3_000)
    assert [line.split()[0] for line in lines] == ["waits", "takes"]


def test_what_others_use_is_left_alone():
    used = Gpu("0", "GPU-a", 10_000, 6_000)
    assert choose([used], [], 3_000, 3_000)[0] == Part("GPU-a", 3_000)
    assert choose([used], [], 4_000, 4_000)[0] is None
    # 6,000 are used, but by strangers, whom the claim has seen: there are 2,000 left.
    assert used.room([claim("GPU-a", 2_000, others=6_000)]) == 2_000 - MARGIN_MB
    # What a claim covers is not counted twice, and strangers that have gone are forgotten.
    assert used.room([claim("GPU-a", 6_000)]) == 4_000 - MARGIN_MB
    old = claim("GPU-a", 6_000, others=3_000, age=devices.SETTLING_SECONDS + 1)
    assert used.room([old]) == 4_000 - MARGIN_MB


def test_a_run_waits_for_room_which_one_that_ends_or_is_killed_gives_back(machine):
    machine.gpus("GPU-a 10000 0")
    first, second = machine.claimant(4_000), machine.claimant(4_000)
    assert {first.gpu(), second.gpu()} == {"GPU-a"}
    waiting = machine.claimant(9_000)
    waiting.says("log waits for 9000 MB")
    first.go_on()
    second.kill()
    assert waiting.gpu() == "GPU-a"


def test_a_process_stays_on_its_first_gpu_and_what_it_kept_there_is_its_own(machine):
    machine.gpus("GPU-a 10000 0", "GPU-b 20000 15000")
    runs = machine.claimant(6_000, 5_000, 9_000)
    assert runs.gpu() == "GPU-a"
    # CUDA has been told, and torch keeps what it once had, while the other GPU is empty.
    machine.gpus("GPU-a 10000 6000", "GPU-b 20000 0")
    for _ in range(2):
        runs.go_on()
        assert runs.gpu() == "GPU-a"


@pytest.mark.slow
def test_many_at_once_never_take_more_than_there_is(machine):
    total = round(9_000 + MARGIN_MB)
    machine.gpus(f"GPU-a {total} 0", f"GPU-b {total} 0")
    runs = [machine.claimant(3_000) for _ in range(8)]

    def held(run):
        gpu, since = run.says("has").split()
        time.sleep(0.5)
        run.go_on()
        return gpu, float(since), float(run.says("had"))

    with ThreadPoolExecutor(len(runs)) as threads:
        times = list(threads.map(held, runs))
    for gpu in ("GPU-a", "GPU-b"):
        of_gpu = [(begin, end) for name, begin, end in times if name == gpu]
        assert max(sum(b <= begin < e for b, e in of_gpu) for begin, _ in of_gpu) <= 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [("1", "GPU-bb"), ("2,1", "GPU-cc"), ("GPU-bb", "GPU-bb"), ("", None), ("-1", None)],
)
def test_only_gpus_that_the_process_may_see_are_taken(machine, monkeypatch, given, expected):
    machine.gpus("GPU-aa 30000 0", "GPU-bb 10000 0", "GPU-cc 20000 0")
    monkeypatch.setenv(VISIBLE, given)
    with devices.gpu_claim(1_000, 1_000, print) as part:
        assert (part and part.gpu) == expected


@pytest.mark.parametrize("before", [None, "1,0"])
def test_the_environment_is_as_before_afterwards(machine, monkeypatch, before):
    machine.gpus("GPU-a 10000 0", "GPU-b 10000 500")
    if before:
        monkeypatch.setenv(VISIBLE, before)
    with suppress(ZeroDivisionError), devices.gpu_claim(1_000, 1_000, print) as part:
        assert os.environ[VISIBLE] == part.gpu == "GPU-a"
        raise ZeroDivisionError
    assert os.environ.get(VISIBLE) == before
    with devices._claims() as claims:
        assert claims == []


@pytest.mark.parametrize("missing", ["library", "driver", "whole GPUs"])
def test_without_gpus_or_what_counts_them_nothing_changes(machine, monkeypatch, missing):
    if missing == "library":
        monkeypatch.setitem(sys.modules, "pynvml", None)
    elif missing == "whole GPUs":
        machine.gpus("GPU-a 10000 0 parts")
    lines = []
    with devices.gpu_claim(1_000, 1_000, lines.append) as part:
        assert part is None
        assert VISIBLE not in os.environ
    assert lines == []


def test_a_driver_that_does_not_know_leaves_a_line_in_the_log(machine):
    machine.gpus("GPU-a unknown unknown")
    lines = []
    with devices.gpu_claim(1_000, 1_000, lines.append) as part:
        assert part is None
    assert lines == ["no GPU is claimed: the driver does not say how full they are (Not Supported)"]


def test_a_process_that_uses_a_gpu_already_does_not_choose(machine, monkeypatch):
    import torch

    machine.gpus("GPU-a 10000 0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    lines = []
    with devices.gpu_claim(1_000, 1_000, lines.append) as part:
        assert part is None
    assert lines == ["no GPU is claimed: this process uses one already"]


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_others_can_reach_is_refused(machine, kind):
    machine.gpus("GPU-a 10000 0")
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
        devices.gpu_claim(1_000, 1_000, print),
    ):
        pass
