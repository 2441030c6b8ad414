"""Which GPU a process trains on, where several processes share the GPUs of one machine.

Snakemake starts every run as a process of its own and tells none of them which GPU to take. Each
GPU has a few seats, and a run takes one that is free. A seat is a lock on a file, which the system
gives back whenever its process ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from noisyfl.core.options import BadInput

VISIBLE = "CUDA_VISIBLE_DEVICES"

SEATS = 3
"""Runs that share a GPU. On an H200, one run at a time reaches nine tenths of what several reach
together while they train (docs/speed.md); the others use what it leaves while it reads, tests and
writes."""

POLL_SECONDS = 2.0
"""Seconds between two attempts to find a free seat."""

_mine: list[str] = []
"""The GPU that this process has used before, by UUID: CUDA's choice of one is fixed once made."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver knows it: its number, and its UUID, by which CUDA knows it too."""

    index: str
    uuid: str


@contextmanager
def gpu_seat(log: Callable[[str], None]) -> Iterator[str | None]:
    """Wait for a seat at a GPU, and let CUDA see no other GPU.

    Enter this before anything in the process asks CUDA for its GPUs, even if only whether there are
    any (``torch.cuda.is_available()``): from then on CUDA's choice is fixed. For the same reason,
    later runs of the process wait for the same GPU.

    If ``CUDA_VISIBLE_DEVICES`` is set, only the GPUs that it names are considered. Without a driver
    or nvidia-ml-py, and on parts of a GPU (MIG), nobody waits and nothing changes.

    Args:
        log: takes one line at a time.

    Yields:
        The UUID of the GPU, to which ``CUDA_VISIBLE_DEVICES`` is set; None where nothing changes.

    Raises:
        BadInput: the folder of the locks belongs to somebody else, or is open to others.
    """
    gpus = usable_gpus(log)
    if not gpus:
        yield None
        return
    gpu, lock = _seat(gpus, log)
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = gpu.uuid
    _mine[:] = [gpu.uuid]
    try:
        yield gpu.uuid
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before
        lock.release()


def _seat(gpus: Sequence[Gpu], log: Callable[[str], None]) -> tuple[Gpu, FileLock]:
    """The first free seat, of the GPU with the fewest that are taken."""
    folder, said = _folder(), False
    while True:
        for seat in range(SEATS):
            for gpu in gpus:
                lock = FileLock(folder / f"{gpu.uuid}.{seat}")
                with suppress(Timeout):
                    lock.acquire(timeout=0)
                    log(f"takes seat {seat + 1} of {SEATS} at GPU {gpu.index} ({gpu.uuid})")
                    return gpu, lock
        if not said:
            names = ", ".join(gpu.index for gpu in gpus)
            log(f"waits for one of the {SEATS} runs on each GPU ({names}) to end")
            said = True
        time.sleep(POLL_SECONDS)


def _folder() -> Path:
    """Where the locks lie."""
    folder = Path(tempfile.gettempdir()) / f"noisyfl-gpus-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not folder.is_dir() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise BadInput(
            f"{folder}: expected a folder that is yours and closed to others (mode 700); remove "
            "it, or name another place for temporary files in TMPDIR"
        )
    return folder


def usable_gpus(log: Callable[[str], None]) -> list[Gpu]:
    """The GPUs that this process may take; none if it uses one already without a seat."""
    gpus = installed_gpus()
    if _mine:
        return [gpu for gpu in gpus if gpu.uuid in _mine]
    if VISIBLE in os.environ:
        entries = [entry.strip() for entry in os.environ[VISIBLE].split(",")]
        gpus = [gpu for gpu in gpus if gpu.index in entries or gpu.uuid in entries]
    torch = sys.modules.get("torch")
    if gpus and torch is not None and torch.cuda.is_initialized():
        log("does not wait for a GPU: this process uses one already")
        return []
    return gpus


def has_gpu() -> bool:
    """Whether this machine has a GPU that a run may take."""
    return bool(usable_gpus(lambda line: None))


def installed_gpus() -> list[Gpu]:
    """All GPUs that answer and are not split into parts (MIG); none if no driver lists them."""
    try:
        import pynvml
    except ImportError:
        return []
    found = []
    with suppress(pynvml.NVMLError):  # there is no driver
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError):  # a GPU that is lost, or that this user may not use
                device = pynvml.nvmlDeviceGetHandleByIndex(index)
                if not _is_split(device):
                    found.append(Gpu(str(index), pynvml.nvmlDeviceGetUUID(device)))
        pynvml.nvmlShutdown()
    return found


def _is_split(device: Any) -> bool:
    """Whether a GPU, as the driver's library names it, is split into parts."""
    import pynvml

    with suppress(pynvml.NVMLError):  # a GPU that cannot be split
        return bool(pynvml.nvmlDeviceGetMigMode(device)[0] == pynvml.NVML_DEVICE_MIG_ENABLE)
    return False
