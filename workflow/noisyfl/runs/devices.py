"""Which GPU a process trains on, where several processes share the GPUs of one machine.

Snakemake starts every run as a process of its own and tells none of them which GPU to take. So they
settle it among themselves, in a file of claims: each writes down how much of which GPU it takes. A
claim counts while its process lives.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from noisyfl.core.artifacts import write_json
from noisyfl.core.options import BadInput

VISIBLE = "CUDA_VISIBLE_DEVICES"

MARGIN_MB = 512.0
"""Megabytes of each GPU that nobody may claim: the driver keeps some memory that it does not report
as used."""

POLL_SECONDS = 5.0
"""Seconds between two checks whether a GPU has room."""

PATIENCE_SECONDS = 180.0
"""Seconds after which a run that finds no room takes a GPU that nobody claims: what other programs
use there may stay in use for ever."""

SETTLING_SECONDS = 300.0
"""Seconds after which a process is taken to have allocated what it claimed: by then its data are
read and its steps captured."""

_earlier: dict[str, float] = {}
"""By UUID, the GPU that this process has claimed before, and the megabytes of its largest claim
there, which it may still hold. There is one at most, since CUDA's choice of a GPU is fixed once
it is made."""


@dataclass(frozen=True)
class Claim:
    """The part of a GPU that a process has claimed.

    Attributes:
        pid, born: the process's number and its start time, since the system reuses numbers.
        gpu: the GPU's UUID.
        megabytes: how much memory is claimed.
        others: megabytes in use there outside all claims when this one was made.
        since: when it was made, in seconds since the epoch.
    """

    pid: int
    born: float
    gpu: str
    megabytes: float
    others: float
    since: float


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver sees it.

    The driver's MiB are treated as megabytes, which errs on the safe side.

    Attributes:
        index: the number that the driver gives it.
        uuid: its identifier, by which CUDA knows it too.
        total: its memory in megabytes.
        used: megabytes in use, by any process.
    """

    index: str
    uuid: str
    total: float
    used: float

    def others(self, claims: Sequence[Claim]) -> float:
        """Megabytes in use, less the claims on this GPU and what this process may still hold."""
        claimed = sum(claim.megabytes for claim in claims if claim.gpu == self.uuid)
        return max(0.0, self.used - claimed - _earlier.get(self.uuid, 0.0))

    def room(self, claims: Sequence[Claim]) -> float:
        """Megabytes that are left to claim, if all claims on this GPU are used in full.

        A process that has just made its claim uses none of it yet, so that memory of other
        programs would pass for the claimed memory. Until :data:`SETTLING_SECONDS` have passed,
        other programs are therefore taken to use at least what was recorded with the claim.
        """
        here = [claim for claim in claims if claim.gpu == self.uuid]
        young = [c.others for c in here if c.since > time.time() - SETTLING_SECONDS]
        others = max([self.others(claims), *young])
        return self.total - MARGIN_MB - others - sum(claim.megabytes for claim in here)


@dataclass(frozen=True)
class Part:
    """The part of a GPU that a run may use: the GPU, by its UUID, and megabytes of its memory."""

    gpu: str
    megabytes: float


@contextmanager
def gpu_claim(least: float, most: float, log: Callable[[str], None]) -> Iterator[Part | None]:
    """Claim part of a GPU as soon as there is room, and let CUDA see no other GPU.

    Enter this before anything in the process asks CUDA for its GPUs, even if only whether there are
    any (``torch.cuda.is_available()``): from then on CUDA's choice is fixed. For the same reason,
    later claims of the process are made on the same GPU.

    A GPU's room is what the claims on it, the memory that other programs use and :data:`MARGIN_MB`
    leave. Of the GPUs with room for the most that is wanted, the one with the most room is taken.
    If there is none, a GPU on which there is no claim and that has room for the least: waiting
    would make its room no larger. A run that needs more than any GPU has, or that has waited for
    :data:`PATIENCE_SECONDS`, takes any GPU on which there is no claim.

    If ``CUDA_VISIBLE_DEVICES`` is set, only the GPUs that it names are considered. Without a driver
    or nvidia-ml-py, and on parts of a GPU (MIG), nothing is claimed and nothing changes.

    Args:
        least: megabytes without which the process cannot do, including what CUDA itself takes.
        most: megabytes that it can use.
        log: takes one line at a time.

    Yields:
        The part that is claimed, to whose GPU ``CUDA_VISIBLE_DEVICES`` is set; None where nothing
        is claimed.

    Raises:
        BadInput: the folder of the claims belongs to somebody else, or is open to others.
    """
    part = _take(least, most, log)
    if part is None:
        yield None
        return
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = part.gpu
    try:
        yield part
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before
        with _claims() as claims:
            claims[:] = [claim for claim in claims if claim.pid != os.getpid()]


def _take(least: float, most: float, log: Callable[[str], None]) -> Part | None:
    """Claim part of a GPU as soon as there is room; None if there is no GPU to claim."""
    begun, said = time.monotonic(), False
    while gpus := _usable(log):
        with _claims() as claims:
            patient = time.monotonic() - begun < PATIENCE_SECONDS
            part, words = choose(gpus, claims, least, most, patient)
            if part is not None:
                me = psutil.Process()
                others = next(gpu for gpu in gpus if gpu.uuid == part.gpu).others(claims)
                born = me.create_time()
                claims.append(Claim(me.pid, born, part.gpu, part.megabytes, others, time.time()))
        if part is not None:
            _earlier[part.gpu] = max(_earlier.get(part.gpu, 0.0), part.megabytes)
            log(words)
            return part
        if not said:
            log(words)
            said = True
        time.sleep(POLL_SECONDS)
    return None


def choose(
    gpus: Sequence[Gpu],
    claims: Sequence[Claim],
    least: float,
    most: float,
    patient: bool = True,
) -> tuple[Part | None, str]:
    """Return the part of a GPU to be claimed, or None if no room is enough, and that in words.

    Args:
        gpus: at least one.
        claims: of living processes, on any GPU.
        least: megabytes that are needed.
        most: megabytes that can be used.
        patient: whether to wait for a GPU with room rather than to take one without a claim.
    """
    rooms = {gpu: gpu.room(claims) for gpu in gpus}
    taken = {claim.gpu for claim in claims}
    unclaimed = {gpu: room for gpu, room in rooms.items() if gpu.uuid not in taken}
    too_large = least + MARGIN_MB > max(gpu.total for gpu in gpus)
    for possible, remark in (
        ([gpu for gpu, room in rooms.items() if room >= most], ""),
        ([gpu for gpu, room in unclaimed.items() if room >= least], ", all that is free"),
        ([*unclaimed] if too_large else [], ", alone, as no GPU here has as much"),
        ([] if patient else [*unclaimed], ", alone, as no GPU has had as much for minutes"),
    ):
        if possible:
            gpu = max(possible, key=rooms.__getitem__)
            part = Part(gpu.uuid, min(most, max(least, rooms[gpu])))
            return part, f"takes {part.megabytes:.0f} MB of GPU {gpu.index} ({gpu.uuid}){remark}"
    if too_large:
        return (
            None,
            f"waits for a GPU that nobody claims: {least:.0f} MB are more than any here has",
        )
    listed = ", ".join(
        f"GPU {gpu.index} has {max(0.0, room):.0f} of {gpu.total:.0f} to give"
        for gpu, room in rooms.items()
    )
    wanted = f"{most:.0f} MB" if least == most else f"{most:.0f} MB, at least {least:.0f},"
    return None, f"waits for {wanted} of a GPU: {listed}"


def _usable(log: Callable[[str], None]) -> list[Gpu]:
    """The GPUs that this process may claim; none if it already uses one without a claim."""
    gpus = _installed(log)
    if _earlier:
        return [gpu for gpu in gpus if gpu.uuid in _earlier]
    if VISIBLE in os.environ:
        entries = [entry.strip() for entry in os.environ[VISIBLE].split(",")]
        gpus = [gpu for gpu in gpus if gpu.index in entries or gpu.uuid in entries]
    torch = sys.modules.get("torch")
    if gpus and torch is not None and torch.cuda.is_initialized():
        log("no GPU is claimed: this process uses one already")
        return []
    return gpus


def _installed(log: Callable[[str], None]) -> list[Gpu]:
    """All GPUs that are not split into parts (MIG); none if no driver tells about them."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    found = []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            with suppress(pynvml.NVMLError):  # a GPU that cannot be split
                if pynvml.nvmlDeviceGetMigMode(device)[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
                    continue
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            total, used = memory.total / 2**20, memory.used / 2**20
            found.append(Gpu(str(index), pynvml.nvmlDeviceGetUUID(device), total, used))
    except pynvml.NVMLError as error:
        log(f"no GPU is claimed: the driver does not say how full they are ({error})")
        return []
    finally:
        pynvml.nvmlShutdown()
    return found


@contextmanager
def _claims() -> Iterator[list[Claim]]:
    """The claims of living processes, locked against other processes; changes are saved."""
    folder = Path(tempfile.gettempdir()) / f"noisyfl-gpus-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not folder.is_dir() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise BadInput(
            f"{folder}: expected a folder that is yours and closed to others (mode 700); remove "
            "it, or name another place for temporary files in TMPDIR"
        )
    path = folder / "claims.json"
    with FileLock(folder / "lock"):
        known = json.loads(path.read_text()) if path.exists() else []
        claims = [claim for claim in (Claim(**item) for item in known) if _lives(claim)]
        yield claims
        write_json(path, [asdict(claim) for claim in claims])


def _lives(claim: Claim) -> bool:
    try:
        process = psutil.Process(claim.pid)
        # A zombie, which its parent has not waited for yet, has given its memory back.
        return process.create_time() == claim.born and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
