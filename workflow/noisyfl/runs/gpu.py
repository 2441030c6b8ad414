"""How a run uses its GPU, and what the self-test measured on that kind of GPU."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from noisyfl.core.options import BadInput
from noisyfl.simulation.graphs import free_unused_memory
from noisyfl.simulation.stream_slots import CONTEXT_MB
from noisyfl.specs.gpu_facts import GpuFacts

SMALLEST_MB = 64.0
"""Megabytes that a run may allocate in any case, however little it has claimed."""

MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


class NoGpu(BadInput):
    """A run is to use a GPU, and torch sees none on this machine; on another it may."""


SLURM_GPUS = ("SLURM_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE")
"""What Slurm sets in a job that has asked for GPUs."""


def slurm_promised_gpu() -> bool:
    """Whether this process is of a Slurm job that has asked for a GPU."""
    return any(os.environ.get(name, "0") != "0" for name in SLURM_GPUS)


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
    free_unused_memory(device)  # what an earlier run of this process left would count
    share = 1.0
    if megabytes is not None:
        total = torch.cuda.get_device_properties(device).total_memory / 1e6
        share = min(1.0, max(megabytes - CONTEXT_MB, SMALLEST_MB) / total)
    torch.cuda.set_per_process_memory_fraction(share, device)
    torch.cuda.reset_peak_memory_stats(device)


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
    if path is None or not path.exists() or device.type != "cuda":
        return {}
    facts = GpuFacts.read_file(path)
    name = torch.cuda.get_device_name(device)
    if facts.device != name:
        log(f"{path} is of {facts.device}, not of {name}: nothing is taken from it")
        return {}
    layout = facts.layout.get(precision)
    last = {} if layout is None else {"channels_last": layout == "channels_last"}
    return {
        "slots": facts.slots,
        "steps_a_graph": facts.steps_a_graph,
        "fused_update": facts.fused_update,
        **last,
    }


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
