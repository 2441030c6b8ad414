"""Slurm, asked before any job is submitted to it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.text import one_line

ASKED = {"slurm_partition": "--partition", "slurm_account": "--account", "qos": "--qos"}
"""By resource, the option of sbatch that is the same for all runs."""


def check_slurm(resources: Mapping[str, Any]) -> None:
    """Raise :class:`BadInput` without Slurm, or without the partition that a job asks for."""
    if shutil.which("sbatch") is None:
        raise BadInput(
            "executor: got slurm, and there is no command sbatch on this machine; start Snakemake "
            "where Slurm is installed, or without `--profile slurm`"
        )
    given = [f"{option}={resources[key]}" for key, option in ASKED.items() if resources.get(key)]
    try:
        asked = subprocess.run(
            ["sbatch", "--test-only", *given, "--wrap=:"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    # A partition without a node that is up now is none of these.
    if asked.returncode and "invalid" in asked.stderr.lower():
        said = one_line(asked.stderr)
        what = " ".join(given) or "a job without a partition"
        raise BadInput(f"resources of the profile: sbatch rejects {what}: {said}")
