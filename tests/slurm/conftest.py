"""A Slurm for the tests of this folder, which are skipped where there can be none."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_slurm import ONE_MACHINE


def why_not() -> str:
    """Why there can be no Slurm for tests on this machine; empty if there can."""
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    path = f"{os.environ['PATH']}:/usr/sbin"
    programs = ["slurmctld", "slurmd", "munged", "sinfo"]
    missing = [name for name in programs if not shutil.which(name, path=path)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    configuration = Path("/etc/slurm/slurm.conf")
    if configuration.exists() and "one_machine.sh" not in configuration.read_text():
        return "this machine belongs to a Slurm already"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slurm)
            item.add_marker(pytest.mark.slow)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module", autouse=True)
def slurm() -> Iterator[None]:
    with Path(tempfile.gettempdir(), "one-machine-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a machine has one Slurm; other test processes wait
        subprocess.run([ONE_MACHINE, "up"], check=True)
        yield
        subprocess.run([ONE_MACHINE, "down"], check=True)
