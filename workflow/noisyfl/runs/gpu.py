"""How a run uses its GPU, and what the self-test measured on that kind of GPU."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from noisyfl.core.artifacts import read_json
from noisyfl.core.options import BadInput
from noisyfl.simulation.stream_slots import CONTEXT_MB

LAYOUTS = ("contiguous", "channels_last")

SMALLEST_MB = 64.0
"""Megabytes that a run may allocate in any case, however little it has claimed."""

MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


def prepare_cuda() -> None:
    """Set the environment variable that CUDA reads when it starts.

    By default a GPU takes work from eight queues, and streams beyond that number wait for others.
    """
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def mps_is_there() -> bool:
    """Whether NVIDIA's MPS, by which several processes compute on a GPU at once, is started."""
    return (Path(os.environ.get(MPS_PIPES, "/tmp/nvidia-mps")) / "control").exists()


def memory_mb(device: str) -> float:
    """Megabytes of the GPU that a device's name stands for; infinite if it stands for none."""
    prepare_cuda()
    if device == "cpu" or not torch.cuda.is_available():
        return math.inf
    given = torch.device("cuda" if device == "auto" else device)
    return torch.cuda.get_device_properties(given).total_memory / 1e6


def limit_memory(device: torch.device, megabytes: float | None) -> None:
    """Let this process allocate no more of a GPU than it has claimed.

    Args:
        device: a GPU.
        megabytes: how much is claimed, including what CUDA itself takes; None if nothing is.
    """
    # Memory that an earlier run of this process left in the cache would count.
    torch.cuda.empty_cache()
    share = 1.0
    if megabytes is not None:
        total = torch.cuda.get_device_properties(device).total_memory / 1e6
        share = min(1.0, max(megabytes - CONTEXT_MB, SMALLEST_MB) / total)
    torch.cuda.set_per_process_memory_fraction(share, device)
    torch.cuda.reset_peak_memory_stats(device)


@dataclass(frozen=True)
class GpuFacts:
    """What ``python -m noisyfl selftest`` wrote about a kind of GPU.

    Attributes:
        device: its name.
        slots: the most stream slots that the fast executor should have.
        layout: by precision, one of :data:`LAYOUTS`.
        factors: from which a run's time is estimated; see docs/speed.md.
    """

    device: str
    slots: int
    layout: dict[str, str]
    factors: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> GpuFacts | None:
        """Read the facts from a file; None if there is no such file.

        Raises:
            BadInput: it is not what the self-test writes.
        """
        if not path.exists():
            return None
        try:
            given = read_json(path)
            facts = cls(
                given["device"], given["slots"], dict(given["layout"]), dict(given["factors"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{path}: not what the self-test writes ({error!r}); run it again, or remove it"
            ) from error
        if type(facts.slots) is not int or facts.slots < 1:
            raise BadInput(f"{path}: slots: got {facts.slots!r}, expected a number from 1")
        for precision, layout in facts.layout.items():
            if layout not in LAYOUTS:
                raise BadInput(
                    f"{path}: layout.{precision}: got {layout!r} (known: {', '.join(LAYOUTS)})"
                )
        return facts

    def options(self, precision: str) -> dict[str, Any]:
        """Options of the fast executor on such a GPU, for a precision."""
        layout = self.layout.get(precision)
        last = {} if layout is None else {"channels_last": layout == "channels_last"}
        return {"slots": self.slots, **last}


def measured_options(
    path: Path | None, device: torch.device, precision: str, log: Callable[[str], None]
) -> dict[str, Any]:
    """Options of the fast executor as measured on a GPU of the same kind; none otherwise.

    Args:
        path: of ``gpu.json``, if there is one.
        device: where the run is.
        precision: in which the run computes.
        log: takes one line at a time.
    """
    facts = GpuFacts.read(path) if path is not None and device.type == "cuda" else None
    if facts is None:
        return {}
    name = torch.cuda.get_device_name(device)
    if facts.device != name:
        log(f"{path} is of {facts.device}, not of {name}: nothing is taken from it")
        return {}
    return facts.options(precision)


def facts_of(device: torch.device) -> dict[str, Any]:
    """For the provenance: cuDNN's version and the most GPU memory that torch reserved for tensors;
    both None on a CPU.
    """
    if device.type != "cuda":
        return {"cudnn": None, "peak_gpu_memory_mb": None}
    return {
        "cudnn": torch.backends.cudnn.version(),
        "peak_gpu_memory_mb": torch.cuda.max_memory_reserved(device) / 2**20,
    }
