"""How a run uses its GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from noisyfl.core.options import BadInput
from noisyfl.simulation.graphs import free_unused_memory

MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


class NoGpu(BadInput):
    """A run is to use a GPU, and torch sees none on this machine; on another it may."""


SLURM_GPUS = ("SLURM_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE")
"""What Slurm sets in a job that has asked for GPUs."""


def slurm_promised_gpu() -> bool:
    """Whether this process is of a Slurm job that has asked for a GPU."""
    return any(os.environ.get(name, "0") != "0" for name in SLURM_GPUS)


def mps_is_there() -> bool:
    """Whether NVIDIA's MPS, by which several processes compute on a GPU at once, is started."""
    return (Path(os.environ.get(MPS_PIPES, "/tmp/nvidia-mps")) / "control").exists()


def start_anew(device: torch.device) -> None:
    """Give back what an earlier run of this process left of a GPU, and count memory from here."""
    free_unused_memory(device)
    torch.cuda.reset_peak_memory_stats(device)


def gpu_facts(device: torch.device) -> dict[str, Any]:
    """For the provenance: cuDNN's version and the most GPU memory that torch reserved for tensors;
    both None on a CPU.
    """
    if device.type != "cuda":
        return {"cudnn": None, "peak_gpu_memory_mb": None}
    return {
        "cudnn": torch.backends.cudnn.version(),
        "peak_gpu_memory_mb": torch.cuda.max_memory_reserved(device) / 2**20,
    }
