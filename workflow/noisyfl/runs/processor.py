"""Facts about the processor on which the last digits of a run's numbers depend."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

CPUINFO = Path("/proc/cpuinfo")

SETS = ("avx", "amx", "fma")
"""How the names of instruction sets begin by which oneDNN and torch choose their code."""


def device_name() -> str:
    """The kind of the processor and its number of cores, as tables print it."""
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def processor_facts() -> dict[str, Any]:
    """For the provenance: ``processor``, the model as its maker calls it (None if the system does
    not say); ``cpu_capability``, the instructions for which torch chose its own code; and
    ``instruction_sets``, by which oneDNN chooses its code for convolutions (empty if unknown).

    On equal ones a run that is repeated is equal bit for bit; on others sums are added up in
    another order, so that the last bits of a number may differ, and more of it from round to round.
    """
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    flags = found.get("flags", found.get("Features", "")).split()
    return {
        "processor": found.get("model name"),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "instruction_sets": sorted(flag for flag in flags if flag.startswith(SETS)),
    }
