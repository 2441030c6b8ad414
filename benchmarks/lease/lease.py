"""What is done on a borrowed machine: steps with limits, of which one that fails leaves the others.

``lease.py check SECONDS``
    keeps what came with this call; what the GPU computes, and how fast
``lease.py runs SECONDS``
    trains the runs of data/lease/specs in their order, and on the processor's other cores those of
    data/lease/cpu_specs; called again, it goes on

It runs in the root of a checkout, and writes into $OUT: lease.log, results.jsonl (a line for each
step and run), runs.out, and back.*, the parts of one archive with runs, and with checkpoints of
those that the clock ended. What the next call needs lies in $LEASE_STATE. DEVICE=cpu rehearses it
without a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

BEGUN = time.monotonic()
ROOT = Path.cwd()
KIT = Path("data/lease")
OUT = Path(os.environ.get("OUT", "lease_out"))
STATE = Path(os.environ.get("LEASE_STATE", "/tmp/lease"))
RESULTS = STATE / "results"
DEVICE = os.environ.get("DEVICE", "cuda:0")  # with its number: such a run waits for no seat
ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(STATE / "site"), str(ROOT / "workflow")]),
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}

PART, PARTS = 15 * 2**20, 4
"""How large a file that is sent back may be, and how many there may be beside three others."""

LAST = 20.0
"""Seconds that are kept for saving checkpoints and packing."""


def left(seconds: float) -> float:
    """Seconds that are left of so many since the start."""
    return seconds - (time.monotonic() - BEGUN)


def log(text: str) -> None:
    """Say a line, and keep it."""
    line = f"[{time.monotonic() - BEGUN:6.1f}] {text}"
    print(line, flush=True)
    with (OUT / "lease.log").open("a") as file:
        file.write(line + "\n")


def record(**row: object) -> None:
    """Keep a finding."""
    with (OUT / "results.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def step(name: str, limit: float, *command: str) -> int | None:
    """Run a command for so many seconds at most; its output goes to the log. Returns its status."""
    if limit < 5:
        log(f"{name}: left out, no time")
        return None
    process = subprocess.Popen(
        command,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        text += "\n(ended by the clock)"
    log(f"{name}: rc {process.returncode}\n{text.strip()[-20_000:]}")
    record(step=name, rc=process.returncode)
    return process.returncode


def keep() -> None:
    """Install the wheels, and keep the halves of the data that came with this call."""
    site, wheels = STATE / "site", sorted(map(str, KIT.glob("whl/*.whl")))
    if wheels and not site.exists():
        pip = (
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--no-compile",
        )
        step("install", 60, *pip, "--target", str(site), *wheels)
    for half in ("lease1", "lease2"):
        if (source := Path("data", half)).exists() and not (STATE / half).exists():
            shutil.copytree(source, STATE / half)
    log(f"kept: {sorted(path.name for path in STATE.iterdir())}")


def check(seconds: float) -> None:
    """What the GPU computes, and how fast."""
    step("machine", 20, "bash", "-c", "nvidia-smi; nproc --all; lscpu | grep Model.name; free -g")
    minutes = str((left(seconds) - 45) / 60)
    selftest = ("-m", "noisyfl", "selftest", "--device", DEVICE, "--minutes", minutes)
    step("selftest", left(seconds) - 5, sys.executable, *selftest)


def data() -> bool:
    """CIFAR-10 as noisyfl's Parquet, if both halves are there."""
    if (RESULTS / "data/cifar10/test.parquet").exists():
        return True
    halves = [STATE / name for name in ("lease1", "lease2")]
    if not all(half.exists() for half in halves):
        log("no CIFAR-10: was the machine given back between the calls?")
        return False
    unpack = (str(KIT / "cifar10.py"), "unpack", *map(str, halves), str(RESULTS))
    return step("CIFAR-10", 60, sys.executable, *unpack) == 0


class Pool:
    """Runs on one kind of processor: so many at once, on cores of their own.

    Args:
        name: of the folder's beginning.
        together: how many at once.
        device: on which.
        cores: as taskset names them.
    """

    def __init__(self, name: str, together: int, device: str, cores: str) -> None:
        self.name, self.together, self.device, self.cores = name, together, device, cores
        done = {path.name for path in (RESULTS / "runs").glob("*")}
        specs = sorted(KIT.glob(f"{name}/*.json"))
        self.waiting = [(spec, "fast") for spec in specs if _run(spec) not in done]
        self.running: dict[subprocess.Popen[bytes], tuple[Path, str, float]] = {}

    def go_on(self, time_left: float) -> None:
        """Start what there is room for, and note what has ended."""
        while self.waiting and len(self.running) < self.together and time_left > 2 * LAST:
            spec, executor = self.waiting.pop(0)
            noisyfl = (sys.executable, "-m", "noisyfl", "train", str(spec), "--device", self.device)
            options = ("--executor", executor, "--results", str(RESULTS))
            with (OUT / "runs.out").open("a") as out:
                process = subprocess.Popen(
                    ("taskset", "-c", self.cores, *noisyfl, *options),
                    env=ENV,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.running[process] = spec, executor, time.monotonic()
            log(f"{self.name} begins {_run(spec)}, {executor}")
        for process in [each for each in self.running if each.poll() is not None]:
            spec, executor, since = self.running.pop(process)
            took, status = time.monotonic() - since, process.returncode
            log(f"{self.name} ends {_run(spec)}, {executor}: rc {status}, {took:.0f} s")
            record(run=_run(spec), executor=executor, device=self.device, rc=status, seconds=took)
            if status and executor == "fast" and self.device != "cpu":
                # The plain loop gives the same numbers, later.
                self.waiting.insert(0, (spec, "loop"))


def _run(spec: Path) -> str:
    return spec.stem.partition("_")[2]


def runs(seconds: float) -> None:
    """Train, until the time is over; what is not done saves a checkpoint."""
    needed = "".join(path.read_text() for path in KIT.glob("*specs/*.json"))
    if '"cifar10"' in needed and not data():
        return
    cores = os.cpu_count() or 1
    together = int(os.environ.get("TOGETHER", "3"))
    first = min(together + 2, cores) - 1  # the last of the cores that the runs on the GPU have
    others = max(0, cores - 1 - first) if DEVICE != "cpu" else 0
    pools = [
        Pool("specs", together, DEVICE, f"0-{first}"),
        Pool("cpu_specs", others, "cpu", f"{min(first + 1, cores - 1)}-{cores - 1}"),
    ]
    packed = time.monotonic()
    while left(seconds) > LAST:
        for pool in pools:
            pool.go_on(left(seconds))
        if not any(pool.running for pool in pools):
            break
        if time.monotonic() - packed > 90:
            pack(with_checkpoints=False)
            packed = time.monotonic()
        time.sleep(0.5)
    running = [process for pool in pools for process in pool.running]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(timeout=max(1.0, left(seconds) - 8))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    for path in sorted(RESULTS.glob("logs/runs/*.log")):
        log(f"{path.stem}: {path.read_text().strip().splitlines()[-1]}")
    pack(with_checkpoints=True)


def pack(*, with_checkpoints: bool) -> None:
    """Write the archive in parts: runs first, then checkpoints as far as there is room, small ones
    first.
    """
    whole = STATE / "back.tar.xz"
    with tarfile.open(whole, "w:xz", preset=1) as tar:
        for folder in ("runs", "partitions", "logs"):
            if (RESULTS / folder).exists():
                tar.add(RESULTS / folder, folder)
        room = PART * PARTS - 2**20 - whole.stat().st_size
        checkpoints = sorted(RESULTS.glob("checkpoints/*.pt"), key=lambda path: path.stat().st_size)
        for path in checkpoints if with_checkpoints else ():
            room -= path.stat().st_size
            log(f"checkpoint {path.name}: {path.stat().st_size / 2**20:.1f} MiB")
            if room > 0:
                tar.add(path, f"checkpoints/{path.name}")
    content = whole.read_bytes()
    for number, start in enumerate(range(0, len(content), PART)):
        (OUT / f"back.{number}").write_bytes(content[start : start + PART])


def main() -> None:
    """Do what the arguments say."""
    OUT.mkdir(parents=True, exist_ok=True)
    STATE.mkdir(parents=True, exist_ok=True)
    seconds = float(sys.argv[2])
    keep()
    try:
        {"check": check, "runs": runs}[sys.argv[1]](seconds)
    finally:
        log("end")


if __name__ == "__main__":
    main()
